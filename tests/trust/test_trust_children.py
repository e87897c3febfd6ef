"""Child processes import nothing from the working folder or `PYTHONPATH`, however Fourfold was started."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from files_support import made_pdf

import fourfold
from fourfold import child_process
from fourfold.storage.sqlite.publishing import PublishJob

SOURCE = Path(fourfold.__file__).parent
STARTERS = ("start",)
PROCESS_CALLS = frozenset({"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"})
OTHER_WAYS = frozenset({"fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "startfile"})
OTHER_MODULES = frozenset({"multiprocessing", "pty", "concurrent.futures.process"})
HOSTILE = "json pypdf yaml html ast re struct select pickle numpy apsw faiss site encodings tree_sitter logging"
WORK = """
import importlib, os, sys
for name in sys.argv[4].split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.storage.sqlite import maintenance
from fourfold.storage.sqlite.store import SqliteStore
from fourfold.storage.sqlite.database import Tuning
import fourfold.ingest.sync
from fourfold import child_process
from fourfold.cli import vectors
from dataclasses import replace
from pathlib import Path

def noted(real):
    def start(module, *arguments, **options):
        print(module)
        return real(module, *arguments, **options)
    return start

child_process.start = noted(child_process.start)

def work(driver, folder, store):
    tuned = SqliteStore(Path(store), tuning=Tuning(child_at_changes=1)) if driver == "index" else store
    memory = Memory.open(tuned, embedder="none", background=False)
    memory.add_many([NewItem("opened and read before the path turns hostile", vector=[1.0, 0.0])])
    memory.search("path", only=["keyword"])
    maintenance.namespaces.is_long = lambda *_: True
    sys.path.insert(0, os.environ["PYTHONPATH"])
    sys.path.insert(0, "")
    if driver == "files":
        report = memory.index_folders([folder])
        assert report.new == 2 and not report.skipped, report
    elif driver == "worker":
        assert vectors.start(replace(memory.settings, store=store, embedder="builtin"))
        assert vectors.started[0].wait(100) == 0
    else:
        memory.add_many([NewItem(f"bird {n} at the gate", title=f"Heron{n}", vector=[1.0, n]) for n in range(9)])
        memory.index()
    memory.close()

work(*sys.argv[1:4])
"""
DRIVERS = {
    "fourfold.cli.vectors": "worker",
    "fourfold.ingest.reader_process": "files",
    "fourfold.storage.sqlite.publishing": "index",
}
"""The modules that run in child processes, each with the branch of `WORK` that starts it."""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def module_name(path: Path) -> str:
    return ".".join(("fourfold", *path.relative_to(SOURCE).with_suffix("").parts))


def started_modules() -> set[str]:
    """The module argument of every call in the package that starts a process."""
    found: set[str] = set()
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (target := ast.unparse(node.func)).startswith("child_process."):
                assert target.removeprefix("child_process.") in STARTERS, target
                first = node.args[0]
                found.add(str(first.value) if isinstance(first, ast.Constant) else module_name(path))
                assert isinstance(first, ast.Constant) or ast.unparse(first) == "__name__", ast.unparse(node)
    return found


def test_only_child_process_starts_processes() -> None:
    others: list[str] = []
    for path, tree in trees():
        if path.name == "child_process.py":
            continue
        for node in ast.walk(tree):
            place = f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                name = node.func.attr
                if (owner == "subprocess" and name in PROCESS_CALLS) or name.startswith(("create_subprocess", "execv")):
                    others.append(place)
                if owner == "os" and (name in OTHER_WAYS or name.startswith("spawn")):
                    others.append(place)
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
                if node.module in ("subprocess", "fourfold.child_process"):
                    others.append(place)
            if any(name in OTHER_MODULES or name.endswith("ProcessPoolExecutor") for name in names):
                others.append(place)
    assert not others


def test_every_child_process_of_fourfold_is_covered_by_a_driver() -> None:
    assert started_modules() == set(DRIVERS)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of modules that record their process id when they are imported."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    mark = tmp_path / "imported"
    for name in (*HOSTILE.split(), "usercustomize", "sitecustomize", "startup"):
        code = f"import os\nwith open({str(mark)!r}, 'a') as mark:\n    mark.write(f'{{os.getpid()}} {name}\\n')\n"
        (folder / f"{name}.py").write_text(code)
    return folder


def hostile_environment(hostile: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(hostile), "PYTHONSTARTUP": str(hostile / "startup.py")}


@pytest.mark.spec("C17")
@pytest.mark.parametrize("module", sorted(DRIVERS))
def test_hostile_modules_are_not_imported_by_a_child(module: str, hostile: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "notes.md").write_text("---\ntags: [a]\n---\n# Notes\n\nwords\n")
    (tree / "report.pdf").write_bytes(made_pdf("words of a report"))
    script = tmp_path / "work.py"
    script.write_text(WORK)
    done = subprocess.run(
        [sys.executable, "-I", str(script), DRIVERS[module], str(tree), str(tmp_path / "store"), HOSTILE],
        cwd=hostile,
        env=hostile_environment(hostile),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert module in done.stdout.split()
    imported = tmp_path / "imported"
    assert not imported.exists(), imported.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="sessions are POSIX")
def test_a_detached_child_has_a_session_of_its_own() -> None:
    """A hangup of the terminal, or Ctrl-C in it, does not reach the child."""
    job = PublishJob("/nonexistent/fourfold.db", "", 1, "").to_json()
    child = child_process.start("fourfold.storage.sqlite.publishing", "links", job, detached=True)
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    assert child.wait(timeout=60) != 0


def test_without_an_interpreter_a_typed_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/env")
    with pytest.raises(child_process.CannotStart, match="not a Python interpreter"):
        child_process.start("fourfold.storage.sqlite.publishing")

"""What pip install fourfold needs, how wheels are built, and the code for other platforms."""

from __future__ import annotations

import os
import re
import resource
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from fourfold.ingest import reader_process

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BASE = {Requirement(line).name: Requirement(line) for line in PROJECT["dependencies"]}


def fourfold(store: Path, *arguments: str, without: str) -> subprocess.CompletedProcess[str]:
    """The command line in an environment in which a package cannot be imported."""
    code = f"import sys; sys.modules[{without!r}] = None; from fourfold.cli.main import main; main()"
    environment = {**os.environ, "FOURFOLD_STORE": str(store), "FOURFOLD_EMBEDDER": "builtin"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_an_environment_that_pins_either_generation_of_mcp_can_install_the_library() -> None:
    for version in ("1.2.0", "1.30.0", "2.3.0"):
        assert BASE["mcp"].specifier.contains(version)


@pytest.mark.parametrize("missing", ["mcp", "tokenizers"])
def test_the_library_works_without(missing: str, tmp_path: Path) -> None:
    """With vectors of the built-in model."""
    added = fourfold(tmp_path, "add", "The heron nests behind gate 7", without=missing)
    assert (added.returncode, added.stdout) == (0, "1\n"), added.stderr
    found = fourfold(tmp_path, "search", "where does the bird live", "--preset", "wiki", without=missing)
    assert "heron" in found.stdout
    assert not found.stderr


@pytest.mark.parametrize("arguments", [("mcp",), ("mcp", "--http", "127.0.0.1:0")])
def test_the_server_beside_an_older_mcp_says_what_to_do(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = fourfold(tmp_path, *arguments, without="mcp_types")
    assert done.returncode == 3
    assert "mcp in version 2.3 or newer" in done.stderr
    assert "pipx install fourfold" in done.stderr
    assert done.stdout == ""


def test_the_base_has_no_tokenizer_library() -> None:
    assert "tokenizers" not in BASE
    assert PROJECT["optional-dependencies"]["onnx"] == ["tokenizers>=0.21"]


@pytest.mark.parametrize(("module", "package", "extra"), [
    ("claude_memory", "anthropic", "claude"), ("haystack", "haystack", "haystack"),
    ("langchain", "langchain_core", "langchain"), ("langgraph", "langgraph", "langgraph"),
    ("llama_index", "llama_index", "llama-index"),
])  # fmt: skip
def test_an_adapter_without_its_framework_says_what_to_install(module: str, package: str, extra: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import fourfold.integrations.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert f"pip install 'fourfold[{extra}]'" in done.stderr.splitlines()[-1]
    assert "MissingExtra" in done.stderr.splitlines()[-1]
    assert extra in PROJECT["optional-dependencies"]


# ---------------------------------------------------------------- wheels and claims


HOOK = runpy.run_path(str(ROOT / "hatch_build.py"), run_name="hatch_build")
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "check_wheels.py"), run_name="check_wheels")


@pytest.mark.spec("C19")
def test_every_platform_is_built_checked_and_documented() -> None:
    tags = list(HOOK["TARGETS"])
    assert set(SCRIPT["FORMATS"]) == set(tags)
    table = (ROOT / "docs" / "reference-limits.md").read_text("utf-8").split("## Platforms")[1]
    documented = re.findall(r"`((?:many|musl|mac|win)\w+(?:\*)?)`", table)
    for tag in tags:
        assert any(name.rstrip("*") in tag for name in documented), tag


@pytest.mark.spec("C19")
def test_classifiers_claim_only_platforms_on_which_everything_was_run() -> None:
    assert [name for name in PROJECT["classifiers"] if name.startswith("Operating System")] == [
        "Operating System :: POSIX :: Linux"
    ]


@pytest.mark.spec("C19")
def test_the_workflow_runs_targets_that_exist_and_stores_no_token() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    used = [word for line in re.findall(r"run: make (.+)", text) for word in line.split()]
    assert used
    assert set(used) <= targets
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert set(jobs["publish"]["needs"]) >= {"test", "install"}
    assert "secrets." not in text


def tracked() -> set[str]:
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return {line.removeprefix("src/") for line in listed.stdout.split("\n") if line}


@pytest.mark.spec("C19")
@pytest.mark.soak
def test_the_wheel_and_the_sdist_have_every_file_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=580)
    if "No module named" in done.stderr or "Missing dependencies" in done.stdout + done.stderr:
        pytest.skip("build or hatchling is not installed here")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert {name for name in tracked() if not name.endswith((".c", ".h"))} <= names
    assert "fourfold/native/kernel.so" in names
    assert not [name for name in names if name.endswith((".c", ".h", ".pyc"))]
    with tarfile.open(source) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    assert {f"src/{name}" for name in tracked()} <= inside
    assert {"hatch_build.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE"} <= inside
    assert not [name for name in inside if name.endswith(".so") or name.startswith("tests/")]


# ---------------------------------------------------------------- code for Windows and macOS, run here


WINDOWS = """
import fcntl, os, stat, subprocess, sys, sysconfig, tempfile, threading, types
import apsw, numpy
sysconfig.get_config_vars()  # the interpreter's own, which have other names on Windows
import fourfold.native.bindings  # the kernel of this machine

for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_DIRECTORY", "register_at_fork", "nice", "getuid"):
    delattr(os, name)
os.supports_dir_fd, os.supports_fd = set(), set()

def locking(handle, mode, count):
    assert (mode, count) == (2, 1)
    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count)

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.platform = "win32"
def forbidden(*arguments, **named): raise AssertionError("Windows has no fork and no flock")
os.fork = fcntl.flock = forbidden
"""


def windows(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", WINDOWS + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.spec("C19")
def test_a_store_and_a_folder_of_files_without_the_means_of_posix(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (notes / "deep").mkdir(parents=True)
    (notes / "deep" / "heron.md").write_text("# Heron\n\nThe heron nests behind gate 7\n")
    (notes / "plain.txt").write_text("Otters sleep holding hands\n")
    (tmp_path / "secret.txt").write_text("The canary is outside\n")
    (notes / "link.txt").symlink_to(tmp_path / "secret.txt")
    (notes / "folder").symlink_to(tmp_path)
    said = windows(
        """
from fourfold import Memory
with Memory.open(sys.argv[1], embedder="none") as memory:
    memory.add("Stored by hand")
    memory.index_folders([sys.argv[2]])
    memory.index()
with Memory.open(sys.argv[1], embedder="none") as memory:
    print([result.item.text for result in memory.search("heron gate").results])
    print(sorted(item.path or "" for item in memory.list()))
    print(memory.search("canary").results, memory.check())
""",
        tmp_path / "store",
        notes,
    )
    found, paths, rest = said.strip().splitlines()
    assert "The heron nests behind gate 7" in found
    assert "deep/heron.md" in paths
    assert "link" not in paths
    assert rest == "() []"


@pytest.mark.spec("C19")
def test_one_process_holds_the_lease_by_the_locks_of_windows(tmp_path: Path) -> None:
    said = windows(
        """
from pathlib import Path
from fourfold.index.locks import Lease, ReadLock, unread
path = Path(sys.argv[1])
ask = (
    "import fcntl, sys\\nfile = open(sys.argv[1], 'ab')\\n"
    "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1); print('free')\\nexcept OSError: print('held')"
)
def state(): return subprocess.run([sys.executable, "-c", ask, path], capture_output=True, text=True).stdout.strip()
lease = Lease(path)
with lease.held() as first, lease.held() as second:
    print(first, second, state())
print(state())
ReadLock(path.parent).release()
with unread(path.parent) as free:
    print(free)
""",
        tmp_path / "leases" / "one",
    )
    assert said.split() == ["True", "True", "held", "free", "True"]


@pytest.mark.spec("C19")
def test_a_limit_that_macos_refuses_does_not_end_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(kind: int, limits: tuple[int, int]) -> None:
        asked.append(kind)
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr("sys.platform", "darwin")
    reader_process._limit()  # type: ignore[reportPrivateUsage]
    assert asked == [resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC]
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ValueError, match="exceeds"):
        reader_process._limit()  # type: ignore[reportPrivateUsage]

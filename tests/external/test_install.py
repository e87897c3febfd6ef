"""Installing: extras, other systems, the wheel, the bill of materials."""

import importlib.util
import os
import re
import resource
import runpy
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from fourfold import __version__
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


# ---------------------------------------------------------------- what a release uploads


SBOM = runpy.run_path(str(ROOT / "scripts" / "sbom.py"), run_name="sbom")


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FOURFOLD_", "PYTHON", "PIP_"))}
    done = subprocess.run(command, cwd=folder, env=own | environment, capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel for this machine."""
    if any(importlib.util.find_spec(name) is None for name in ("build", "hatchling")):
        pytest.skip("build or hatchling is not installed here")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, ROOT, folder=folder)
    return folder


def environment_with_dependencies(folder: Path) -> Path:
    """A fresh environment that has the packages of this one, but not Fourfold; returns its folder of programs."""
    venv.create(folder, with_pip=True)
    packages = folder / "packages"
    packages.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "fourfold" not in path.name and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "dependencies.pth").write_text(f"{packages}\n")
    return folder / "bin"


@pytest.mark.spec("C19")
def test_the_wheel_installs_by_name_from_a_folder_and_works(index: Path, tmp_path: Path) -> None:
    programs = environment_with_dependencies(tmp_path / "env")
    pip = (
        programs / "python",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-index",
        "--find-links",
        index,
    )
    said = run(*pip, "fourfold", folder=tmp_path)
    assert f"Successfully installed fourfold-{__version__}" in said
    command = (programs / "fourfold", "--store", tmp_path / "store")
    assert run(*command, "--version", folder=tmp_path).strip() == __version__
    run(*command, "add", "The heron nests behind gate 7", folder=tmp_path)
    assert "heron" in run(*command, "search", "where does the bird live", folder=tmp_path)


@pytest.mark.spec("C19")
@pytest.mark.soak
def test_the_wheel_runs_by_uvx_without_being_installed(index: Path, tmp_path: Path) -> None:
    """With dependencies from the index that pip uses."""
    pip = (sys.executable, "-m", "pip")
    asked = subprocess.run([*pip, "config", "get", "global.index-url"], capture_output=True, text=True, check=False)
    address = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or "https://pypi.org/simple"
    tools = tmp_path / "tools"
    got = subprocess.run(
        [*pip, "install", "--quiet", "--target", tools, "uv"], capture_output=True, text=True, check=False
    )
    uvx = tools / "bin" / "uvx"
    if got.returncode or not uvx.exists():
        pytest.skip(f"uv is not to be had here: {got.stderr.strip()[-200:]}")
    (wheel,) = index.glob("*.whl")
    own = {"UV_CACHE_DIR": str(tmp_path / "cache"), "UV_INDEX_URL": address, "UV_TOOL_DIR": str(tmp_path / "uv")}
    command = (uvx, "--python", sys.executable, "--from", wheel, "fourfold", "--store", tmp_path / "store")
    assert run(*command, "--version", folder=tmp_path, **own).strip() == __version__
    assert run(*command, "add", "The heron nests behind gate 7", folder=tmp_path, **own) == "1\n"


# ---------------------------------------------------------------- the bill of materials


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    return SBOM["bill"]()


def test_the_bill_of_materials_has_what_pip_installs_in_pinned_versions(bill: dict[str, Any]) -> None:
    pins = SBOM["pins"]()
    names = {each["name"]: each["version"] for each in bill["components"]}
    assert bill["metadata"]["component"]["version"] == __version__
    assert {"numpy", "onnxruntime", "faiss-cpu", "apsw", "starlette", "pydantic"} <= names.keys()
    assert {"pytest", "fourfold", "chromadb"} & names.keys() == set()
    assert names == {name: pins[name] for name in names}
    assert all(each["licenses"] and each["purl"].startswith("pkg:pypi/") for each in bill["components"])


def test_the_bill_of_materials_is_closed_and_always_the_same(bill: dict[str, Any], tmp_path: Path) -> None:
    known = {each["bom-ref"] for each in [bill["metadata"]["component"], *bill["components"]]}
    assert {each["ref"] for each in bill["dependencies"]} == known
    assert {ref for each in bill["dependencies"] for ref in each["dependsOn"]} < known
    first, second = (SBOM["write"](tmp_path / name) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    assert first.name == f"fourfold-{__version__}.cdx.json"

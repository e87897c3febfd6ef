"""What a release uploads: a wheel that installs by its name, and the bill of materials."""

from __future__ import annotations

import importlib.util
import os
import runpy
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import pytest

from fourfold import __version__

ROOT = Path(__file__).parents[2]
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

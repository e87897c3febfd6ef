"""Checks the wheels and the sdist that `make wheels` built: python scripts/check_wheels.py [FOLDER]

Metadata (twine), tags against the format of the kernel, the same content on every platform, the C library that Linux
wheels need (auditwheel), and `fourfold demo` from the wheel in a fresh environment that has no compiler.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hatch_build import TARGETS  # noqa: E402

FORMATS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": (b"\x7fELF", 18, 62),
    "manylinux_2_17_aarch64.manylinux2014_aarch64": (b"\x7fELF", 18, 183),
    "musllinux_1_2_x86_64": (b"\x7fELF", 18, 62),
    "musllinux_1_2_aarch64": (b"\x7fELF", 18, 183),
    "macosx_11_0_x86_64": (b"\xcf\xfa\xed\xfe", 4, 0x01000007),
    "macosx_11_0_arm64": (b"\xcf\xfa\xed\xfe", 4, 0x0100000C),
    "win_amd64": (b"MZ", None, 0x8664),
}
"""First bytes of a kernel, and the place and number of its machine."""


class Wrong(SystemExit):
    """A wheel is not what it claims to be."""


def check(folder: Path) -> None:
    wheels = {tag: _find(folder, f"*-py3-none-{tag}.whl") for tag in TARGETS}
    _run("twine", "check", "--strict", *wheels.values(), _find(folder, "*.tar.gz"))
    contents = {tag: _content(tag, path) for tag, path in wheels.items()}
    first = next(iter(contents.values()))
    for tag, content in contents.items():
        if content != first:
            raise Wrong(f"{tag} differs from the others in {sorted(set(content.items()) ^ set(first.items()))}")
    for tag, path in wheels.items():
        if "linux" in tag:
            _audit(tag, path)
    _try(next(path for tag, path in wheels.items() if tag.startswith("manylinux") and _is_own(tag)))


def _find(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise Wrong(f"{len(found)} files {pattern} in {folder}; build into an empty folder")
    return found[0]


def _content(tag: str, path: Path) -> dict[str, int]:
    """The files with their checksums, without those that differ by design, which are checked here."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        (kernel,) = (name for name in names if Path(name).name in ("kernel.so", "kernel.dll"))
        _check_machine(tag, wheel.read(kernel))
        (described,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        tags = set(re.findall(r"^Tag: py3-none-(\S+)$", wheel.read(described).decode(), re.MULTILINE))
        if tags != set(tag.split(".")):
            raise Wrong(f"{path.name} has the tags {sorted(tags)}")
        apart = {kernel, described, described.replace("WHEEL", "RECORD")}
        return {info.filename: info.CRC for info in wheel.infolist() if info.filename not in apart}


def _check_machine(tag: str, kernel: bytes) -> None:
    magic, place, machine = FORMATS[tag]
    if place is None:
        place = int.from_bytes(kernel[0x3C:0x40], "little") + 4
    width = 4 if magic == b"\xcf\xfa\xed\xfe" else 2
    if not kernel.startswith(magic) or int.from_bytes(kernel[place : place + width], "little") != machine:
        raise Wrong(f"the kernel of {tag} is made for another machine")


def _audit(tag: str, path: Path) -> None:
    said = _run("auditwheel", "show", path)
    wanted = tag.partition(".")[0]
    if f'"{wanted}"' not in " ".join(said.split()):
        raise Wrong(f"{path.name} does not run on every {wanted}:\n{said}")


def _is_own(tag: str) -> bool:
    return tag.endswith(f"_{os.uname().machine}")


def _try(wheel: Path) -> None:
    """Installs the wheel where nothing can be compiled, and takes the tour."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        program = Path(folder, "bin", "python")
        own = {name: value for name, value in os.environ.items() if not name.startswith("FOURFOLD_")}
        bare = {**own, "PATH": str(program.parent), "CC": "/nonexistent", "HOME": folder}
        install = [program, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--constraint"]
        subprocess.run([*install, ROOT / "constraints.txt", wheel], env=bare, check=True, cwd=folder)
        subprocess.run([program.with_name("fourfold"), "demo"], env=bare, check=True, cwd=folder)


def _run(program: str, *arguments: str | Path) -> str:
    command = [Path(sys.executable).with_name(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Wrong(f"{program} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    check(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "dist")
    sys.stdout.write("wheels and sdist are sound\n")

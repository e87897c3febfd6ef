"""Runs the tests of the kernel from the aarch64 wheel under qemu-user: python scripts/emulate_wheel.py [FOLDER]

Needs Debian or Ubuntu with qemu-user, root for apt, and the network: an aarch64 Python comes from the distribution's
packages, which are unpacked and not installed, and the dependencies come as aarch64 wheels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTED = ("tests/unit/native/test_native_kernel.py", "tests/unit/native/test_native_codes.py")
PACKAGES = (
    *("libc6", "libgcc-s1", "libstdc++6", "libgomp1", "zlib1g", "libexpat1", "libssl3", "libffi8", "libbz2-1.0"),
    *("liblzma5", "libuuid1", "libsqlite3-0"),
)
GLIBC = ("2_17", "2_24", "2_26", "2_27", "2_28")


def main(folder: Path) -> None:
    (wheel,) = folder.glob("*-manylinux_2_17_aarch64.*.whl")
    if shutil.which("qemu-aarch64") is None:
        raise SystemExit("there is no qemu-aarch64; install qemu-user")
    with tempfile.TemporaryDirectory() as place:
        own = Path(place)
        version = _unpack_python(own)
        _install(own / "site", version, wheel)
        for test in TESTED:
            shutil.copy(ROOT / test, own)
        _emulate(own, version, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, *map(_name, TESTED))
        _emulate(own, version, "-c", "import platform; print('the kernel works on', platform.machine())")


def _name(test: str) -> str:
    return Path(test).name


def _unpack_python(own: Path) -> str:
    """The aarch64 Python of this distribution, in the folder root; returns its version."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    names = [f"python{version}-minimal", f"libpython{version}-minimal", f"libpython{version}-stdlib", *PACKAGES]
    (folder := own / "packages").mkdir()
    _run("dpkg", "--add-architecture", "arm64")
    try:
        _run("apt-get", "update", "--quiet")
        _run("apt-get", "download", "--quiet", *(f"{name}:arm64" for name in names), cwd=folder)
    finally:
        _run("dpkg", "--remove-architecture", "arm64")
    for package in folder.glob("*.deb"):
        _run("dpkg", "-x", str(package), str(own / "root"))
    return version


def _install(site: Path, version: str, wheel: Path) -> None:
    platforms = [word for glibc in GLIBC for word in ("--platform", f"manylinux_{glibc}_aarch64")]
    _run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site), "--only-binary", ":all:"),
        *("--python-version", version, "--implementation", "cp", "--platform", "manylinux2014_aarch64", *platforms),
        *("--constraint", str(ROOT / "constraints.txt"), str(wheel), "pytest", "hypothesis"),
    )


def _emulate(own: Path, version: str, *arguments: str) -> None:
    root = own / "root"
    program = ["qemu-aarch64", "-L", str(root), str(root / "usr" / "bin" / f"python{version}")]
    environment = {**os.environ, "PYTHONPATH": str(own / "site"), "PYTHONHOME": str(root / "usr")}
    subprocess.run([*program, *arguments], cwd=own, env=environment, check=True)


def _run(*command: str, cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, cwd=cwd)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "dist")

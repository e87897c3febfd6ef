"""Compiles the kernel (src/fourfold/native/*.c) when the package is built, or in place: python hatch_build.py

With the machine's C compiler, or where there is none with the one that the wheel `ziglang` brings: so pip is enough.
With the variable FOURFOLD_TARGET, a platform tag of TARGETS, `ziglang` compiles it for that platform (`make wheels`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent
FOLDER = ROOT / "src/fourfold/native"
LIBRARY = FOLDER / ("kernel.dll" if sys.platform == "win32" else "kernel.so")
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fvisibility=hidden", "-fPIC", "-shared"]
ZIG = "ziglang>=0.13"
TARGETS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}
"""Platform tags of wheels, and what the compiler calls these platforms, with the oldest version they run on."""


def compile_kernel() -> Path:
    """Replaces the library in one step: processes that use the old one keep it, and none sees a half-written one."""
    fresh = LIBRARY.with_name(f"{LIBRARY.name}.{os.getpid()}")
    _compile(_of_machine() or _zig(), fresh, windows=sys.platform == "win32")
    fresh.replace(LIBRARY)
    return LIBRARY


def compile_for(tag: str) -> Path:
    """Compiles the kernel for a platform of TARGETS, apart from the one of this machine."""
    if tag not in TARGETS:
        raise SystemExit(f"FOURFOLD_TARGET is {tag!r}; use one of {', '.join(TARGETS)}")
    windows = tag.startswith("win")
    library = ROOT / "build" / "kernels" / tag / ("kernel.dll" if windows else "kernel.so")
    library.parent.mkdir(parents=True, exist_ok=True)
    compiler = [*_zig(), "-target", TARGETS[tag], "-s"]
    if "musl" in tag:
        _compile_without_libc(compiler, library)
    else:
        _compile(compiler, library, windows=windows)
    return library


def _compile_without_libc(compiler: list[str], library: Path) -> None:
    """Names no C library, whose file each musl system calls differently: the one of the process is used."""
    objects: list[str] = []
    for source in sorted(FOLDER.glob("*.c")):
        objects.append(str(library.with_name(f"{source.stem}.o")))
        _run([*compiler, *(flag for flag in FLAGS if flag != "-shared"), "-c", str(source), "-o", objects[-1]])
    _run([sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-s", "-o", str(library), *objects])


def _compile(compiler: list[str], library: Path, *, windows: bool) -> None:
    sources = [str(path) for path in sorted(FOLDER.glob("*.c"))]
    _run([*compiler, *FLAGS, "-o", str(library), *sources, *([] if windows else ["-lm", "-pthread"])])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed; install a C compiler\n{done.stderr}")


def _zig() -> list[str]:
    return [sys.executable, "-m", "ziglang", "cc"]


def _of_machine() -> list[str]:
    """A compiler that works: some systems have a command that only says how to install one."""
    named = os.environ.get("CC", "").split()
    for command in (named, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]) and _works(command):
            return command
    return []


def _works(command: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        source.write_text("#include <math.h>\n#include <stdlib.h>\n#include <string.h>\nint one(void) { return 1; }\n")
        tried = [*command, *FLAGS, "-o", str(source.with_suffix(".so")), str(source)]
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    compile_kernel()
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class KernelHook(BuildHookInterface):
        def dependencies(self) -> list[str]:
            return [] if _of_machine() and "FOURFOLD_TARGET" not in os.environ else [ZIG]

        def initialize(self, version: str, build_data: dict) -> None:
            build_data["pure_python"] = False
            if target := os.environ.get("FOURFOLD_TARGET"):
                library = compile_for(target)
                build_data["tag"] = f"py3-none-{target}"
                build_data["force_include"][str(library)] = f"fourfold/native/{library.name}"
                return
            library = compile_kernel()
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["artifacts"].append(library.relative_to(ROOT).as_posix())

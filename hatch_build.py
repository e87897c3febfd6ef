"""Compiles the kernel (src/fourfold/native/*.c) when the package is built, or in place: python hatch_build.py

With the machine's C compiler, or where there is none with the one that the wheel `ziglang` brings: so pip is enough.
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


def compile_kernel() -> Path:
    """Replaces the library in one step: a process that has the old one open keeps it."""
    fresh = LIBRARY.with_name(f"{LIBRARY.name}.{os.getpid()}")
    libraries = [] if sys.platform == "win32" else ["-lm"]
    command = [
        *(_of_machine() or [sys.executable, "-m", "ziglang", "cc"]),
        *FLAGS,
        "-o",
        str(fresh),
        *map(str, sorted(FOLDER.glob("*.c"))),
        *libraries,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed; install a C compiler\n{done.stderr}")
    fresh.replace(LIBRARY)
    return LIBRARY


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
            return [] if _of_machine() else [ZIG]

        def initialize(self, version: str, build_data: dict) -> None:
            library = compile_kernel()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
            build_data["artifacts"].append(library.relative_to(ROOT).as_posix())

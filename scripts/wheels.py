"""Builds a wheel for every platform and the sdist: python scripts/wheels.py [FOLDER]

Runs on one machine, with `ziglang` as the cross compiler. The wheels differ in the kernel and in their tags only.
Needs the packages build, hatchling and ziglang in its environment: `make wheels` creates one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hatch_build import TARGETS  # noqa: E402


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    for tag in TARGETS:
        subprocess.run([*command, "--wheel"], cwd=ROOT, env={**os.environ, "FOURFOLD_TARGET": tag}, check=True)
    subprocess.run([*command, "--sdist"], cwd=ROOT, check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "dist")

"""A move that is killed by a signal at a given point."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

from fourfold.memory import Memory


def move_and_die(source: Path, target: Path | str, temporary: Path, reports: int) -> None:
    """Moves the store, and kills its own process with SIGKILL after this many reports of progress."""
    tempfile.tempdir = str(temporary)
    left = reports

    def progress(done: int, total: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        Memory.open(source, embedder="none", background=False) as memory,
        Memory.open(target, embedder="none", background=False) as copy,
    ):
        memory.move(copy.store, progress)

"""A move that ends by a signal at a place of its own."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

from fourfold.memory import Memory


def move_and_die(source: Path, target: Path | str, temporary: Path, reports: int) -> None:
    """Moves until progress was reported so many times, then dies as by kill -9."""
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

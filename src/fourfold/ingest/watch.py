"""Following folders. They are walked again and again: that works on every file system, and costs little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold.errors import FourfoldError
from fourfold.ingest.report import IndexReport

if TYPE_CHECKING:
    from fourfold.memory import Memory

PAUSE = 1.0
_SHARE = 20
"""The pause is at least so many times as long as the walk before it: a large tree takes a twentieth of a core."""


async def watch(
    memory: Memory,
    folders: Sequence[str | Path],
    pause: float = PAUSE,
    *,
    exclude: Sequence[str] = (),
    tags: Sequence[str] = (),
) -> AsyncGenerator[IndexReport | FourfoldError]:
    """What each run did, for ever. A folder that is away for a while is no reason to end: the error is handed over."""
    while True:
        started = time.monotonic()
        try:
            yield await memory.index_folders(folders, exclude=exclude, tags=tags)
        except FourfoldError as error:
            yield error
        await asyncio.sleep(max(pause, _SHARE * (time.monotonic() - started)))

"""A whole store copied into another, of the same kind or not (B9): counted, compared, and taken up where it stopped."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fourfold.embed.queue import Progress
from fourfold.errors import DamagedStore
from fourfold.portable import HEADER, Lines, export_file, line
from fourfold.stores.base import Record, Store

_STEP = 1000


@dataclass(frozen=True, slots=True)
class Moved:
    counts: dict[str, int]
    """Records by kind."""
    checksum: str
    """SHA-256 of the export, the same on both sides."""


async def move(source: Store, target: Store, progress: Progress | None = None) -> Moved:
    """Copies everything; the source stays as it is. What is written to it meanwhile is not part of the copy.

    Interrupted, the same call goes on where it was, as long as the source is the same.
    """
    with tempfile.TemporaryDirectory(prefix="fourfold-move-") as folder:
        file = Path(folder) / "store.jsonl"
        counts = await export_file(source, file)
        checksum = await asyncio.to_thread(_checksum, file)
        await target.load(_records(Lines(file), progress), mark=checksum)
        copied = await export_file(target, file)
        if (copied, await asyncio.to_thread(_checksum, file)) != (counts, checksum):
            raise DamagedStore(
                f"the copy has {copied}, the original {counts}, or they differ within",
                "Nobody else may write to the target; empty it, and move again",
            )
    return Moved(counts, checksum)


def checksum(records: Iterable[Record]) -> str:
    """SHA-256 of the export that these records make."""
    digest = hashlib.sha256(line(HEADER).encode())
    for record in records:
        digest.update(line(record).encode())
    return digest.hexdigest()


def _checksum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _records(lines: Lines, progress: Progress | None) -> Iterator[Record]:
    for number, (_, record) in enumerate(islice(lines, 1, None)):
        if progress is not None and number % _STEP == 0:
            progress(lines.read, lines.size)
        yield record
    if progress is not None:
        progress(lines.size, lines.size)

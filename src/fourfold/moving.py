"""A whole store copied into another, of the same kind or not (B9): counted, compared, and taken up where it stopped."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from fourfold.embed.queue import Progress
from fourfold.errors import DamagedStore, InvalidItem, StorageFull, StoreNotEmpty
from fourfold.portable import HEADER, line
from fourfold.storage.records import RecordReader
from fourfold.stores.base import Record, Store

_STEP = 1000
"""Records between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Moved:
    counts: dict[str, int]
    """Records by kind."""
    checksum: str
    """SHA-256 of the export, the same on both sides."""


async def move(source: Store, target: Store, progress: Progress | None = None) -> Moved:
    """Copies everything; the source stays as it is. What is written to it meanwhile is not part of the copy.

    Interrupted, the same call continues, as long as the source is the same; repeated, it finds that all is there.
    The records wait in a file that has no name, so a killed process leaves nothing behind.
    """
    with tempfile.TemporaryFile(prefix="fourfold-move-") as spool:
        moved = await _summed(source, spool)
        try:
            await target.load(_records(spool, progress), mark=moved.checksum)
        except StoreNotEmpty:
            if await _summed(target) != moved:
                raise
            return moved
        copied = await _summed(target)
    if copied != moved:
        raise DamagedStore(
            f"the copy has {copied.counts}, the original {moved.counts}, or they differ within",
            "Let nothing else write to the target; empty it, and move again",
        )
    return moved


def checksum(records: Iterable[Record]) -> str:
    """SHA-256 of the export that these records make."""
    digest = hashlib.sha256(line(HEADER).encode())
    for record in records:
        digest.update(line(record).encode())
    return digest.hexdigest()


async def _summed(store: Store, spool: IO[bytes] | None = None) -> Moved:
    """Counts and checksum of a store's export; its records go to `spool`, which takes only what can be loaded."""
    counts: Counter[str] = Counter()
    digest = hashlib.sha256(line(HEADER).encode())
    reader = RecordReader()

    def write(record: Record) -> None:
        content = line(record).encode()
        counts[record["type"]] += 1
        digest.update(content)
        if spool is not None:
            reader.read(record)
            spool.write(content)

    try:
        await store.export(write)
        if spool is not None:
            spool.flush()
    except InvalidItem as error:
        raise InvalidItem(
            f"the store breaks a rule: {error.message}", "Run fourfold repair, then move again"
        ) from error
    except OSError as error:
        raise StorageFull(
            f"the temporary folder cannot be written ({error.strerror})", "Free space there, or set TMPDIR to another"
        ) from error
    return Moved(dict(counts), digest.hexdigest())


def _records(spool: IO[bytes], progress: Progress | None) -> Iterator[Record]:
    size, read = spool.tell(), 0
    spool.seek(0)
    for number, content in enumerate(spool):
        if progress is not None and number % _STEP == 0:
            progress(read, size)
        read += len(content)
        yield json.loads(content)
    if progress is not None:
        progress(size, size)

"""Copies a whole store into another one of any kind: counted, compared, and resumed after an interruption."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

from fourfold.errors import DamagedStore, InvalidItem, StorageFull, StoreNotEmpty
from fourfold.storage.exchange import HEADER, Progress, line
from fourfold.storage.protocols import Store
from fourfold.storage.record_reader import RecordReader
from fourfold.storage.values import Record

_STEP = 1000
"""Records between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Moved:
    counts: dict[str, int]
    """Records by kind."""
    checksum: str
    """SHA-256 of the export, the same on both sides."""


def move(source: Store, target: Store, progress: Progress | None = None) -> Moved:
    """Copies everything; the source stays unchanged. Writes to the source during the copy are not part of it.

    After an interruption the same call continues if the source is still the same; after a complete copy it changes
    nothing. The records are spooled to a file without a name, so a killed process leaves nothing behind.
    """
    with tempfile.TemporaryFile(prefix="fourfold-move-") as spool:
        moved = _summed(source, spool)
        try:
            target.portable.load(_records(spool, progress), mark=moved.checksum)
        except StoreNotEmpty:
            if _summed(target) != moved:
                raise
            return moved
        copied = _summed(target)
    if copied != moved:
        raise DamagedStore(
            f"the copy has {copied.counts}, the original {moved.counts}, or their contents differ",
            "Stop other writers of the target, empty it, and move again",
        )
    return moved


def checksum(records: Iterable[Record]) -> str:
    """SHA-256 of the export that consists of these records."""
    digest = hashlib.sha256(line(HEADER).encode())
    for record in records:
        digest.update(line(record).encode())
    return digest.hexdigest()


def _summed(store: Store, spool: IO[bytes] | None = None) -> Moved:
    """Counts and checksum of a store's export. With a `spool`, checks its records and writes them there."""
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
        store.portable.export(write)
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

"""Files of JSON lines: a whole store (export), or rows of items that somebody brings (import)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fourfold.embed.queue import Progress
from fourfold.errors import InvalidItem, StoreUnavailable
from fourfold.model import Json, NewItem
from fourfold.stores.base import Record, Store

if TYPE_CHECKING:
    from fourfold.memory import Memory

HEADER: Mapping[str, Json] = {"type": "fourfold-export", "format": 1}
_BATCH = 1000


async def export_file(store: Store, target: Path) -> dict[str, int]:
    """Everything, sorted, so that equal stores give equal bytes. The file appears when it is complete."""
    counts: Counter[str] = Counter()
    aside = target.with_name(target.name + ".part")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(_line(HEADER))

            def write(record: Record) -> None:
                counts[record["type"]] += 1
                file.write(_line(record))

            await store.export(write)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StoreUnavailable(f"{target} cannot be written ({error.strerror})", "Choose another file") from error
    return dict(counts)


def _line(record: Mapping[str, Json]) -> str:
    return json.dumps(record, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"


async def import_file(memory: Memory, source: Path, progress: Progress | None) -> dict[str, int]:
    """An export goes into an empty store as it was; rows go into the namespace, batch by batch."""
    lines = Lines(source)
    first = next(iter(lines), None)
    if first is not None and first[1].get("type") == HEADER["type"]:
        return await _import_export(memory.store, lines, progress)
    return await _import_rows(memory, lines, progress)


async def _import_export(store: Store, lines: Lines, progress: Progress | None) -> dict[str, int]:
    counts: Counter[str] = Counter()
    loaded = (record for number, record in lines if number > 1)

    def counted() -> Iterator[Record]:
        for record in loaded:
            counts[str(record.get("type"))] += 1
            if progress is not None and counts.total() % _BATCH == 0:
                progress(lines.read, lines.size)
            yield record

    await store.load(counted())
    if progress is not None:
        progress(lines.size, lines.size)
    return dict(counts)


async def _import_rows(memory: Memory, lines: Lines, progress: Progress | None) -> dict[str, int]:
    count = 0
    batch: list[NewItem] = []
    for number, row in lines:
        batch.append(_new_item(number, row))
        if len(batch) == _BATCH:
            count += len(await memory.add_many(batch))
            batch.clear()
            if progress is not None:
                progress(lines.read, lines.size)
    if batch:
        count += len(await memory.add_many(batch))
    if progress is not None:
        progress(lines.size, lines.size)
    return {"item": count}


class Lines:
    """The objects of a JSON Lines file with their line numbers; can be gone through more than once."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self.read = 0
        try:
            self.size = source.stat().st_size
        except OSError as error:
            raise InvalidItem(f"{source} cannot be read ({error.strerror})", "Check the path") from error

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self.read = 0
        with self._source.open("rb") as file:
            for number, line in enumerate(file, 1):
                self.read += len(line)
                if line.strip():
                    yield number, self._parsed(number, line)

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidItem(f"{self._source.name}:{number}: not JSON ({error})", "One JSON object a line") from error
        if not isinstance(row, dict):
            raise InvalidItem(f"{self._source.name}:{number}: not an object", "One JSON object a line")
        return cast("dict[str, Any]", row)


def _new_item(number: int, row: Mapping[str, Any]) -> NewItem:
    """A row of somebody's file; what is wrong with it is said with its line."""
    key = next((row[name] for name in ("key", "_id", "id") if row.get(name) is not None), None)
    tags: Any = row.get("tags") or []
    created = row.get("created_at")
    try:
        if not isinstance(tags, list):
            raise InvalidItem("tags is no list", "Write a list of strings")
        return NewItem(
            text=row.get("text") or "",
            title=row.get("title") or "",
            key=None if key is None else str(key),
            tags=tuple(cast("list[str]", tags)),
            kind=row.get("kind") or row.get("type"),
            metadata=row.get("metadata") or {},
            language=row.get("language"),
            created_at=None if created is None else datetime.fromisoformat(created),
            vector=row.get("embedding"),
        )
    except (InvalidItem, TypeError, ValueError) as error:
        raise InvalidItem(f"line {number}: {error}", "Mend the line; the rows before it are stored") from error

"""The chunks of a file as items."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from fourfold import items as rules
from fourfold.errors import InvalidItem
from fourfold.ingest.chunk import Chunk
from fourfold.ingest.document import Unreadable
from fourfold.ingest.formats import format_of
from fourfold.ingest.reading import CutFile
from fourfold.limits import TAGS
from fourfold.model import Json, NewItem

_LANGUAGE_OF_CODE: Final = "en"
"""Identifiers and keywords are English, whatever the comments are; detecting it would find a dozen languages."""
_README: Final = "readme"
_REPEATED_METADATA_BYTES: Final = 4096
"""Metadata of a file that is larger than this is stored with its first chunk only."""


def file_items(path: str, cut: CutFile, mtime_ns: int, tags: Sequence[str] = ()) -> list[NewItem]:
    """The chunks of a file, not checked yet; `tags` are added to all of them."""
    maker = _Maker(path, cut, _time(mtime_ns), tags)
    return [maker.item(number, chunk) for number, chunk in enumerate(cut.chunks)]


def checked_files(files: Sequence[Sequence[NewItem]]) -> list[Sequence[NewItem] | Unreadable]:
    """The items of each file as they are stored. All are checked together, which costs less."""
    try:
        checked = iter(rules.checked_many([item for items in files for item in items]))
        return [list(islice(checked, len(items))) for items in files]
    except InvalidItem:
        return [_checked(items) for items in files]


def _checked(items: Sequence[NewItem]) -> Sequence[NewItem] | Unreadable:
    try:
        return rules.checked_many(items)
    except InvalidItem as error:
        return Unreadable(f"cannot be stored: {error.message}")


class _Maker:
    def __init__(self, path: str, cut: CutFile, created: datetime | None, tags: Sequence[str]) -> None:
        name = path.rpartition("/")[2]
        self._path = path
        self._tags = (*tags, *cut.document.tags)
        self._document = cut.document
        self._format = format_of(name)
        self._created = created
        self._unit = cut.document.unit
        self._name = own_name(path)
        title = "" if cut.document.title.casefold() == _README else cut.document.title
        self._title = title or (self._name if self._format.is_page or stem(path) != self._name else name)
        self._shared = self._document.metadata if _is_small(self._document.metadata) else {}

    def item(self, number: int, chunk: Chunk) -> NewItem:
        return NewItem(
            text=chunk.text,
            title=self._title if number == 0 else chunk.title(self._title),
            tags=tuple(dict.fromkeys((*self._tags, *chunk.tags)))[:TAGS],
            kind=self._document.kind or self._format.kind,
            metadata=self._metadata(number, chunk),
            language=_LANGUAGE_OF_CODE if self._format.kind == "code" else None,
            created_at=self._created,
            path=self._path,
            chunk_index=number,
        )

    def _metadata(self, number: int, chunk: Chunk) -> Mapping[str, Json]:
        """The first chunk stands for the file: it has the names that the file is known by, beside its title."""
        place: Mapping[str, Json] = chunk.metadata or {self._unit: chunk.first, f"end_{self._unit}": chunk.last}
        if number > 0:
            return {**self._shared, **place}
        aliases = [name for name in dict.fromkeys((self._name, *self._document.aliases)) if name != self._title]
        names = {"aliases": aliases} if self._format.is_page and aliases else {}
        return {**self._document.metadata, **names, **place}


def _is_small(metadata: Mapping[str, Json]) -> bool:
    return len(json.dumps(metadata)) <= _REPEATED_METADATA_BYTES


def own_name(path: str) -> str:
    """What a file is known by without its title: its stem, or its folder for one that is called README."""
    name = stem(path)
    if name.casefold() != _README:
        return name
    return path.rpartition("/")[0].rpartition("/")[2] or name


def stem(path: str) -> str:
    """The name of the file without its suffix."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _time(mtime_ns: int) -> datetime | None:
    """None for a time that no calendar has."""
    try:
        return datetime.fromtimestamp(mtime_ns // 1000 / 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None

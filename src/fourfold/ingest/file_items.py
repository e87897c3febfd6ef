"""Conversion of the chunks of a file to items."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from fourfold import validation as rules
from fourfold.errors import InvalidItem
from fourfold.ingest.document import Chunk, Unreadable
from fourfold.ingest.formats import format_of
from fourfold.ingest.reading import ChunkedFile
from fourfold.limits import TAGS
from fourfold.model import Json, NewItem

_LANGUAGE_OF_CODE: Final = "en"
"""Identifiers and keywords are English; detection would find a dozen languages."""
_README: Final = "readme"
_REPEATED_METADATA_BYTES: Final = 4096
"""Maximum size of a file's metadata that is repeated in all chunks; larger metadata is stored with the first one."""


def file_items(path: str, cut: ChunkedFile, mtime_ns: int, tags: Sequence[str] = ()) -> list[NewItem]:
    """Return the chunks of a file as unchecked items; `tags` are added to all of them."""
    maker = _Maker(path, cut, _time(mtime_ns), tags)
    return [maker.item(number, chunk) for number, chunk in enumerate(cut.chunks)]


Protect = Callable[[Sequence[NewItem]], Sequence[NewItem]]


def checked_files(
    files: Sequence[Sequence[NewItem]], protect: Protect | None = None
) -> list[Sequence[NewItem] | Unreadable]:
    """Check the items of all files in one go, which is faster; a file with an invalid item gives Unreadable.

    `protect` converts the checked items of a file before they are stored.
    """
    try:
        checked = iter(rules.checked_many([item for items in files for item in items]))
        return [_protected(list(islice(checked, len(items))), protect) for items in files]
    except InvalidItem:
        return [_checked(items, protect) for items in files]


def _protected(checked: Sequence[NewItem], protect: Protect | None) -> Sequence[NewItem]:
    return checked if protect is None else protect(checked)


def _checked(items: Sequence[NewItem], protect: Protect | None) -> Sequence[NewItem] | Unreadable:
    try:
        return _protected(rules.checked_many(items), protect)
    except InvalidItem as error:
        return Unreadable(f"cannot be stored: {error.message}")


class _Maker:
    def __init__(self, path: str, cut: ChunkedFile, created: datetime | None, tags: Sequence[str]) -> None:
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
            source="file",
        )

    def _metadata(self, number: int, chunk: Chunk) -> Mapping[str, Json]:
        """Metadata of a chunk; the first one represents the file and has its names besides the title."""
        position: Mapping[str, Json] = chunk.metadata or {self._unit: chunk.first, f"end_{self._unit}": chunk.last}
        if number > 0:
            return {**self._shared, **position}
        aliases = [name for name in dict.fromkeys((self._name, *self._document.aliases)) if name != self._title]
        names = {"aliases": aliases} if self._format.is_page and aliases else {}
        return {**self._document.metadata, **names, **position}


def _is_small(metadata: Mapping[str, Json]) -> bool:
    return len(json.dumps(metadata)) <= _REPEATED_METADATA_BYTES


def own_name(path: str) -> str:
    """Return the name of a file without a title: its stem, or that of its folder for a README."""
    name = stem(path)
    if name.casefold() != _README:
        return name
    return path.rpartition("/")[0].rpartition("/")[2] or name


def stem(path: str) -> str:
    """Return the file name without its suffix."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _time(mtime_ns: int) -> datetime | None:
    """The time in UTC; None if it is out of range."""
    try:
        return datetime.fromtimestamp(mtime_ns // 1000 / 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None

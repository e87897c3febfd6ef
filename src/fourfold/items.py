"""What may be stored: the rules for items, tags, names and metadata, applied before anything is written."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from fourfold import limits
from fourfold.errors import InvalidItem
from fourfold.model import Edge, ItemPatch, Json, NewItem
from fourfold.text.entities import normal_name
from fourfold.text.fold import clean, fold
from fourfold.text.language import detect


def checked(item: NewItem) -> NewItem:
    """The item as it will be stored, or an InvalidItem that says what is wrong with it."""
    title, text = _text(item.title, "title"), _text(item.text, "text")
    if not title.strip() and not text.strip():
        raise InvalidItem("title and text are both empty", "Give the item something to be found by")
    _check_size(title, text)
    if item.chunk_index is not None and (isinstance(item.chunk_index, bool) or item.chunk_index < 0):
        raise InvalidItem(f"chunk_index is {item.chunk_index!r}", "Count chunks from 0")
    return replace(
        item,
        title=title,
        text=text,
        key=optional_name(item.key, "key"),
        tags=checked_tags(item.tags),
        kind=optional_name(item.kind, "kind"),
        metadata=checked_metadata(item.metadata),
        language=optional_name(item.language, "language") or language_of(title, text),
        created_at=None if item.created_at is None else in_utc(item.created_at),
        source_ids=_sources(item.source_ids),
        path=optional_name(item.path, "path"),
    )


def checked_patch(patch: ItemPatch) -> ItemPatch:
    title = None if patch.title is None else _text(patch.title, "title")
    text = None if patch.text is None else _text(patch.text, "text")
    _check_size(title or "", text or "")
    return replace(
        patch,
        title=title,
        text=text,
        add_tags=checked_tags(patch.add_tags),
        remove_tags=checked_tags(patch.remove_tags),
        metadata=None if patch.metadata is None else checked_metadata(patch.metadata),
    )


def language_of(title: str, text: str) -> str:
    return detect(f"{title}\n{text}" if title else text)


def checked_edge(source: str, relation: str, target: str, weight: float) -> Edge:
    if isinstance(weight, bool) or not math.isfinite(weight) or not 0 < weight <= 1:
        raise InvalidItem(f"the weight of an edge is {weight!r}", "Give a number above 0, at most 1")
    return Edge(node_name(source), name(relation, "relation"), node_name(target), float(weight))


def node_name(value: str) -> str:
    """A name that a query could contain."""
    checked = name(value, "node name")
    if not normal_name(checked):
        raise InvalidItem(f"the node name {checked!r} has no letter or digit", "Give a name that can be searched for")
    return checked


def name(value: str, what: str) -> str:
    """A name that is there, short, and storable."""
    text = _text(value, what).strip()
    if not text:
        raise InvalidItem(f"the {what} is empty", f"Give a {what}")
    if len(text.encode()) > limits.NAME_BYTES:
        raise InvalidItem(f"the {what} has more than {limits.NAME_BYTES} bytes", "Shorten it")
    return text


def optional_name(value: str | None, what: str) -> str | None:
    return None if value is None else name(value, what)


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each tag once, however it is spelled."""
    if isinstance(tags, str):
        raise InvalidItem("tags is one string", "Give a list of tags")
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(fold(name(tag, "tag")), name(tag, "tag"))
        if len(found) > limits.TAGS:
            raise InvalidItem(f"more than {limits.TAGS} tags", "Keep the few that you would search by")
    return tuple(found.values())


def checked_metadata(metadata: Mapping[str, Json]) -> dict[str, Json]:
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidItem(
            f"the metadata is not JSON ({error})", "Use strings, finite numbers, lists and maps"
        ) from error
    if len(_text(text, "metadata").encode()) > limits.METADATA_BYTES:
        raise InvalidItem(f"the metadata has more than {limits.METADATA_BYTES} bytes", "Put long content into the text")
    return json.loads(text)


def in_utc(moment: datetime) -> datetime:
    """A moment without a zone is taken as UTC."""
    try:
        return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).astimezone(UTC)
    except OverflowError as error:
        raise InvalidItem(f"the time {moment!r} is out of range", "Use a year from 2 to 9998") from error


def _text(value: str, what: str) -> str:
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem(f"the {what} is a {type(value).__name__}, not a string", "Give text")
    return clean(value)


def _check_size(title: str, text: str) -> None:
    if len(title) + len(text) > limits.ITEM_BYTES or len(title.encode()) + len(text.encode()) > limits.ITEM_BYTES:
        raise InvalidItem(f"title and text have more than {limits.ITEM_BYTES:,} bytes", "Cut it into several items")


def _sources(source_ids: Iterable[int]) -> tuple[int, ...]:
    found = tuple(dict.fromkeys(source_ids))
    if len(found) > limits.SOURCES:
        raise InvalidItem(f"more than {limits.SOURCES} source_ids", "Point to fewer originals")
    if any(isinstance(raw, bool) or not isinstance(raw, int) for raw in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem("source_ids holds something that is not an id", "Give the ids of raw records")
    return found

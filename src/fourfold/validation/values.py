"""Rules for single values: names, tags, metadata, languages, sources, times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from datetime import time as daytime
from functools import lru_cache
from typing import Final, cast, get_args

from fourfold import limits
from fourfold.errors import InvalidItem, InvalidQuery
from fourfold.model import Json, Source
from fourfold.text.entities import normal_name, split_label
from fourfold.text.fold import clean, fold
from fourfold.text.language import CODES

SOURCES: Final[tuple[Source, ...]] = get_args(Source)
"""The most trusted first."""
_CACHED_TAGS = 4096
"""Size of the cache of folded tags: many items have the same few tags."""


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number of at least `least` that a store can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= limits.LARGEST_ID


def known_language(code: str | None) -> str | None:
    """Return the code; raise InvalidItem if it is not a code of ISO 639-1."""
    if code is None or code in CODES:
        return code
    given = optional_name(code, "language") or ""
    raise InvalidItem(f"{given!r} is not a language code", "Use a two-letter code of ISO 639-1, such as de or en")


def known_source(source: str) -> Source:
    for known in SOURCES:
        if source == known:
            return known
    raise InvalidItem(f"{source!r} is not a source", f"The sources are {', '.join(SOURCES)}")


def least_trusted(sources: Iterable[Source | None]) -> Source | None:
    """Return the source with the lowest trust; an unknown one has the lowest."""
    ranks = [len(SOURCES) if source is None else SOURCES.index(source) for source in sources]
    return SOURCES[max(ranks)] if max(ranks) < len(SOURCES) else None


def most_trusted(stored: Source | None, again: Source | None) -> Source | None:
    """Return the source of a text that came in twice."""
    return next((source for source in SOURCES if source in (stored, again)), None)


def node_name(value: str) -> str:
    """Check a name of a node, which must contain a letter or digit."""
    checked = name(value, "node name")
    if not normal_name(checked):
        raise InvalidItem(f"the node name {checked!r} has no letter or digit", "Give a name with a letter or digit")
    return checked


def node_reference(value: str) -> str:
    """Check a reference to a node: a name, or `Name#label` if several nodes share it."""
    reference = clean_text(value, "node name").strip()
    named, label = split_label(reference)
    node_name(named)
    optional_name(label, "label")
    return reference


def name(value: str, what: str) -> str:
    """Check a name: neither empty nor too long, and storable."""
    text = clean_text(value, what).strip()
    if not text:
        raise InvalidItem(f"the {what} is empty", f"Give a {what}")
    if len(text.encode()) > limits.NAME_BYTES:
        raise InvalidItem(f"the {what} has more than {limits.NAME_BYTES} bytes", "Shorten it")
    return text


def optional_name(value: str | None, what: str) -> str | None:
    return None if value is None else name(value, what)


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Check tags and drop repeated ones, which may differ in spelling."""
    if isinstance(tags, str):
        raise InvalidItem("tags is a single string", "Give a list of tags")
    found: dict[str, str] = {}
    for tag in tags:
        folded, spelled = _tag(tag) if isinstance(tag, str) else _tag(name(tag, "tag"))  # pyright: ignore[reportUnnecessaryIsInstance]
        found.setdefault(folded, spelled)
        check_tag_count(len(found))
    return tuple(found.values())


@lru_cache(_CACHED_TAGS)
def _tag(tag: str) -> tuple[str, str]:
    """The folded and the stored form of a tag."""
    spelled = name(tag, "tag")
    return fold(spelled), spelled


def check_tag_count(count: int) -> None:
    if count > limits.TAGS:
        raise InvalidItem(f"more than {limits.TAGS} tags", "Keep the tags you would search by")


def checked_metadata(metadata: Mapping[str, Json]) -> dict[str, Json]:
    if not isinstance(metadata, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem(f"the metadata is a {type(metadata).__name__}, not a mapping", "Give keys with values")
    if not metadata:
        return {}
    _check_depth(metadata)
    try:
        text = json.dumps(dict(metadata), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidItem(
            f"the metadata is not JSON ({error})", "Use strings, finite numbers, lists and mappings"
        ) from error
    if len(clean_text(text, "metadata").encode()) > limits.METADATA_BYTES:
        raise _too_much_metadata()
    return json.loads(text)


def _check_depth(metadata: Mapping[str, Json]) -> None:
    """Limit the nesting, because code that reads metadata may recurse. Works level by level, so cycles are safe."""
    level: list[Json] = [*metadata.values()]
    for _ in range(limits.METADATA_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
        if len(level) > limits.METADATA_BYTES:
            raise _too_much_metadata()
    raise InvalidItem(f"the metadata is nested more than {limits.METADATA_DEPTH} levels deep", "Flatten it")


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return cast("dict[str, Json]", value).values()
    return cast("Iterable[Json]", value) if isinstance(value, list | tuple) else ()


def _too_much_metadata() -> InvalidItem:
    return InvalidItem(f"the metadata has more than {limits.METADATA_BYTES} bytes", "Put long content into the text")


def in_utc(time: datetime) -> datetime:
    """Convert a time to UTC; a time without a zone is taken as UTC."""
    if not isinstance(time, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem(f"the time {time!r} is a {type(time).__name__}", "Give a datetime")
    try:
        return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).astimezone(UTC)
    except OverflowError as error:
        raise InvalidItem(f"the time {time!r} is out of range", "Use a year from 2 to 9998") from error


def time_of(time: datetime | str | None, what: str) -> datetime | None:
    """Read a time of a query: a date means its last moment, a time without a zone is in UTC."""
    if time is None or isinstance(time, datetime):
        return None if time is None else in_utc(time)
    try:
        found = datetime.fromisoformat(time.strip())
        if len(time.strip()) <= len("2026-11-15"):
            found = datetime.combine(found, daytime.max)
        return in_utc(found)
    except (ValueError, InvalidItem) as wrong:
        raise InvalidQuery(f"{what} is {time!r}", "Write a time: 2026-11-15 or 2026-11-15T10:00:00Z") from wrong


def clean_text(value: str, what: str) -> str:
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem(f"the {what} is a {type(value).__name__}, not a string", "Give a string")
    return clean(value)

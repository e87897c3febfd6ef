"""Validation of items, tags, names, metadata and filters before they are stored or used."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, cast, get_args

from fourfold import limits
from fourfold.arguments import check_fields
from fourfold.embed.base import check_vector, check_vectors
from fourfold.errors import InvalidItem, InvalidQuery, NotFound, RequestError
from fourfold.fields import DETAILS, Column
from fourfold.filters import OPERATORS, read_time, read_where, stored_form
from fourfold.model import (
    NO_FILTERS,
    Edge,
    Filters,
    GivenFilters,
    Item,
    ItemPatch,
    Json,
    MetadataTest,
    NewItem,
    Source,
    Vector,
)
from fourfold.text.entities import normal_name, split_label
from fourfold.text.fold import clean, fold
from fourfold.text.language import CODES, detect, detect_many

# ---------------------------------------------------------------- values

SOURCES: Final[tuple[Source, ...]] = get_args(Source)
"""The most trusted first."""
_CACHED_TAGS = 4096
"""Size of the cache of folded tags: many items have the same few tags."""


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number of at least `least` that a store can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= limits.LARGEST_ID


def new_item(item: NewItem | str, more: Mapping[str, Any]) -> NewItem:
    """Return the item with more of its fields set."""
    names = [each.name for each in fields(NewItem) if each.name != "text"]
    if wrong := [name for name in more if name not in names]:
        raise InvalidItem(f"an item has no field {wrong[0]!r}", f"The fields are {', '.join(names)}")
    return NewItem(item, **more) if isinstance(item, str) else replace(item, **more)


def known_language(code: str | None) -> str | None:
    """Return the code; raise InvalidItem if it is not a code of ISO 639-1."""
    if code is None or code in CODES:
        return code
    cleaned = optional_name(code, "language") or ""
    raise InvalidItem(f"{cleaned!r} is not a language code", "Use a two-letter code of ISO 639-1, such as de or en")


def known_source(source: str) -> Source:
    for one in SOURCES:
        if source == one:
            return one
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


RESERVED_SESSIONS: Final = "fourfold:"
"""How the sessions of raw records begin that are kept for proposals."""


def optional_session(value: str | None) -> str | None:
    session = optional_name(value, "session_id")
    if session is not None and session.startswith(RESERVED_SESSIONS):
        remedy = f"Choose one that does not begin with {RESERVED_SESSIONS}"
        raise InvalidItem(f"session_id {session!r} is reserved", remedy)
    return session


def optional_name(value: str | None, what: str) -> str | None:
    return None if value is None else name(value, what)


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Check tags and drop repeated ones, which may differ in spelling."""
    if isinstance(tags, str):
        raise InvalidItem("tags is a single string", "Give a list of tags")
    by_fold: dict[str, str] = {}
    for tag in tags:
        folded, spelled = _tag(tag) if isinstance(tag, str) else _tag(name(tag, "tag"))  # pyright: ignore[reportUnnecessaryIsInstance]
        by_fold.setdefault(folded, spelled)
        check_tag_count(len(by_fold))
    return tuple(by_fold.values())


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
        remedy = "Use strings, finite numbers, lists and mappings"
        raise InvalidItem(f"the metadata is not JSON ({error})", remedy) from error
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
    return read_time(time, what, end_of_day=True)


def clean_text(value: str, what: str) -> str:
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem(f"the {what} is a {type(value).__name__}, not a string", "Give a string")
    return clean(value)


# ---------------------------------------------------------------- items, nodes and edges


def checked(item: NewItem, source: Source | None = None) -> NewItem:
    """Return the item as it will be stored; raise InvalidItem if it is not valid."""
    return _checked(item, *_title_and_text(item), None, None, source)


def checked_many(items: Sequence[NewItem], source: Source | None = None) -> list[NewItem]:
    """Check several items; languages are detected and vectors checked in one go, which is faster.

    `source`: that of items which name none.
    """
    try:
        spelled = [_title_and_text(item) for item in items]
        silent = [texts for item, texts in zip(items, spelled, strict=True) if item.language is None]
        languages = iter(detect_many([_together(*texts) for texts in silent]))
        vectors = iter(check_vectors([item.vector for item in items if item.vector is not None]))
        return [
            _checked(
                item,
                *texts,
                next(languages) if item.language is None else None,
                None if item.vector is None else next(vectors),
                source,
            )
            for item, texts in zip(items, spelled, strict=True)
        ]
    except RequestError:  # raise the error of the first invalid item, not of the first check that fails
        return [checked(item, source) for item in items]


def _title_and_text(item: NewItem) -> tuple[str, str]:
    check_fields(item, NewItem, InvalidItem)
    title, text = clean(item.title), clean(item.text)
    if not title.strip() and not text.strip():
        raise InvalidItem("title and text are both empty", "Give the item a title or a text")
    _check_size(title, text)
    return title, text


def _checked(
    item: NewItem, title: str, text: str, language: str | None, vector: Vector | None, source: Source | None
) -> NewItem:
    """Check an item; `language` and `vector` are None unless they were determined before."""
    if item.chunk_index is not None and not is_whole(item.chunk_index, 0):
        raise InvalidItem(f"chunk_index is {item.chunk_index!r}", "Count chunks from 0")
    if item.attribute is not None and item.subject is None:
        raise InvalidItem("the item has an attribute and no subject", "Say what the attribute belongs to: subject")
    details = {
        name: _checked_detail(column, value)
        for name, column in DETAILS.items()
        if (value := getattr(item, name)) is not None
    }
    if source is not None:
        details.setdefault("source", source)
    return NewItem(  # in the order of its fields, which is faster than by their names
        text,
        title,
        optional_name(item.key, "key"),
        checked_tags(item.tags),
        optional_name(item.kind, "kind"),
        checked_metadata(item.metadata),
        language or known_language(item.language) or language_of(title, text),
        None if item.created_at is None else in_utc(item.created_at),
        _sources(item.source_ids),
        optional_name(item.path, "path"),
        item.chunk_index,
        check_vector(item.vector) if vector is None and item.vector is not None else vector,
        **details,
    )


def _checked_detail(column: Column, value: Json) -> Json:
    if column.name == "source":
        return known_source(value)
    return in_utc(value) if column.holds == "time" else name(value, column.name) if column.holds == "text" else value


def checked_patch(patch: ItemPatch) -> ItemPatch:
    check_fields(patch, ItemPatch, InvalidItem)
    title = None if patch.title is None else clean_text(patch.title, "title")
    text = None if patch.text is None else clean_text(patch.text, "text")
    _check_size(title or "", text or "")
    return replace(
        patch,
        title=title,
        text=text,
        add_tags=checked_tags(patch.add_tags),
        remove_tags=checked_tags(patch.remove_tags),
        metadata=None if patch.metadata is None else checked_metadata(patch.metadata),
        source=None if patch.source is None else known_source(patch.source),
    )


def patched(old: Item, patch: ItemPatch) -> Item:
    """Apply a checked patch to a stored item; raise InvalidItem if the result is not valid.

    Stores call this inside the write transaction. Fields that the patch does not change are not checked, so that an
    invalid item can be corrected step by step.
    """
    new = old
    if patch.title is not None or patch.text is not None:
        title = old.title if patch.title is None else patch.title
        text = old.text if patch.text is None else patch.text
        if not title.strip() and not text.strip():
            raise InvalidItem("title and text would both be empty", "Forget the item instead")
        _check_size(title, text)
        language = language_of(title, text) if (title, text) != (old.title, old.text) else old.language
        new = replace(new, title=title, text=text, language=language, source=_patched_source(old, title, text, patch))
    if patch.add_tags or patch.remove_tags:
        removed = {fold(tag) for tag in patch.remove_tags}
        tags = {folded: tag for folded, tag in _folded((*old.tags, *patch.add_tags)).items() if folded not in removed}
        if patch.add_tags:
            check_tag_count(len(tags))
        new = replace(new, tags=tuple(sorted(tags.values())))
    if patch.metadata is not None:
        merged = {**old.metadata, **patch.metadata}
        new = replace(new, metadata=checked_metadata({key: data for key, data in merged.items() if data is not None}))
    return new


def _patched_source(old: Item, title: str, text: str, patch: ItemPatch) -> Source | None:
    """The source of what an item says after a patch: the lower one, if a part of what it said stays."""
    if patch.source is None or (title, text) == (old.title, old.text):
        return old.source
    partly = (old.title and title == old.title) or (old.text and text == old.text) or old.source_ids
    return least_trusted((old.source, patch.source)) if partly else patch.source


def united(tags: Iterable[str], sources: Iterable[int], again: NewItem) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Merge tags and sources of a stored item with those of the same text stored again, within the limits."""
    both = _folded((*tags, *again.tags))
    check_tag_count(len(both))
    return tuple(sorted(both.values())), _sources((*sources, *again.source_ids))


def merged_properties(stored: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    """Merge new properties into those of a node."""
    return checked_metadata({**stored, **new})


def check_aliases(count: int) -> None:
    if count > limits.ALIASES:
        raise InvalidItem(f"more than {limits.ALIASES} aliases", "Keep the names that texts and queries use")


def _folded(tags: Iterable[str]) -> dict[str, str]:
    """Map each folded tag to its first spelling."""
    by_fold: dict[str, str] = {}
    for tag in tags:
        by_fold.setdefault(fold(tag), tag)
    return by_fold


def _together(title: str, text: str) -> str:
    return f"{title}\n{text}" if title else text


def _check_size(title: str, text: str) -> None:
    length = len(title) + len(text)
    if 4 * length <= limits.ITEM_BYTES:  # a character has at most 4 bytes
        return
    if length > limits.ITEM_BYTES or len(title.encode()) + len(text.encode()) > limits.ITEM_BYTES:
        raise InvalidItem(f"title and text have more than {limits.ITEM_BYTES:,} bytes", "Split it into several items")


def _sources(source_ids: Iterable[int]) -> tuple[int, ...]:
    ids = tuple(dict.fromkeys(source_ids))
    if not ids:
        return ids
    if len(ids) > limits.SOURCES:
        raise InvalidItem(f"more than {limits.SOURCES} source_ids", "Refer to fewer raw records")
    if any(isinstance(raw, bool) or not isinstance(raw, int) for raw in ids):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem("source_ids contains a value that is not an id", "Give the ids of raw records")
    if unknown := [raw for raw in ids if not is_whole(raw, 1)]:
        raise NotFound(f"no raw record {unknown[0]}", "Store the original first, then refer to its id")
    return ids


def language_of(title: str, text: str) -> str:
    return detect(_together(title, text))


def checked_edge(source: str, relation: str, target: str, weight: float) -> Edge:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem(f"the weight of an edge is {weight!r}", "Give a number above 0 and at most 1")
    return Edge(node_reference(source), name(relation, "relation"), node_reference(target), float(weight))


# ---------------------------------------------------------------- requests


def checked_filters(filters: GivenFilters | None) -> Filters:
    """Return the filters in the form in which items are stored; raise InvalidQuery if they are not valid."""
    if filters is None or filters is NO_FILTERS:
        return NO_FILTERS
    if not isinstance(filters, Filters):
        filters = Filters(where=filters)
    if filters == NO_FILTERS:
        return NO_FILTERS
    check_fields(filters, Filters, InvalidQuery)
    if max(len(filters.tags), len(filters.metadata)) > limits.TAGS:
        raise InvalidQuery(f"more than {limits.TAGS} tags or tests of metadata", "Filter by fewer")
    try:
        checked = replace(
            filters,
            tags=checked_tags(filters.tags),
            created_from=None if filters.created_from is None else in_utc(filters.created_from),
            created_to=None if filters.created_to is None else in_utc(filters.created_to),
            kind=optional_name(filters.kind, "kind"),
            language=known_language(filters.language),
            path=optional_name(filters.path, "path"),
            source=None if filters.source is None else known_source(filters.source),
            subject=optional_name(filters.subject, "subject"),
            metadata=tuple(_checked_test(test) for test in filters.metadata),
            where=None if filters.where is None else read_where(filters.where),
        )
    except InvalidItem as error:
        raise InvalidQuery(f"filter: {error.message}", error.remedy) from error
    return NO_FILTERS if checked.condition is None else checked  # raises InvalidQuery for an invalid condition


def _checked_test(test: MetadataTest) -> MetadataTest:
    check_fields(test, MetadataTest, InvalidQuery)
    if test.op not in OPERATORS:
        raise InvalidItem(f"unknown operator {test.op!r}", f"The operators are {', '.join(OPERATORS)}")
    clean_text(test.key, "metadata key")
    return replace(test, value=stored_form(test.value))


def check_range(name: str, value: int, most: int) -> None:
    if not is_whole(value, 1) or value > most:
        raise InvalidQuery(f"{name} is {value!r}", f"Give a whole number from 1 to {most}")


def check_page(limit: int, offset: int) -> None:
    if not is_whole(limit, 1) or limit > limits.PAGE_SIZE or not is_whole(offset, 0):
        remedy = f"Give a limit of 1 to {limits.PAGE_SIZE} and an offset of 0 or more"
        raise InvalidQuery(f"limit {limit!r}, offset {offset!r}", remedy)

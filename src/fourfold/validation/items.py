"""Rules for items, patches and edges, and for what two items become when they are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fourfold import limits
from fourfold.arguments import check_fields
from fourfold.embed.vectors import check_vector, check_vectors
from fourfold.errors import InvalidItem, NotFound, RequestError
from fourfold.fields import DETAILS, Column
from fourfold.model import Edge, Item, ItemPatch, Json, NewItem, Source
from fourfold.text.fold import fold
from fourfold.text.language import detect, detect_many
from fourfold.validation.values import (
    check_tag_count,
    checked_metadata,
    checked_tags,
    clean_text,
    in_utc,
    is_whole,
    known_language,
    known_source,
    least_trusted,
    name,
    node_reference,
    optional_name,
)

if TYPE_CHECKING:
    from fourfold.model import Vector


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
    title, text = clean_text(item.title, "title"), clean_text(item.text, "text")
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


def merged_properties(known: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, Json]:
    """Merge new properties into those of a node."""
    return checked_metadata({**known, **new})


def check_aliases(count: int) -> None:
    if count > limits.ALIASES:
        raise InvalidItem(f"more than {limits.ALIASES} aliases", "Keep the names that texts and queries use")


def _folded(tags: Iterable[str]) -> dict[str, str]:
    """Map each folded tag to its first spelling."""
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(fold(tag), tag)
    return found


def _together(title: str, text: str) -> str:
    return f"{title}\n{text}" if title else text


def _check_size(title: str, text: str) -> None:
    length = len(title) + len(text)
    if 4 * length <= limits.ITEM_BYTES:  # a character has at most 4 bytes
        return
    if length > limits.ITEM_BYTES or len(title.encode()) + len(text.encode()) > limits.ITEM_BYTES:
        raise InvalidItem(f"title and text have more than {limits.ITEM_BYTES:,} bytes", "Split it into several items")


def _sources(source_ids: Iterable[int]) -> tuple[int, ...]:
    found = tuple(dict.fromkeys(source_ids))
    if not found:
        return found
    if len(found) > limits.SOURCES:
        raise InvalidItem(f"more than {limits.SOURCES} source_ids", "Refer to fewer raw records")
    if any(isinstance(raw, bool) or not isinstance(raw, int) for raw in found):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem("source_ids contains a value that is not an id", "Give the ids of raw records")
    if unknown := [raw for raw in found if not is_whole(raw, 1)]:
        raise NotFound(f"no raw record {unknown[0]}", "Store the original first, then refer to its id")
    return found


def language_of(title: str, text: str) -> str:
    return detect(_together(title, text))


def checked_edge(source: str, relation: str, target: str, weight: float) -> Edge:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidItem(f"the weight of an edge is {weight!r}", "Give a number above 0 and at most 1")
    return Edge(node_reference(source), name(relation, "relation"), node_reference(target), float(weight))

"""Problems of a store: wrong counters, and items that break a rule, which `repair` brings within the limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from fourfold import limits
from fourfold import validation as rules
from fourfold.errors import InvalidItem
from fourfold.model import Item, Json, NewItem

_TITLE_CHARACTERS = 200
"""Characters kept of a title that is too long together with its text."""


def miscounted(
    value: Callable[[str], object],
    counters: Iterable[tuple[str, str, str]],
    languages: str,
    waiting: str,
    misshapen: str,
) -> Iterator[str]:
    """Problems of counters and of the queue. `counters` has table, column, and the SQL of the right value."""
    for table, column, truth in counters:
        if wrong := value(f"SELECT count(*) FROM {table} WHERE {column} <> ({truth})"):  # noqa: S608  (our own clauses)
            yield f"{table}: {wrong} rows have a wrong number of {column}"
    known, queue = "SELECT ns, language, items FROM languages WHERE items <> 0", "SELECT ns, item FROM waiting"

    def differ(some: str, others: str) -> bool:
        return bool(value(f"SELECT 1 FROM ({some} EXCEPT {others}) AS wrong LIMIT 1"))  # noqa: S608  (our own clauses)

    if differ(known, languages) or differ(languages, known):
        yield "languages: their counters are wrong"
    if differ(waiting, queue):
        yield "waiting: an item without a vector is not in the queue"
    if differ(queue, waiting):
        yield "waiting: an item in the queue has a vector"
    if value(f"{misshapen} LIMIT 1"):
        yield "vectors: one does not have the dimension of its namespace"


class Mended(NamedTuple):
    item: NewItem
    """The item to store instead."""
    removed: tuple[str, ...]
    """The removed parts; each becomes a raw record that is a source of the item."""


def mended(item: Item) -> Mended | None:
    """The item within the limits, with the parts that had to be removed; None if it is within them already."""
    removed: list[str] = []
    title = item.title
    if not title.strip() and not item.text.strip():
        title = item.key or item.path or f"Item {item.id}"
    if len(title.encode()) + len(item.text.encode()) > limits.ITEM_BYTES:
        removed.append(title)
        title = title[:_TITLE_CHARACTERS]
    metadata, taken = _fitting(dict(item.metadata))
    removed += [json.dumps({"metadata": {key: taken[key]}}, ensure_ascii=False) for key in sorted(taken)]
    tags = item.tags[: limits.TAGS]
    if rest := item.tags[limits.TAGS :]:
        removed.append(json.dumps({"tags": rest}, ensure_ascii=False))
    sources = item.source_ids
    if len(sources) + len(removed) > limits.SOURCES:
        removed.append(json.dumps({"source_ids": sources[limits.SOURCES - len(removed) - 1 :]}))
        sources = sources[: limits.SOURCES - len(removed)]
    if not removed and title == item.title:
        return None
    new = replace(item.given(), title=title, tags=tags, metadata=metadata, source_ids=sources)
    return Mended(new, tuple(removed))


def shortened(item: Item, kept: Sequence[int]) -> str:
    """What `repair` says of an item that it brought within the limits."""
    where = f"; what did not fit is in the raw records {', '.join(map(str, kept))}" if kept else ""
    return f"item {item.id} keeps the limits{where}"


def _fitting(metadata: dict[str, Json]) -> tuple[dict[str, Json], dict[str, Json]]:
    """What can stay, and what is taken out: what is nested too deeply, then the largest until the rest fits."""
    taken = {key: data for key, data in metadata.items() if not _fits({key: data})}
    kept = {key: data for key, data in metadata.items() if key not in taken}
    for key in sorted(kept, key=lambda key: -len(json.dumps(kept[key]))):
        if _fits(kept):
            break
        taken[key] = kept.pop(key)
    return kept, taken


def _fits(metadata: dict[str, Json]) -> bool:
    try:
        rules.checked_metadata(metadata)
    except InvalidItem:
        return False
    return True

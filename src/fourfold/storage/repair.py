"""Items that break a rule, which `repair` brings within the limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from fourfold import limits
from fourfold import validation as rules
from fourfold.errors import InvalidItem
from fourfold.model import Item, Json, NewItem, RawRecord
from fourfold.storage.values import NewRaw

_TITLE_CHARACTERS = 200
"""Characters kept of a title that is too long together with its text."""


def mend(
    items: Iterable[Item],
    add_raw: Callable[[NewRaw], RawRecord],
    rewrite: Callable[[int, NewItem, datetime], None],
) -> list[str]:
    """Brings items within the limits, and lists them. Their removed parts become raw records and sources of them."""
    done: list[str] = []
    now = datetime.now(UTC)
    for item in items:
        if (mended := within_limits(item)) is None:
            continue
        new, removed = mended
        kept = [add_raw(NewRaw(text, None, None, {"repaired_item": item.id}, now)).id for text in removed]
        rewrite(item.id, replace(new, source_ids=(*new.source_ids, *kept)), now)
        where = f"; what did not fit is in the raw records {', '.join(map(str, kept))}" if kept else ""
        done.append(f"repaired: namespace {item.namespace}: item {item.id} keeps the limits{where}")
    return done


def within_limits(item: Item) -> tuple[NewItem, list[str]] | None:
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
    return new, removed


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

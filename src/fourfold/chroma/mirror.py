"""The texts of a collection as items of a store: what keyword search, filters and results are made from.

Chroma has no log of changes. So the mirror looks at the number of chunks before every search, and at all their ids when
that has changed or some seconds have passed; chunks that a search touches are compared with what is stored. A text that
was replaced under its id and is never touched is seen by `follow(verify=True)` alone, which compares everything.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

from fourfold import items as rules
from fourfold.chroma.collection import Collection, all_ids, ask, chunks
from fourfold.errors import InvalidItem
from fourfold.limits import ITEM_BYTES, NAME_BYTES, READ_SECONDS, RETRIEVER_SECONDS, TAGS
from fourfold.model import NO_FILTERS, Json, NewItem
from fourfold.stores.base import Store

_PAGE: Final = 500
SECONDS: Final = 5.0
"""Between two looks at all ids."""
_TITLES: Final = ("title", "article_title", "name")
_PATHS: Final = ("path", "file_path", "source", "url")


class _Known(NamedTuple):
    item: int
    mark: int
    """Of document and metadata, as this process saw them."""


class Mirror:
    """Of one collection, in a namespace of its own. It belongs to one event loop."""

    def __init__(self, collection: Collection, store: Store, namespace: str, *, links: bool = True) -> None:
        self.collection = collection
        self.store = store
        self.namespace = namespace
        self._links = links
        self._known: dict[str, _Known] = {}
        self._keys: dict[int, str] = {}
        self._seen = float("-inf")
        self._loaded = False
        self._one = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def key(self, item: int) -> str | None:
        """The id in the collection."""
        return self._keys.get(item)

    async def catch_up(self) -> None:
        """Follows the collection where it may be another than it was."""
        async with self._one:
            await self._load()
            count = await ask(RETRIEVER_SECONDS, self.collection.count)
            if count != len(self._known) or time.monotonic() - self._seen > SECONDS:
                await self._follow(verify=False)

    async def follow(self, *, verify: bool = False) -> int:
        """How many chunks were stored or removed."""
        async with self._one:
            await self._load()
            return await self._follow(verify=verify)

    async def items(self, found: Sequence[tuple[str, str, Mapping[str, Any]]]) -> dict[str, int]:
        """Items of chunks (id, document, metadata) that a search has just seen; new and changed ones are stored."""
        fresh = [chunk for chunk in found if self._is_new(chunk)]
        if fresh:
            await self._put(fresh)
        return {id: self._known[id].item for id, _, _ in found if id in self._known}

    # ------------------------------------------------------------ following

    async def _load(self) -> None:
        """What is stored already, by an earlier process."""
        if self._loaded:
            return
        ids = await self.store.matching(self.namespace, NO_FILTERS)
        for start in range(0, len(ids), _PAGE):
            for item in (await self.store.get(self.namespace, ids[start : start + _PAGE])).values():
                if item.key is not None:
                    self._note(item.key, _Known(item.id, _mark(item.text, item.metadata)))
        self._loaded = True

    async def _follow(self, *, verify: bool) -> int:
        ids = await ask(READ_SECONDS, all_ids, self.collection)
        wanted = ids if verify else [id for id in ids if id not in self._known]
        changed = 0
        for start in range(0, len(wanted), _PAGE):
            part = wanted[start : start + _PAGE]
            found = await ask(READ_SECONDS, self.collection.get, ids=part, include=["documents", "metadatas"])
            fresh = [chunk for chunk in chunks(found) if self._is_new(chunk)]
            await self._put(fresh)
            changed += len(fresh)
        gone = self._known.keys() - set(ids)
        await self._forget(gone)
        self._seen = time.monotonic()
        return changed + len(gone)

    def _is_new(self, chunk: tuple[str, str, Mapping[str, Any]]) -> bool:
        known = self._known.get(chunk[0])
        return known is None or known.mark != _mark(chunk[1], chunk[2])

    async def _put(self, found: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        if found:
            items = [_item(*chunk) for chunk in found]
            stored = await self.store.put(self.namespace, items, datetime.now(UTC), links=self._links)
            for (id, document, metadata), item in zip(found, stored, strict=True):
                self._note(id, _Known(item.id, _mark(document, metadata)))

    async def _forget(self, gone: Iterable[str]) -> None:
        lost = [self._known.pop(id).item for id in gone]
        for start in range(0, len(lost), _PAGE):
            await self.store.forget(self.namespace, lost[start : start + _PAGE])
        for item in lost:
            self._keys.pop(item, None)

    def _note(self, id: str, known: _Known) -> None:
        self._known[id] = known
        self._keys[known.item] = id


def _mark(document: str, metadata: Mapping[str, Json]) -> int:
    return hash((document, json.dumps(dict(metadata), sort_keys=True, default=str)))


def _item(id: str, document: str, metadata: Mapping[str, Any]) -> NewItem:
    """A chunk with the title of its article, as it is stored. What no store can hold of it is left out."""
    title = _first(metadata, _TITLES)
    number = metadata.get("chunk_index")
    new = NewItem(
        text=_storable(document),
        title=_storable(title if title or document.strip() else id),
        key=id,
        tags=_tags(metadata.get("tags")),
        metadata=dict(metadata),
        path=_first(metadata, _PATHS) or None,
        chunk_index=number if isinstance(number, int) and number >= 0 else None,
    )
    try:
        return rules.checked(new)
    except InvalidItem:
        return rules.checked(NewItem(text=new.text, title=new.title, key=id))


def _first(metadata: Mapping[str, Any], names: Sequence[str]) -> str:
    said = (metadata.get(name) for name in names)
    return next((text for text in said if isinstance(text, str) and 0 < len(text.encode()) <= NAME_BYTES), "")


def _tags(value: Any) -> tuple[str, ...]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    if isinstance(value, str):
        listed = list(value.split(","))
    return tuple(tag.strip() for tag in listed if isinstance(tag, str) and tag.strip())[:TAGS]


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace")[: ITEM_BYTES // 2].decode("utf-8", "ignore").replace("\0", " ")

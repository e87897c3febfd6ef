"""Copies the texts of a collection into a store, for keyword search, filters and results.

Chroma has no log of changes. The mirror reads the number of chunks before every search, and all their ids if the number
has changed or some seconds have passed; chunks that a search returns are compared with the stored ones. A text that was
replaced under its id and is never returned is only found by `follow(verify=True)`, which compares everything.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

from fourfold import validation as rules
from fourfold.errors import InvalidItem
from fourfold.integrations.chroma.collection import Collection, all_ids, ask, chunks
from fourfold.limits import ITEM_BYTES, NAME_BYTES, READ_SECONDS, RETRIEVER_SECONDS, TAGS
from fourfold.model import NO_FILTERS, Json, NewItem
from fourfold.storage.protocols import Store
from fourfold.storage.sql.linking import bring_names

_PAGE_CHUNKS: Final = 500
SECONDS: Final = 5.0
"""Between two reads of all ids."""
_TITLES: Final = ("title", "article_title", "name")
_PATHS: Final = ("path", "file_path", "source", "url")


class _Known(NamedTuple):
    item: int
    mark: int
    """Hash of document and metadata as last seen by this process."""


class Mirror:
    """The mirror of one collection, in a namespace of its own. Safe to call from several threads."""

    def __init__(self, collection: Collection, store: Store, namespace: str, *, links: bool = True) -> None:
        self.collection = collection
        self.store = store
        self.namespace = namespace
        self._links = links
        self._known: dict[str, _Known] = {}
        self._keys: dict[int, str] = {}
        self._seen = float("-inf")
        self._loaded = False
        self.changes = 0
        """Chunks stored or removed so far."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._known)

    def key(self, item: int) -> str | None:
        """The id in the collection."""
        return self._keys.get(item)

    def catch_up(self) -> None:
        """Follows the collection if it may have changed."""
        with self._lock:
            self._load()
            count = ask(RETRIEVER_SECONDS, self.collection.count)
            if count != len(self._known) or time.monotonic() - self._seen > SECONDS:
                self._follow(verify=False)

    def follow(self, *, verify: bool = False) -> int:
        """Returns how many chunks were stored or removed."""
        with self._lock:
            self._load()
            before = self.changes
            self._follow(verify=verify)
            return self.changes - before

    def items(self, found: Sequence[tuple[str, str, Mapping[str, Any]]]) -> dict[str, int]:
        """Items of chunks (id, document, metadata) that a search returned; stores new and changed ones."""
        with self._lock:
            self._put(found)
            return {id: self._known[id].item for id, _, _ in found}

    # ------------------------------------------------------------ following

    def _load(self) -> None:
        """Reads what an earlier process stored."""
        if self._loaded:
            return
        with self.store.snapshot(self.namespace) as snapshot:
            ids = snapshot.rows.ids(NO_FILTERS)
            for start in range(0, len(ids), _PAGE_CHUNKS):
                for item in snapshot.rows.get(ids[start : start + _PAGE_CHUNKS]).values():
                    if item.key is not None:
                        self._note(item.key, _Known(item.id, _mark(item.text, item.metadata)))
        self._loaded = True

    def _follow(self, *, verify: bool) -> None:
        ids = ask(READ_SECONDS, all_ids, self.collection)
        wanted = ids if verify else [id for id in ids if id not in self._known]
        for start in range(0, len(wanted), _PAGE_CHUNKS):
            part = wanted[start : start + _PAGE_CHUNKS]
            self._put(chunks(ask(READ_SECONDS, self.collection.get, ids=part, include=["documents", "metadatas"])))
        self._forget(self._known.keys() - set(ids))
        self._seen = time.monotonic()

    def _is_new(self, chunk: tuple[str, str, Mapping[str, Any]]) -> bool:
        known = self._known.get(chunk[0])
        return known is None or known.mark != _mark(chunk[1], chunk[2])

    def _put(self, found: Sequence[tuple[str, str, Mapping[str, Any]]]) -> None:
        """Stores new and changed chunks."""
        fresh = [chunk for chunk in found if self._is_new(chunk)]
        if not fresh:
            return
        items = [_item(*chunk) for chunk in fresh]
        with self.store.transaction(self.namespace, names=self._links and bring_names(items)) as transaction:
            stored = transaction.items.put(items, datetime.now(UTC), links=self._links)
        for (id, document, metadata), item in zip(fresh, stored, strict=True):
            self._note(id, _Known(item.id, _mark(document, metadata)))
        self.changes += len(fresh)

    def _forget(self, gone: Iterable[str]) -> None:
        keys = list(gone)
        for start in range(0, len(keys), _PAGE_CHUNKS):
            part = keys[start : start + _PAGE_CHUNKS]
            with self.store.transaction(self.namespace) as transaction:
                transaction.items.forget([self._known[key].item for key in part])
            for key in part:
                self._keys.pop(self._known.pop(key).item, None)
        self.changes += len(keys)

    def _note(self, id: str, known: _Known) -> None:
        self._known[id] = known
        self._keys[known.item] = id


def _mark(document: str, metadata: Mapping[str, Json]) -> int:
    return hash((document, json.dumps(dict(metadata), sort_keys=True, default=str)))


def _item(id: str, document: str, metadata: Mapping[str, Any]) -> NewItem:
    """A chunk as an item, with the title of its article, and without values that cannot be stored."""
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

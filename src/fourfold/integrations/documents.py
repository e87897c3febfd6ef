"""Documents of frameworks as items: an id, a text and metadata in, the same id, text and metadata out.

A title and tags in the metadata are also those of the item, so that all four retrievers can use them. Items that were
stored by other means are documents, too: their other fields are added to the metadata.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar, cast

from fourfold.client import RemoteMemory
from fourfold.errors import RequestError
from fourfold.filters import Condition, Every, Some, field_at, make_test
from fourfold.limits import FILTER_VALUES, PAGE_SIZE
from fourfold.memory import Memory
from fourfold.model import Filters, GivenFilters, Item, Json, NewItem
from fourfold.retrieval import Result
from fourfold.text.fold import clean

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")

AnyMemory: TypeAlias = Memory | RemoteMemory
"""An open store, or one on a server."""


def in_thread(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The method for asyncio: with the same parameters, in a thread."""

    @wraps(method)
    async def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    return call


EVERYTHING: Final[Mapping[str, Json]] = {"id": {"exists": True}}
_ID: Final = re.compile(r"item:([1-9][0-9]{0,15})")


def new_item(key: str, text: str, metadata: Mapping[str, Json], vector: Sequence[float] | None = None) -> NewItem:
    title, tags = metadata.get("title"), metadata.get("tags")
    named = title if isinstance(title, str) else ""
    return NewItem(
        text=text,
        title=named if text.strip() or named.strip() else key,
        key=key,
        tags=tuple(cast("list[str]", tags)) if _is_texts(tags) else (),
        metadata=metadata,
        vector=vector,
    )


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in cast("list[Json]", value))


def metadata_of(item: Item) -> dict[str, Any]:
    """The metadata of the document: that of the item, and its other fields."""
    facts = {
        "title": item.title if item.title != item.key else "",
        "tags": list(item.tags),
        "kind": item.kind,
        "path": item.path,
        "chunk_index": item.chunk_index,
    }
    return {**{name: fact for name, fact in facts.items() if fact not in (None, "", [])}, **item.metadata}


def id_of(item: Item) -> str:
    """The id of the document: the key, or `item:N` for an item without one."""
    return item.key if item.key is not None else f"item:{item.id}"


def scores_of(result: Result) -> dict[str, Any]:
    """How the result was ranked: its score, its confidence, and what each retriever adds to the score."""
    parts = {part.source: part.value for part in result.contributions}
    return {"score": result.score, "confidence": result.confidence, "contributions": parts}


def find(memory: AnyMemory, ids: Sequence[str]) -> dict[str, Item]:
    """The items of those documents that exist, by the document's id."""
    by_id = {id_of(item): item for part in _parts(ids) for item in each(memory, Filters(where=among(part)))}
    return {id: by_id[key] for id in ids if (key := spelled(id)) in by_id}


def spelled(id: str) -> str:
    """An id as a store spells it: ids that differ in their spelling only are one document."""
    return clean(id).strip()


def forget(memory: AnyMemory, ids: Sequence[str]) -> int:
    """Removes documents; returns how many there were."""
    return sum(memory.forget_matching(Filters(where=among(part))) for part in _parts(ids))


def each(memory: AnyMemory, filters: GivenFilters | None = None) -> Iterator[Item]:
    """All items that match, newest first."""
    offset = 0
    while page := memory.list(filters, limit=PAGE_SIZE, offset=offset):
        yield from page
        if len(page) < PAGE_SIZE:
            return
        offset += len(page)


def require_no_embedder(memory: AnyMemory, remedy: str) -> None:
    """Refuses a framework's model if the memory has its own embedder, since vectors of two models cannot be mixed."""
    own = memory.status().get("embedder")
    if own is not None:
        raise RequestError(f"this memory makes its own vectors ({own})", remedy)


def among(ids: Sequence[str]) -> Condition:
    """The condition that an item is one of these documents."""
    numbers = [int(match[1]) for match in map(_ID.fullmatch, ids) if match is not None]
    key = field_at(["key"])
    keys = make_test(key, "in", [*map(spelled, ids)])
    if not numbers:
        return keys
    return Some((keys, Every((make_test(key, "exists", False), make_test(field_at(["id"]), "in", numbers)))))


def _parts(ids: Iterable[T]) -> Iterator[list[T]]:
    """Ids in batches that fit into one filter."""
    rest = iter(ids)
    while part := list(islice(rest, FILTER_VALUES // 2)):
        yield part

"""A search is one job over one snapshot where the store can do that, and otherwise the same in parts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from engine_support import NOTES, Opener

from fourfold.errors import InvalidVector
from fourfold.immediate import NotImmediate, immediately
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, NewItem, Query, SearchResponse
from fourfold.stores.sqlite.store import SqliteStore

QUERIES = ("router", "who has the cellar key", "Maria", "invoices of 2025", "nothing of that", "Drucker", "notes.md")


def in_a_thread(work: Callable[[], Awaitable[Any]]) -> None:
    async def working() -> None:
        await work()

    thread = threading.Thread(target=lambda: asyncio.run(working()))
    thread.start()
    thread.join()


def said(response: SearchResponse) -> Any:
    return [(result.id, result.score, result.confidence, result.contributions) for result in response.results]


@pytest.mark.spec("B2")
@pytest.mark.parametrize("filters", [NO_FILTERS, Filters(tags=("office",)), Filters(kind="fact")], ids=repr)
async def test_at_once_and_in_parts_give_the_same_answers(
    office: Memory, filters: Filters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.add(NewItem("Maria has the cellar key", title="Maria"))
    await office.add(NewItem("The cellar is locked at night", title="Cellar"))
    await office.add_edges([("Maria", "locks", "Cellar", 1.0)])
    await office.index()
    whole = [await office.search(text, filters=filters) for text in QUERIES]

    async def never(*_: object) -> None:
        return None

    monkeypatch.setattr(office.store, "at_once", never)
    parts = [await office.search(text, filters=filters) for text in QUERIES]
    assert [said(response) for response in whole] == [said(response) for response in parts]
    assert [(each.counts, each.overlap, each.notes) for each in whole] == [
        (each.counts, each.overlap, each.notes) for each in parts
    ]


@pytest.mark.spec("B6")
async def test_what_is_committed_meanwhile_is_not_in_its_snapshot(office: Memory) -> None:
    await office.search("router")
    store, query = office.store, Query(office.namespace, "quince")

    async def work() -> list[int]:
        async def adding() -> None:
            async with await Memory.open(store.folder, embedder="none") as other:  # type: ignore[attr-defined]
                await other.add(NewItem("quince jam", tags=("quince",)))

        before = len(await store.tagged(office.namespace, ["quince"], NO_FILTERS))
        in_a_thread(adding)
        found = await store.match(office.namespace, "quince", 10, NO_FILTERS)
        return [before, len(found.hits), len(await store.tagged(office.namespace, ["quince"], NO_FILTERS))]

    assert await store.at_once(query, work, 60) == [0, 0, 0]
    assert len((await store.match(office.namespace, "quince", 10, NO_FILTERS)).hits) == 1


async def test_what_waits_or_fails_is_not_done_at_once(office: Memory) -> None:
    query = Query(office.namespace, "router")

    async def failing() -> None:
        raise OSError("the disk has gone")

    assert await office.store.at_once(query, lambda: asyncio.sleep(0, "waited"), 60) is None
    assert await office.store.at_once(query, failing, 60) is None
    with pytest.raises(NotImmediate):
        immediately(asyncio.sleep(0))


async def test_a_search_of_an_open_store_is_done_at_once(office: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    await office.search("router")
    done, at_once = [], office.store.at_once

    async def watched(query: Query, work: Any, _: float) -> Any:
        done.append(await at_once(query, work, 60))
        return done[-1]

    monkeypatch.setattr(office.store, "at_once", watched)
    for text in QUERIES:
        await office.search(text)
    assert None not in done
    assert len(done) == len(QUERIES)


async def test_an_index_that_is_being_opened_is_waited_for_in_parts(opened: Opener) -> None:
    first = await opened()
    await first.add_many([NewItem(f"{note.text} {n}") for n in range(100) for note in NOTES], wait=True)
    await first.close()
    again = await opened()
    found = await again.search("router")
    assert found.results
    assert not found.degraded


@pytest.mark.spec("B8")
async def test_a_vector_of_another_length_is_refused(office: Memory) -> None:
    assert isinstance(office.store, SqliteStore)
    with pytest.raises(InvalidVector):
        await office.search("router", vector=[1.0, 2.0])

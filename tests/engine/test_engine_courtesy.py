"""Storing in bulk does not stand in the way of searches, which show all that was confirmed before they began."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from engine_support import Opener, WordEmbedder, notes, texts

from fourfold import courtesy
from fourfold import items as rules
from fourfold.errors import StoreUnavailable
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.stores.sqlite import indexes
from fourfold.stores.sqlite.store import SqliteStore
from fourfold.stores.sqlite.text_index import TextIndex
from fourfold.stores.sqlite.vector_index import VectorIndex

MANY = 300


def given(count: int, word: str) -> list[NewItem]:
    """Notes with their vectors."""
    embedder = WordEmbedder()
    return [NewItem(item.text, vector=embedder.vector(item.text)) for item in notes(count, word)]


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that fold changes into an index."""
    threads: list[str] = []

    def noted(fold: Callable[..., Any]) -> Callable[..., Any]:
        def folded(*args: Any) -> Any:
            threads.append(threading.current_thread().name)
            return fold(*args)

        return folded

    for kind in (TextIndex, VectorIndex):
        monkeypatch.setattr(kind, "_with", noted(kind._with))
    return threads


class Gate:
    """Stands between the commit of a write and its confirmation."""

    def __init__(self, follow: Callable[[indexes.Indexes], None]) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        self._follow = follow

    def __call__(self, of: indexes.Indexes) -> None:
        if of._unconfirmed is not None:
            self.reached.set()
            assert self.open.wait(60)
        self._follow(of)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(indexes.Indexes.follow)
    monkeypatch.setattr(indexes.Indexes, "follow", lambda of: gate(of))
    yield gate
    gate.open.set()


# ---------------------------------------------------------------- what is written in bulk


@pytest.mark.spec("B6")
async def test_who_writes_much_folds_it_in_and_the_next_search_shows_it(memory: Memory, folding: list[str]) -> None:
    await memory.add_many(given(MANY, "first"))
    await memory.search("heron")
    folding.clear()
    await memory.add_many(given(MANY, "quince"))
    found = await memory.search("quince 299")
    assert texts(found)[0].startswith("quince 299:")
    assert not found.degraded
    assert {name.rstrip("_0123456789") for name in folding} == {"fourfold-write"}
    assert len(folding) > 2  # piece by piece
    assert await memory.check() == []


async def test_nobody_folds_in_what_nobody_searches(memory: Memory, folding: list[str]) -> None:
    await memory.add_many(given(MANY, "first"))
    await memory.add_many(given(MANY, "second"))
    assert not folding


async def test_pieces_give_what_the_whole_gives(opened: Opener) -> None:
    searched, quiet = await opened("searched"), await opened("quiet")
    for word in ("first", "second"):
        await searched.search("heron")
        for each in (searched, quiet):
            await each.add_many(given(MANY, word))
    again = [NewItem("the lynx has changed", vector=WordEmbedder().vector("lynx")), *given(MANY, "first")]
    for each in (searched, quiet):
        await each.add_many(again)
    asked = ("heron at gate 5", "lynx", "second 17")
    found = [[(hit.id, hit.score) for hit in (await m.search(q)).results] for m in (searched, quiet) for q in asked]
    assert found[:3] == found[3:]


@pytest.mark.spec("B6")
async def test_a_search_does_not_wait_for_what_is_not_confirmed(memory: Memory, gate: Gate, folding: list[str]) -> None:
    gate.open.set()
    await memory.add_many(given(MANY, "first"))
    before = texts(await memory.search("heron quince 5"))
    gate.open.clear()
    gate.reached.clear()
    folding.clear()
    writing = asyncio.create_task(memory.add_many(given(MANY, "quince")))
    await asyncio.to_thread(gate.reached.wait, 60)
    meanwhile = await memory.search("heron quince 5")
    assert texts(meanwhile) == before
    assert not meanwhile.degraded
    assert not folding
    gate.open.set()
    await writing
    assert texts(await memory.search("quince 5"))[0].startswith("quince 5:")


@pytest.mark.spec("B6")
async def test_what_another_process_has_confirmed_meanwhile_is_shown(opened: Opener, gate: Gate) -> None:
    gate.open.set()
    mine, other = await opened(), await opened(background=False)
    await mine.add_many(given(MANY, "first"))
    await mine.search("heron")
    gate.open.clear()
    gate.reached.clear()
    writing = asyncio.create_task(mine.add_many(given(MANY, "quince")))
    await asyncio.to_thread(gate.reached.wait, 60)
    await other.add(NewItem("a medlar from elsewhere"))
    assert texts(await mine.search("medlar"))[:1] == ["a medlar from elsewhere"]
    gate.open.set()
    await writing
    assert texts(await mine.search("quince 5"))[0].startswith("quince 5:")


@pytest.mark.spec("B6")
async def test_after_a_write_that_failed_others_take_its_place(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = await opened(), await opened(background=False)
    await mine.add_many(given(MANY, "first"))
    await mine.search("heron")
    put = SqliteStore._put

    def failing(*args: Any) -> list[int]:
        put(*args)
        raise OSError("the disk has gone")

    monkeypatch.setattr(SqliteStore, "_put", failing)
    with pytest.raises(StoreUnavailable, match="the disk has gone"):
        await mine.add_many(given(MANY, "quince"))
    monkeypatch.setattr(SqliteStore, "_put", put)
    await other.add_many(given(MANY, "medlar"))  # under the same numbers of changes
    assert texts(await mine.search("medlar 5"))[0].startswith("medlar 5:")
    assert not any("quince" in text for text in texts(await mine.search("quince")))


async def test_until_the_model_of_languages_is_there_texts_are_checked_beside_the_loop(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    checked = rules.checked

    def noting(item: NewItem) -> NewItem:
        threads.add(threading.current_thread())
        return checked(item)

    monkeypatch.setattr(rules, "checked", noting)
    for ready, here in ((False, False), (True, True)):
        threads.clear()
        monkeypatch.setattr("fourfold.text.language.is_ready", lambda ready=ready: ready)
        await memory.add_many(notes(40, f"ready {ready}"))
        assert (threading.current_thread() in threads) is here


# ---------------------------------------------------------------- taking turns


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece is worth giving way after, until no search is under way."""
    monkeypatch.setattr(courtesy, "_PIECE", 0.0)
    monkeypatch.setattr(courtesy, "_PATIENCE", 1e9)


def worked(done: list[int], *, in_bulk: bool) -> threading.Thread:
    def working() -> None:
        if in_bulk:
            with courtesy.in_bulk():
                done.extend(courtesy.paced(range(3)))
        done.extend(courtesy.paced(range(3)))

    thread = threading.Thread(target=working, daemon=True)
    thread.start()
    return thread


def test_work_in_bulk_waits_for_searches(patient: None) -> None:
    done: list[int] = []
    with courtesy.searching():
        with courtesy.searching():
            waiting = worked(done, in_bulk=True)
        waiting.join(0.05)
        assert waiting.is_alive()
        assert not done
    waiting.join(60)
    assert done == [0, 1, 2, 0, 1, 2]


def test_other_work_waits_for_nothing(patient: None) -> None:
    done: list[int] = []
    with courtesy.searching():
        worked(done, in_bulk=False).join(60)
    assert done == [0, 1, 2]


def test_searches_that_never_end_do_not_stop_work_in_bulk() -> None:
    done: list[int] = []
    with courtesy.searching(), courtesy.in_bulk():
        for number in courtesy.paced(range(200)):
            done.append(sum(range(number * 100)))
    assert len(done) == 200


async def test_a_coroutine_gives_way_as_well(patient: None) -> None:
    with courtesy.searching(), pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await courtesy.giving_way(0.0)
    assert await courtesy.giving_way(5.0) == 5.0


async def test_searches_say_that_they_are_under_way(office: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    add = courtesy._searches.add

    def noting(count: int) -> None:
        counts.append(count)
        add(count)

    monkeypatch.setattr(courtesy._searches, "add", noting)
    await office.search("router")
    assert counts == [1, -1]
    assert courtesy._searches.none.is_set()

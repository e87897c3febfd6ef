"""Storing in bulk does not stand in the way of searches, which show all that was confirmed before they began."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
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


@pytest.mark.parametrize("searched", [False, True])
async def test_what_is_written_at_a_stretch_is_published_meanwhile_and_sooner_where_somebody_searches(
    opened: Opener, searched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "_EARLY_AT", 3 * MANY)
    monkeypatch.setattr(indexes, "_WHEN_SEARCHED", 2 * MANY)
    memory = await opened(background=False, embedder="none")
    published: list[dict[str, Any]] = []
    publish = indexes.Indexes.publish

    def noting(of: indexes.Indexes, ns: int, **how: Any) -> bool:
        published.append(how)
        return publish(of, ns, **how)

    given_to_builder: list[Any] = []
    build = memory.store._indexes._build  # type: ignore[attr-defined]

    def building(work: Callable[[], Any]) -> Any:
        given_to_builder.append(work)
        return build(work)

    monkeypatch.setattr(indexes.Indexes, "publish", noting)
    monkeypatch.setattr(memory.store._indexes, "_build", building)  # type: ignore[attr-defined]
    monkeypatch.setattr(memory._upkeep, "_publish_soon", lambda: None)
    counts: list[int] = []
    for word in ("first", "second", "third"):
        if searched:
            await memory.search("heron")
        await memory.add_many(given(MANY, word))
        counts.append(len(given_to_builder))
    assert counts == ([0, 1, 1] if searched else [0, 0, 1])
    memory.store._indexes.submit(lambda: None).result(60)  # type: ignore[attr-defined]  # after what it was given before
    assert [(how["faiss"], how["load"].every) for how in published] == [(False, 2 * MANY if searched else 20_000)]
    assert texts(await memory.search("third 299"))[0].startswith("third 299:")


async def test_an_index_that_is_opened_anew_does_not_fall_behind(
    memory: Memory, folding: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was folded in meanwhile is folded in again before searches get the new state."""
    await memory.add_many(given(MANY, "first"))
    await memory.index()
    await memory.search("heron")
    index = memory.store._indexes._texts[1]  # type: ignore[attr-defined]
    take, loop, rounds = index.take, asyncio.get_running_loop(), list[int]()

    def late(state: Any, *, anyway: bool) -> bool:
        rounds.append(state.seq)
        if len(rounds) == 1:
            writing = asyncio.run_coroutine_threadsafe(memory.add_many(given(MANY, "quince")), loop)
            writing.result(60)
        return take(state, anyway=anyway)

    monkeypatch.setattr(index, "take", late)
    await asyncio.to_thread(memory.store._indexes._renew, index)  # type: ignore[attr-defined]
    assert len(rounds) == 2
    assert rounds[0] < rounds[1] == index.state.seq
    folding.clear()
    assert texts(await memory.search("quince 299"))[0].startswith("quince 299:")
    assert not folding


async def test_until_the_model_of_languages_is_there_texts_are_checked_beside_the_loop(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    checked = rules.checked_many

    def noting(items: Sequence[NewItem]) -> list[NewItem]:
        threads.add(threading.current_thread())
        return checked(items)

    monkeypatch.setattr(rules, "checked_many", noting)
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

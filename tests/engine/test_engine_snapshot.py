"""A search reads one snapshot; built-in retrievers run once in the calling thread, injected ones in others."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_support import NOTES, Opener, WordEmbedder, texts

from fourfold.engine import search as searching
from fourfold.engine.pipeline import Outcome
from fourfold.engine.retrievers import FACTORIES, KeywordRetriever
from fourfold.errors import InvalidVector
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, NewItem
from fourfold.retrieval import Query, Ranking, Retriever, SearchResponse
from fourfold.storage.protocols import Snapshot, Store

QUERIES = ("router", "who has the cellar key", "Maria", "invoices of 2025", "nothing of that", "Drucker", "notes.md")


@pytest.mark.spec("B6")
def test_a_write_between_two_retrievers_is_not_seen(
    office: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    class Written(KeywordRetriever):
        """A retriever during whose search another memory stores a matching item."""

        def search(self, query: Query, limit: int) -> Ranking:
            if not written:
                with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as other:
                    quince = NewItem("quince jam", title="Quince", tags=("quince",))
                    written.append(other.add(quince, wait=True).id)
            return super().search(query, limit)

    monkeypatch.setitem(FACTORIES, "keyword", lambda snapshot: Written(snapshot.words))
    before = office.search("quince", top_k=100)
    assert written
    assert written[0] not in [result.id for result in before.results]
    assert office.search("quince").results[0].id == written[0]


class Injected:
    """An injected retriever that does what the built-in one does, on a snapshot of its own."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self._store = store
        self.threads: list[threading.Thread] = []

    def search(self, query: Query, limit: int) -> Ranking:
        self.threads.append(threading.current_thread())
        with self._store.snapshot(query.namespace) as snapshot:
            return FACTORIES[self.name](snapshot).search(query, limit)


class Scoring(Injected):
    def score(self, query: Query, ids: Sequence[int]) -> Ranking:
        with self._store.snapshot(query.namespace) as snapshot:
            return FACTORIES[self.name](snapshot).score(query, ids)  # type: ignore[attr-defined]


class Expanding(Injected):
    def expand(self, query: Query, starts: Mapping[int, float], limit: int) -> Ranking:
        with self._store.snapshot(query.namespace) as snapshot:
            return FACTORIES[self.name](snapshot).expand(query, starts, limit)  # type: ignore[attr-defined]


KINDS = {"semantic": Scoring, "keyword": Scoring, "graph": Expanding, "tags": Expanding}


def said(response: SearchResponse) -> Any:
    results = [(result.id, result.score, result.confidence, result.contributions) for result in response.results]
    return results, response.counts, response.overlap, response.notes


@pytest.mark.spec("B2")
@pytest.mark.parametrize("filters", [NO_FILTERS, Filters(tags=("office",)), Filters(kind="fact")], ids=repr)
def test_built_in_and_injected_retrievers_give_the_same_answers(
    office: Memory, opened: Opener, filters: Filters
) -> None:
    office.add(NewItem("Maria has the cellar key", title="Maria"), wait=True)
    office.add(NewItem("The cellar is locked at night", title="Cellar"), wait=True)
    office.add_edges([("Maria", "locks", "Cellar", 1.0)])
    office.index()
    injected = opened(retrievers=lambda store: [kind(name, store) for name, kind in KINDS.items()])
    for text in QUERIES:
        assert said(injected.search(text, filters=filters)) == said(office.search(text, filters=filters)), text


@pytest.mark.spec("S2.1")
@pytest.mark.parametrize("replaced", [(), ("tags",), ("semantic", "graph")])
def test_built_in_retrievers_run_once_in_the_calling_thread_beside_injected_ones(
    opened: Opener, replaced: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, list[threading.Thread]] = {name: [] for name in FACTORIES}
    made = dict(FACTORIES)

    def watched(name: str, snapshot: Snapshot) -> Retriever:
        asked[name].append(threading.current_thread())
        return made[name](snapshot)

    injected: list[Injected] = []

    def retrievers(store: Store) -> list[Injected]:
        injected.extend(KINDS[name](name, store) for name in replaced)
        return injected

    memory = opened(retrievers=retrievers)
    memory.add_many(NOTES, wait=True)
    with monkeypatch.context() as patched:
        for name in set(made) - set(replaced):
            patched.setitem(FACTORIES, name, lambda snapshot, name=name: watched(name, snapshot))
        response = memory.search("office printer")
    assert response.results
    assert not response.degraded
    own = threading.current_thread()
    assert asked == {name: [] if name in replaced else [own] for name in made}
    for each in injected:
        assert len(each.threads) == 1
        assert own not in each.threads


@pytest.mark.spec("S2.1")
def test_a_stage_that_waits_does_not_run_the_search_twice(office: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reranker waits like this for a model or a server."""
    searched: list[str] = []

    class Watched(KeywordRetriever):
        def search(self, query: Query, limit: int) -> Ranking:
            searched.append(query.text)
            return super().search(query, limit)

    def waiting(snapshot: Snapshot, query: Query, found: Outcome) -> Outcome:
        answered = threading.Event()
        threading.Timer(0.02, answered.set).start()
        assert answered.wait(60)
        return found

    expected = texts(office.search("router"))
    monkeypatch.setitem(FACTORIES, "keyword", lambda snapshot: Watched(snapshot.words))
    monkeypatch.setattr(searching, "STAGES", [*searching.STAGES, waiting])
    assert texts(office.search("router")) == expected
    assert searched == ["router"]


def test_a_search_waits_for_an_index_that_is_being_opened(opened: Opener) -> None:
    first = opened()
    first.add_many([NewItem(f"{note.text} {n}") for n in range(100) for note in NOTES], wait=True)
    first.close()
    found = opened().search("router")
    assert found.results
    assert not found.degraded


@pytest.mark.spec("B8")
def test_a_vector_of_another_length_is_refused(office: Memory) -> None:
    with pytest.raises(InvalidVector):
        office.search("router", vector=[1.0, 2.0])

"""Injected retrievers may return keys of items; a result that is not a ranking raises a typed error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_support import ids
from store_calls import StoreCalls

from fourfold import Hit, HybridSearch, Memory, NewItem, Plan, Query, Ranking
from fourfold.errors import InvalidRanking
from fourfold.storage.protocols import Store

pytestmark = pytest.mark.spec("S2.1")


class Injected:
    name = "keyword"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def search(self, query: Query, limit: int) -> Ranking:
        return self._answer


def opened(folder: Path, answer: Any) -> Memory:
    def retrievers(store: Store) -> list[Injected]:
        return [Injected(answer)]

    memory = Memory.open(folder / "store", embedder="none", background=False, retrievers=retrievers)
    memory.add_many([NewItem(f"text {key}", key=key) for key in ("a", "b", "c")])
    return memory


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (Ranking.of_keys([("b", 0.9), ("a", 0.5)]), [2, 1]),
        (Ranking((Hit("c", 3.0), Hit(1, 2.0), Hit("a", 1.0))), [3, 1]),  # type: ignore[arg-type]
        (Ranking((Hit(2, 1.0), Hit(2, 0.5), Hit(99, 0.2))), [2]),
        (Ranking(), []),
    ],
)
def test_hits_may_name_items_by_key(tmp_path: Path, answer: Ranking, found: list[int]) -> None:
    with opened(tmp_path, answer) as memory:
        response = memory.search("anything", only=["keyword"], fusion="rrf")
        assert ids(response) == found
        assert response.notes == ()


def test_unknown_keys_are_dropped_and_counted(tmp_path: Path) -> None:
    answer = Ranking.of_keys([("gone", 0.9), ("b", 0.5), ("also gone", 0.1)])
    with opened(tmp_path, answer) as memory:
        response = memory.search("anything", only=["keyword"], fusion="weighted", explain=True)
        assert ids(response) == [2]
        assert response.notes == ("keyword: 2 of 3 keys belong to no item",)
        assert response.results[0].contributions[0].rank == 1


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        [Hit(1, 1.0)],
        Ranking((1, 2)),  # type: ignore[arg-type]
        Ranking((Hit(None, 1.0),)),  # type: ignore[arg-type]
        Ranking((Hit(True, 1.0),)),
        Ranking((Hit(1.5, 1.0),)),  # type: ignore[arg-type]
        Ranking((Hit(1, float("nan")),)),
        Ranking((Hit(1, "high"),)),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_result_that_is_not_a_ranking_raises_a_typed_error(tmp_path: Path, answer: Any) -> None:
    with opened(tmp_path, answer) as memory:
        with pytest.raises(InvalidRanking, match="the retriever 'keyword' returned") as refused:
            memory.search("anything")
        assert refused.value.remedy


def test_hybrid_search_maps_keys_if_it_is_given_find_keys(tmp_path: Path) -> None:
    plan = Plan("mine", ("keyword",), "rrf", k=60, top_k=5, weights={"keyword": 1.0})
    answer = Ranking.of_keys([("b", 0.9)])
    with opened(tmp_path, answer) as memory:
        able = HybridSearch([Injected(answer)], find_keys=StoreCalls(memory.store).find_keys)
        assert list(able.run(Query("default", "x"), plan).fusion.ids) == [2]
        with pytest.raises(InvalidRanking, match="find_keys"):
            HybridSearch([Injected(answer)]).run(Query("default", "x"), plan)

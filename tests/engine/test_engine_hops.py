"""Multi-hop questions: the graph leads from the item that the query names to the item with the answer."""

from __future__ import annotations

import pytest
from engine_support import notes

from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.ranking.connections import BEST_HIT, PERHAPS
from fourfold.retrieval import SearchResponse

QUESTION = "Where was the composer of the film Amber River born?"
FILM = NewItem("A drama of 1987 about a ferryman, with music by Ilse Brandt.", title="Amber River (film)", key="film")
COMPOSER = NewItem("She grew up in Graz and studied the organ in Vienna.", title="Ilse Brandt", key="composer")
OTHERS = [
    NewItem(f"A composer who was born in {town}; he wrote for film and stage.", title=f"{name} Huber", key=name)
    for name, town in {"Anton": "Linz", "Bruno": "Bern", "Carl": "Ulm", "Dirk": "Kiel", "Emil": "Trier"}.items()
]


@pytest.fixture
def films(memory: Memory) -> Memory:
    memory.add_many([*OTHERS, FILM, COMPOSER, *notes(30)], wait=True)
    return memory


def keys(response: SearchResponse) -> list[str | None]:
    return [result.key for result in response.results]


def line(response: SearchResponse, key: str, source: str):
    result = next(result for result in response.results if result.key == key)
    return next((each for each in result.contributions if each.source == source), None)


@pytest.mark.spec("B1", "S4.2")
def test_the_second_hop_is_found_next_to_the_first(films: Memory) -> None:
    """Text alone prefers other composers; only the page of the film names the right one."""
    assert set(keys(films.search(QUESTION))[:2]) == {"film", "composer"}
    assert "composer" not in keys(films.search(QUESTION, only=("semantic", "keyword")))


@pytest.mark.spec("B2", "S4.2")
def test_a_named_item_has_full_strength_and_passes_it_on(films: Memory) -> None:
    response = films.search(QUESTION)
    named, walked = line(response, "film", "graph"), line(response, "composer", "walk")
    assert (named.raw, named.scaled) == (1.0, pytest.approx(1.0))
    assert (walked.raw, walked.scaled) == (1.0, pytest.approx(1.0))
    assert line(response, "composer", "graph") is None


@pytest.mark.spec("S4.2")
def test_a_common_word_that_is_also_a_name_counts_little(films: Memory) -> None:
    films.add(NewItem("Selects the k-th smallest of some numbers.", title="Find (Algorithm 65)", key="find"))
    response = films.search("find all papers on numbers", top_k=100)
    assert line(response, "find", "graph").scaled == pytest.approx(PERHAPS)
    assert line(films.search("papers about `find`", top_k=100), "find", "graph").scaled == pytest.approx(1.0)


@pytest.mark.spec("S4.2")
def test_without_a_name_the_best_hit_by_text_passes_little_on(films: Memory) -> None:
    response = films.search("a drama about a ferryman", top_k=100)
    assert keys(response)[0] == "film"
    assert line(response, "composer", "walk").raw == pytest.approx(BEST_HIT**2)


@pytest.mark.spec("B4")
def test_results_for_k_are_a_prefix_of_those_for_more_with_a_walk(films: Memory) -> None:
    many = keys(films.search(QUESTION, top_k=30))
    assert [keys(films.search(QUESTION, top_k=k)) for k in (1, 2, 5, 30)] == [many[:k] for k in (1, 2, 5, 30)]

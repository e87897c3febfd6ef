"""Answers for agents: results per file, confidence, and search over several namespaces."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from engine_support import Opener, WordEmbedder, ids, notes, scored, texts

from fourfold import wire
from fourfold.errors import InvalidItem, SpaceMismatch
from fourfold.memory import Memory
from fourfold.model import Filters, NewItem

# ---------------------------------------------------------------- results per file


@pytest.fixture
def files(memory: Memory) -> Memory:
    memory.add_many(
        [
            *(NewItem(f"heron chapter {n}", path="birds.md", chunk_index=n) for n in range(6)),
            *(NewItem(f"heron and otter {n}", path="river.md", chunk_index=n) for n in range(3)),
            NewItem("heron alone, without a file"),
            NewItem("heron, another one without"),
            NewItem("heron, a third one without"),
        ],
        wait=True,
    )
    return memory


@pytest.mark.spec("B12")
def test_auto_shows_at_most_two_results_of_one_file(files: Memory) -> None:
    response = files.search("heron", top_k=100)
    per_file = Counter(result.item.path for result in response.results)
    assert per_file == {"birds.md": 2, "river.md": 2, None: 3}


@pytest.mark.spec("B12")
def test_per_source_changes_the_number_of_results_per_file(files: Memory) -> None:
    for per_source, most in ((1, 1), (4, 4), (50, 6)):
        response = files.search("heron", top_k=100, per_source=per_source)
        assert max(Counter(result.item.path for result in response.results if result.item.path).values()) == most
    for preset in ("files", "wiki", "insights"):
        response = files.search("heron", top_k=100, preset=preset)
        assert len(response.results) == 12


@pytest.mark.spec("B12")
def test_other_results_take_the_place_of_those_left_out(files: Memory) -> None:
    assert len(files.search("heron", top_k=7).results) == 7
    assert len(files.search("heron", top_k=3, per_source=1).results) == 3


@pytest.mark.spec("B12")
def test_an_answer_has_snippets_and_the_full_text_comes_by_id(memory: Memory) -> None:
    long = " ".join(f"sentence {n} about nothing in particular." for n in range(300)) + " The heron stands here. "
    long += " ".join(f"More of sentence {n}." for n in range(300))
    item = memory.add(long.strip(), wait=True)
    result = memory.search("heron").results[0]
    assert "**heron**" in result.snippet
    assert len(result.snippet) < 500
    assert memory.get([item.id])[0].text == long.strip()


# ---------------------------------------------------------------- confidence


@pytest.mark.spec("B14")
def test_confidence_is_low_for_what_the_store_cannot_answer(office: Memory) -> None:
    known = office.search("the cellar key hangs behind the kitchen door")
    unknown = office.search("quarterly revenue of zeppelin manufacturers")
    assert known.confidence > 0.9 > unknown.confidence
    assert known.confidence == known.results[0].confidence
    for result in (*known.results, *unknown.results):
        assert 0 <= result.confidence <= 1


@pytest.mark.spec("B14")
def test_min_confidence_leaves_out_less_certain_results(office: Memory) -> None:
    query = "the cellar key hangs behind the kitchen door"
    everything = office.search(query, top_k=100)
    sure = office.search(query, top_k=100, min_confidence=0.6)
    assert ids(sure) == [result.id for result in everything.results if result.confidence >= 0.6]
    assert 0 < len(sure.results) < len(everything.results)
    assert scored(sure) == [pair for pair in scored(everything) if pair[0] in ids(sure)]
    none = office.search("quarterly revenue of zeppelin manufacturers", min_confidence=0.9)
    assert none.results == ()
    assert wire.response_json(none)["status"] == "success"


# ---------------------------------------------------------------- several namespaces


@pytest.fixture
def project(opened: Opener) -> Memory:
    """Two namespaces in one store; the fixture is the memory of the first."""
    first = opened(namespace="project")
    first.add_many([NewItem("The heron report is due in May"), *notes(20)], wait=True)
    second = opened(namespace="personal")
    second.add_many([NewItem("I saw a heron at the lake", tags=("heron",)), NewItem("Buy milk")], wait=True)
    return first


@pytest.mark.spec("B15")
@pytest.mark.parametrize("preset", ["auto", "insights", "wiki", "memories"])
def test_nothing_of_another_namespace_is_found_unless_it_is_named(project: Memory, preset: str) -> None:
    alone = project.search("heron at the lake", preset=preset, top_k=100)
    assert {result.item.namespace for result in alone.results} == {"project"}
    assert "I saw a heron at the lake" not in texts(alone)
    assert project.count() == 21
    assert project.count(Filters(tags=("heron",))) == 0


@pytest.mark.spec("B15")
def test_a_namespace_does_not_change_scores_of_another(project: Memory, opened: Opener) -> None:
    before = scored(project.search("the heron met the otter", top_k=100))
    other = opened(namespace="third")
    other.add_many(notes(50, "heron"), wait=True)
    other.index()
    assert scored(project.search("the heron met the otter", top_k=100)) == before


@pytest.mark.spec("B15", "B2")
@pytest.mark.parametrize("preset", ["auto", "insights", "wiki", "memories"])
@pytest.mark.parametrize("fusion", ["auto", "rrf", "weighted"])
def test_named_namespaces_are_searched_separately_and_fused(project: Memory, preset: str, fusion: str) -> None:
    both = project.search(
        "heron at the lake",
        namespaces=["project", "personal"],
        top_k=100,
        preset=preset,
        fusion=fusion,
        explain=True,
    )
    assert {result.item.namespace for result in both.results} == {"project", "personal"}
    scores = [result.score for result in both.results]
    assert scores == sorted(scores, reverse=True)
    for result in both.results:
        total = math.fsum(line.value for line in result.contributions)
        assert total * result.recency == pytest.approx(result.score, abs=1e-9)
        assert result.explanation is not None
        assert result.explanation.value == result.score
    wire.dumps(wire.response_json(both))
    apart = [project.search("heron at the lake", namespaces=[name], top_k=100) for name in ("project", "personal")]
    assert both.counts["semantic"] == sum(response.counts["semantic"] for response in apart)


@pytest.mark.spec("B15")
def test_the_namespace_with_the_most_confident_hit_comes_first(project: Memory) -> None:
    both = project.search("I saw a heron at the lake", namespaces=["project", "personal"])
    assert texts(both)[0] == "I saw a heron at the lake"
    turned = project.search("I saw a heron at the lake", namespaces=["personal", "project", "personal"])
    assert scored(turned) == scored(both)


@pytest.mark.spec("B15", "B4")
def test_results_of_several_namespaces_for_k_are_a_prefix_of_those_for_more(project: Memory) -> None:
    names = ["project", "personal"]
    longest = scored(project.search("the heron at gate 3", namespaces=names, top_k=100))
    for top_k in (1, 2, 3, 5, 8, 13):
        assert scored(project.search("the heron at gate 3", namespaces=names, top_k=top_k)) == longest[:top_k]


@pytest.mark.spec("B15", "B8")
def test_a_namespace_of_another_model_is_not_mixed_in(project: Memory, opened: Opener) -> None:
    other = opened(namespace="foreign", embedder=WordEmbedder("other"))
    other.add("heron", wait=True)
    with pytest.raises(SpaceMismatch):
        project.search("heron", namespaces=["project", "foreign"])


@pytest.mark.spec("B15", "B4")
def test_the_prefix_holds_if_the_most_confident_result_is_not_the_first(opened: Opener) -> None:
    first = opened(namespace="a")
    first.add_many([NewItem("unrelated", tags=("heron",)), NewItem("heron lake sunset")], wait=True)
    second = opened(namespace="b")
    second.add_many([NewItem("heron"), NewItem("lake"), NewItem("nothing")], wait=True)
    options = {"weights": {"tags": 0.9, "keyword": 0.1}, "fusion": "rrf", "namespaces": ["a", "b"]}
    longest = scored(first.search("heron lake sunset", top_k=10, **options))
    for top_k in (1, 2, 3):
        assert scored(first.search("heron lake sunset", top_k=top_k, **options)) == longest[:top_k]


@pytest.mark.spec("B15")
def test_an_empty_name_is_refused(project: Memory) -> None:
    with pytest.raises(InvalidItem, match="namespace"):
        project.search("heron", namespaces=["project", " "])

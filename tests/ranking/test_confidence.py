"""The estimate that a result answers: what raises it, what does not, and what it means for a response."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold import Memory, NewItem
from fourfold.engine.confidence import BOTH, LEAST, VECTORS, WORDS, Evidence, Fit, confidence, without_unlikely
from fourfold.engine.present import response_confidence
from fourfold.errors import InvalidQuery

NUMBERS = st.builds(Evidence, *[st.floats(-1, 1)] * len(Evidence._fields))
FITS = (BOTH, VECTORS, WORDS)


@pytest.mark.spec("B14")
@given(NUMBERS, st.sampled_from(FITS))
def test_confidence_is_between_zero_and_one(evidence: Evidence, fit: Fit) -> None:
    assert 0 <= confidence(evidence, fit) <= 1


@pytest.mark.spec("B14")
@pytest.mark.parametrize("fit", FITS)
def test_more_evidence_never_lowers_confidence(fit: Fit) -> None:
    assert min(fit.per) >= 0


@pytest.mark.spec("B14")
def test_confidence_of_a_response_is_that_of_its_first_result() -> None:
    results: list[Any] = [SimpleNamespace(confidence=confidence) for confidence in (0.3, 0.8, 0.1)]
    assert response_confidence(results) == 0.3
    assert response_confidence([]) == 0.0


# ---------------------------------------------------------------- cut


@pytest.fixture
def things() -> Iterator[Memory]:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.add_many(
            [
                NewItem("Heron takes orders and keeps them in Postgres 16", title="Heron"),
                NewItem("Gulls sends invoices on the first working day", title="Gulls"),
                NewItem("The coffee machine needs vinegar every month"),
            ]
        )
        yield memory


@pytest.mark.spec("B14")
def test_a_cut_leaves_out_what_does_not_answer_and_says_so(things: Memory) -> None:
    query = "in what does Heron keep the orders that it takes each day?"
    every, cut = things.search(query), things.search(query, cut="auto")
    assert [result.item.title for result in every.results] == ["Heron", "Gulls"]
    assert [result.item.title for result in cut.results] == ["Heron"]
    assert cut.confidence == every.confidence
    assert cut.notes == ("left out as less likely answers: 1 of 2 results; cut=off shows them",)
    assert [result.id for result in things.search(query, cut="off").results] == [result.id for result in every.results]


@pytest.mark.spec("B14")
def test_a_cut_never_empties_an_answer_whose_first_result_is_plausible(things: Memory) -> None:
    for query in ("Gulls", "where does Heron keep orders?", "vinegar for the coffee machine"):
        assert things.search(query, cut="auto").results[0] == things.search(query).results[0]


@pytest.mark.spec("B14")
def test_a_cut_empties_an_answer_whose_first_result_is_not_plausible(things: Memory) -> None:
    found = things.search("Heron")
    cut = without_unlikely(replace(found, confidence=LEAST / 2))
    assert (cut.results, cut.confidence) == ((), 0.0)


def test_an_unknown_cut_is_refused(things: Memory) -> None:
    with pytest.raises(InvalidQuery, match="cut is 'some'"):
        things.search("Heron", cut="some")

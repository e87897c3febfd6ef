"""The postings of a published index rank like a scan of all texts, also where the order depends on their lengths."""

import random

import pytest
from store_calls import StoreCalls

from fourfold import Filters, Memory, NewItem
from fourfold.limits import CANDIDATES
from fourfold.storage.memory import MemoryStore


@pytest.mark.spec("S1.2")
def test_the_best_hits_of_a_published_index_equal_a_full_scan(tmp_path):
    rng = random.Random(5)
    items = [NewItem(text=_note(rng, number), title="lease" if number % 7 == 0 else "") for number in range(900)]
    answers: list[list[tuple[int, float]]] = []
    for store in (tmp_path, MemoryStore()):
        with Memory.open(store, embedder="none") as memory:
            memory.add_many(items)
            memory.index()
            found = StoreCalls(memory.store).match(memory.namespace, "lease", CANDIDATES, Filters())
            answers.append([(hit.id, hit.score) for hit in found.hits])
    assert len(answers[0]) == CANDIDATES
    assert [item for item, _ in answers[0]] == [item for item, _ in answers[1]]
    assert [score for _, score in answers[0]] == pytest.approx([score for _, score in answers[1]], abs=1e-9)


def _note(rng: random.Random, number: int) -> str:
    """A short text with one occurrence or a longer one with several; which ranks higher depends on the lengths."""
    filler = [f"w{rng.randrange(5000)}" for _ in range(rng.randrange(1, 120))]
    return " ".join([*["lease"] * rng.randrange(1, 5), *filler, f"n{number}"])

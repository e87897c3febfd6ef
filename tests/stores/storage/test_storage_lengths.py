"""The postings of a published index rank like a scan of all texts, also where the order depends on their lengths."""

import random

import pytest
from oracle import Oracle
from store_calls import StoreCalls

from fourfold import Filters, Memory, NewItem
from fourfold.limits import CANDIDATES


@pytest.mark.spec("S1.2")
def test_the_best_hits_of_a_published_index_equal_a_full_scan(tmp_path):
    rng = random.Random(5)
    items = [NewItem(text=_note(rng, number), title="lease" if number % 7 == 0 else "") for number in range(900)]
    with Memory.open(tmp_path, embedder="none") as memory:
        memory.add_many(items)
        memory.index()
        found, wanted = (
            StoreCalls(store).match(memory.namespace, "lease", CANDIDATES, Filters()).hits
            for store in (memory.store, Oracle(memory.store))
        )
    assert len(found) == CANDIDATES
    assert [hit.id for hit in found] == [hit.id for hit in wanted]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=1e-9)


def _note(rng: random.Random, number: int) -> str:
    """A short text with one occurrence or a longer one with several; which ranks higher depends on the lengths."""
    filler = [f"w{rng.randrange(5000)}" for _ in range(rng.randrange(1, 120))]
    return " ".join([*["lease"] * rng.randrange(1, 5), *filler, f"n{number}"])

"""What a model reads about the tools."""

from __future__ import annotations

import pytest

from fourfold.mcp.offers import OFFERS
from fourfold.mcp.server import INSTRUCTIONS


@pytest.mark.spec("S5.9")
def test_retrieve_memory_names_hybrid_search_and_how_to_do_without() -> None:
    (offer,) = [offer for offer in OFFERS if offer.name == "retrieve_memory"]
    assert "hybrid search" in offer.description.lower()
    assert "alpha=1 opts out" in offer.description


def test_a_search_that_finds_nothing_good_is_to_be_admitted() -> None:
    assert "confidence" in INSTRUCTIONS
    assert "confidence" in OFFERS[0].description

"""BM25 against values computed by hand."""

import pytest

from fourfold.text.analysis import analyse_item
from fourfold.text.bm25 import idf, saturation


@pytest.mark.spec("S1.2")
def test_fifty_terms_are_added_to_the_length_of_an_item():
    """1 x 2.2 / (1 + 1.2 x (0.25 + 0.75 x 60 / 150)); as long as the average: 2 x 2.2 / (2 + 1.2)."""
    assert saturation(1, 10, 100) == pytest.approx(2.2 / 1.66, abs=1e-9)
    assert saturation(2, 100, 100) == pytest.approx(4.4 / 3.2, abs=1e-9)
    assert saturation(0, 10, 100) == 0.0
    assert saturation(1, 0, 0) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.spec("S1.2")
def test_length_hardly_matters_among_short_notes_and_does_among_pages():
    short = saturation(1, 5, 10) / saturation(1, 20, 10)
    long = saturation(1, 500, 1000) / saturation(1, 2000, 1000)
    assert 1 < short < 1.15 < 1.4 < long


def test_a_rare_word_scores_higher():
    assert idf(1, 9) == pytest.approx(1.8971199848858813, abs=1e-9)  # ln(1 + 8.5 / 1.5)
    assert idf(9, 9) > 0


@pytest.mark.spec("S1.2")
def test_the_terms_of_a_title_count_twice():
    assert analyse_item("The lease", "ends in winter", "en") == ["leas", "leas", "end", "winter"]
    assert analyse_item("", "ends", "en") == ["end"]

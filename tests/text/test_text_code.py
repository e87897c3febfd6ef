"""How much of a store is source code, and of a query prose."""

from __future__ import annotations

from collections import Counter

import pytest

from fourfold.text.analysis import analyse, code_share, prose_share, query_tokens

PYTHON = "def double(number: int) -> int:\n    return 2 * number"
SCRIPT = "const double = (number) => { return 2 * number }"
C = "static int twice(int number) { return 2 * number; }"
PROSE = ("Null mice return to their nest after an hour", "The return journey takes two days", "Integers and variables")


def share(*texts: str) -> float:
    counts = Counter(term for text in texts for term in set(analyse(text, "en")))
    return code_share(lambda terms: [counts[term] for term in terms], len(texts))


@pytest.mark.parametrize("code", [PYTHON, SCRIPT, C])
def test_functions_are_code(code: str):
    assert share(code) == 1
    assert share(code, *PROSE) == 0.25


def test_prose_and_an_empty_store_are_not():
    assert share(*PROSE[1:]) == 0
    assert share(*PROSE) < 0.5
    assert share() == 0


@pytest.mark.parametrize(
    ("query", "prose"),
    [
        ("how to check if a list is empty", 1),
        ("get_user_name", 0),
        ("getUserName", 0),
        ("where is os.path.join called", 3 / 4),
        ("", 0),
    ],
)
def test_identifiers_are_not_prose(query: str, prose: float):
    assert prose_share(query_tokens(query, ("en",))) == prose

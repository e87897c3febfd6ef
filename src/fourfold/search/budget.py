"""Token budgets: how large an answer is, and which form of each of its entries fits (B12, C5)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from fourfold.errors import InvalidQuery
from fourfold.items import is_whole
from fourfold.limits import ANSWER_TOKENS
from fourfold.model import Json
from fourfold.wire import compact

_BETWEEN: Final = 2
"""Tokens of what joins two entries of a list."""
SMALLEST: Final = 100
"""Tokens of the smallest budget."""

Form = dict[str, Json]

_RUN: Final = re.compile(
    r"(?P<letters>[A-Za-z]+)(?![0-9A-Za-z])|(?P<digits>[0-9]+)(?![0-9A-Za-z])|(?P<mixed>[0-9A-Za-z]+)"
    r"|(?P<space>[ \t\r\n]+)|(?P<wide>[^\x00-\x7f]+)|(?P<signs>[^0-9A-Za-z \t\r\n\x80-\U0010ffff]+)"
)
_LONGEST_TOKEN: Final = 16
"""Characters. A text with more than this many per token of the budget does not fit, and is not measured."""


def tokens(text: str) -> int:
    """An estimate of the tokens that a language model reads.

    It needs no vocabulary. On prose, code and JSON it lies 5 to 30 % above OpenAI's o200k, on scripts other than Latin
    up to three times, and on random characters within 3 % (tests/search/test_budget.py compares them).
    """
    return math.ceil(sum(_run_tokens(run) for run in _RUN.finditer(text)))


def _run_tokens(run: re.Match[str]) -> float:
    characters, length = run[0], run.end() - run.start()
    match run.lastgroup:
        case "letters":
            return 1 if length <= 6 else length / 4
        case "digits":
            return length // 3 + 1
        case "mixed":
            return length / 1.5
        case "space":
            return 0 if characters == " " else math.ceil(length / _LONGEST_TOKEN)
        case "wide":
            return len(characters.encode("utf-8", "replace")) / (3 if max(characters) <= "\uffff" else 2)
        case _:
            return 1 if length <= 2 else 0.75 * length


def check_budget(budget: int) -> int:
    if not is_whole(budget, SMALLEST) or budget > ANSWER_TOKENS:
        raise InvalidQuery(f"max_tokens is {budget!r}", f"It is a whole number from {SMALLEST} to {ANSWER_TOKENS}")
    return budget


def fitting(entries: Sequence[Sequence[Form]], budget: int) -> list[Form]:
    """One form of each entry, all of them together within the budget.

    An entry has its forms from the smallest to the largest. Every entry is raised to its second form before any is
    raised to its third, the first entries first. Entries at the end are dropped only if not even the smallest forms of
    all fit; the first one is never dropped.
    """
    chosen: list[Form] = []
    costs: list[int] = []
    left = budget
    for smallest, *_ in entries:
        cost = _cost(smallest)
        if cost > left and chosen:
            break
        chosen.append(smallest)
        costs.append(cost)
        left -= cost
    for level in range(1, max(map(len, entries), default=1)):
        for place, forms in enumerate(entries[: len(chosen)]):
            if level < len(forms):
                cost = _cost(forms[level], left + costs[place])
                if cost <= left + costs[place]:
                    left -= cost - costs[place]
                    chosen[place], costs[place] = forms[level], cost
    return chosen


def _cost(form: Form, budget: int = ANSWER_TOKENS) -> int:
    text = compact(form)
    return budget + 1 if len(text) > _LONGEST_TOKEN * max(budget, 1) else tokens(text) + _BETWEEN


def shortened(text: str, budget: int) -> str:
    """The beginning of a text that has at most this many tokens as JSON; the whole text if that fits."""
    low, high = 0, min(len(text), _LONGEST_TOKEN * budget)
    if high == len(text) and tokens(compact(text)) <= budget:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(compact(text[:middle])) <= budget else (low, middle - 1)
    return text[:low]

"""Small answers for agents (B12): as much of each result as a budget of tokens allows, the best first."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.errors import InvalidQuery
from fourfold.items import is_whole
from fourfold.model import Json

_BYTES_A_TOKEN = 4
"""About what tokenizers of language models make of European text."""
_FRAME = 60
"""Tokens of the fields around the content of a result."""
SMALLEST = 100


def tokens(text: str) -> int:
    """An estimate, rather too high than too low for prose."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_A_TOKEN)


def check_budget(budget: int) -> int:
    if not is_whole(budget, SMALLEST):
        raise InvalidQuery(f"max_tokens is {budget!r}", f"It is a whole number from {SMALLEST}")
    return budget


def within_budget(results: Sequence[dict[str, Json]], budget: int) -> tuple[list[dict[str, Json]], int]:
    """Results that fit, and how many did not. One whose text is too long has its snippet for content."""
    kept: list[dict[str, Json]] = []
    left = budget
    for result in results:
        whole, part = (tokens(result[name]) + _FRAME for name in ("content", "snippet"))
        if whole <= left or (not kept and whole <= part):
            kept.append({**result, "truncated": False})
            left -= whole
        elif part <= left or not kept:
            kept.append({**result, "content": result["snippet"], "truncated": True})
            left -= part
        else:
            break
    return kept, len(results) - len(kept)

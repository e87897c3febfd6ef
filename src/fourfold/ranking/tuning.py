"""Tuned presets: `auto` with a few constants that were fitted to the user's judgements.

A tuning changes the shares that `auto` has chosen for a query. Its balance is added to the log odds of vectors against
words, which keep their sum; its factors multiply the shares of graph and tags, with those of their expansions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from fourfold.errors import InvalidSetting
from fourfold.ranking.presets import PRESETS
from fourfold.ranking.retrievers import EXPANSIONS
from fourfold.retrieval import Tuning

TUNED_PRESET: Final = "auto"
"""The preset that tunings change."""
LARGEST_BALANCE: Final = 4.0
LARGEST_FACTOR: Final = 8.0
_SUM_TOLERANCE: Final = 1e-6


def tuned_shares(shares: Mapping[str, float], tuning: Tuning) -> dict[str, float]:
    """Return the shares of the lists, changed by a tuning."""
    changed = dict(shares)
    for name, factor in (("graph", tuning.graph), ("tags", tuning.tags)):
        for part in (name, EXPANSIONS.get(name, name)):
            if part in changed:
                changed[part] *= factor
    semantic, keyword = shares.get("semantic", 0.0), shares.get("keyword", 0.0)
    if semantic > 0 and keyword > 0 and abs(semantic + keyword - 1) < _SUM_TOLERANCE:  # else one of them has no list
        changed["semantic"] = 1 / (1 + keyword / semantic * math.exp(-tuning.balance))
        changed["keyword"] = 1 - changed["semantic"]
    return changed


def checked_tuning(tuning: Tuning) -> Tuning:
    """Return the tuning; raise InvalidSetting if a number or its name is not valid."""
    name = tuning.name
    if name in PRESETS or not name.replace("-", "_").isidentifier():
        raise InvalidSetting(
            f"a tuned preset cannot be called {name!r}",
            f"Use letters, digits and hyphens, and none of {', '.join(PRESETS)}",
        )
    if not abs(tuning.balance) <= LARGEST_BALANCE:
        raise InvalidSetting(
            f"the balance of {name} is {tuning.balance!r}", f"Choose -{LARGEST_BALANCE:g} to {LARGEST_BALANCE:g}"
        )
    for part, factor in (("graph", tuning.graph), ("tags", tuning.tags)):
        if not 0 <= factor <= LARGEST_FACTOR:
            raise InvalidSetting(f"the factor of {part} in {name} is {factor!r}", f"Choose 0 to {LARGEST_FACTOR:g}")
    return tuning


def explained(tuning: Tuning) -> list[str]:
    """Return a sentence for each number that changes something."""
    lines: list[str] = []
    if tuning.balance:
        first, second = ("vectors", "words") if tuning.balance > 0 else ("words", "vectors")
        factor = math.exp(abs(tuning.balance))
        lines.append(f"balance {tuning.balance:+g}: {first} weigh {factor:.2f} times more against {second}")
    for part, factor in (("graph", tuning.graph), ("tags", tuning.tags)):
        if factor != 1:
            lines.append(f"{part} {factor:g}: its share is {f'{factor:g} times that of auto' if factor else 'nothing'}")
    return lines or ["nothing differs from auto"]

"""Factors of scores: age (recency), a time window, and the source of an item; and scores explained as trees."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args

from fourfold.errors import InvalidQuery, InvalidWeights
from fourfold.model import Source
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Contribution, Explanation, FusionName, Part, Recency, Result, TimeWindow

# ---------------------------------------------------------------- recency: of two about equal answers, the newer first
#
#     age = max(floor, e^(-decay x days))        factor = 1 - strength x (1 - age)
#
# With strength 1 the factor is the age itself, and age dominates the order: scores of good and poor answers often
# differ by less than the ages 0.3 and 1.

DECAY: Final = 0.01
"""Per day: half after about 70 days."""
RECENCY_STRENGTHS: Final[Mapping[FusionName, float]] = {"auto": 0.2, "weighted": 0.2, "rrf": 0.02}
"""Default strength by fusion. Reciprocal ranks differ little: rank 2 scores 1.6 % less than rank 1."""
EVERGREEN: Final = "evergreen"
"""Tag of items that do not age."""
_DAY_SECONDS: Final = 86400.0


def recency_factor(recency: Recency | None, updated_at: datetime, now: datetime, tags: Iterable[str] = ()) -> float:
    """Return a factor in 1 - strength x (1 - floor) .. 1; a date in the future counts as now."""
    if recency is None or recency.decay == 0:
        return 1.0
    days = (now - updated_at).total_seconds() / _DAY_SECONDS
    if days <= 0 or any(tag.casefold() == EVERGREEN for tag in tags):
        return 1.0
    age = max(recency.floor, math.exp(-recency.decay * days))
    return 1 - recency.strength * (1 - age) if recency.strength < 1 else age


# ---------------------------------------------------------------- time windows: an item inside keeps its score
#
#     nearness = scale / (scale + distance)        factor = 1 - strength x (1 - nearness)
#
# `scale` is the length of the window, from one day to three months; 30 days for one that is open on a side.

TimeMode: TypeAlias = Literal["off", "filter", "boost"]
TIME_MODES: Final[tuple[TimeMode, ...]] = ("off", "filter", "boost")

WINDOW_STRENGTHS: Final[Mapping[FusionName, float]] = {"auto": 0.7, "weighted": 0.7, "rrf": 0.07}
"""By fusion, as for recency: reciprocal ranks differ little."""
_SHORTEST: Final = timedelta(days=1)
_LONGEST: Final = timedelta(days=92)
_OPEN: Final = timedelta(days=30)
_ZERO: Final = timedelta()


def check_mode(value: str) -> TimeMode:
    for mode in TIME_MODES:
        if value == mode:
            return mode
    raise InvalidQuery(f"time is {value!r}", f"It is one of {', '.join(TIME_MODES)}")


def distance(window: TimeWindow, moment: datetime) -> timedelta:
    """How far a moment is outside of the window; zero inside. The end of a window lies outside."""
    if window.start is not None and moment < window.start:
        return window.start - moment
    if window.end is not None and moment >= window.end:
        return max(moment - window.end, timedelta(microseconds=1))
    return _ZERO


def window_factor(window: TimeWindow, moment: datetime, fusion: FusionName) -> float:
    outside = distance(window, moment)
    if outside == _ZERO:
        return 1.0
    length = _OPEN if window.start is None or window.end is None else window.end - window.start
    scale = min(max(length, _SHORTEST), _LONGEST)
    nearness = scale / (scale + outside)
    return 1 - WINDOW_STRENGTHS[fusion] * (1 - nearness)


# ---------------------------------------------------------------- weights of sources

UNKNOWN_SOURCE: Final = "unknown"
"""Stands for items that were stored before sources were recorded."""
SOURCES: Final[tuple[str, ...]] = (*get_args(Source), UNKNOWN_SOURCE)


def checked_source_weights(value: object) -> dict[str, float] | None:
    """Return the weights below 1, None if there are none; raise InvalidWeights if one is not valid."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _invalid(f"source_weights are {type(value).__name__}, not names with numbers")
    weights = {
        _source_name(name): _source_number(name, value)
        for name, value in cast("Mapping[object, object]", value).items()
    }
    return {name: weight for name, weight in weights.items() if weight != 1} or None


def source_weight(weights: Mapping[str, float], source: Source | None) -> float:
    return weights.get(source or UNKNOWN_SOURCE, 1.0)


def _source_name(name: object) -> str:
    if not isinstance(name, str) or name not in SOURCES:
        raise _invalid(f"unknown source {name!r} in source_weights")
    return name


def _source_number(name: object, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _invalid(f"the weight of the source {name} is {value!r}")
    return abs(float(value))  # of -0.0, too


def _invalid(what: str) -> InvalidWeights:
    return InvalidWeights(what, f"Give numbers from 0 to 1 for any of {', '.join(SOURCES)}; others have the weight 1")


# ---------------------------------------------------------------- explanations: a score as a tree, and as rows to draw


class Bar(NamedTuple):
    """One row of a drawn explanation."""

    depth: int
    description: str
    value: float
    share: float
    """Share of the parent's value in 0..1; 0 if the rows do not add up to it (a factor, a rank)."""


def explained(result: Result) -> Result:
    """Attach the tree of its score: the sum of its contributions, times its factors."""
    tree = explain(result.contributions, result.score, result.factors, result.part)
    return replace(result, explanation=tree)


def explain(
    contributions: Sequence[Contribution],
    score: float,
    named: Mapping[str, float] | None = None,
    part: Part | None = None,
) -> Explanation:
    """Build the tree of score = (sum of contributions) x factors, which are `named`. `part`: that of the cosine."""
    lines = tuple(_line(each, part if each.source == "semantic" else None) for each in contributions)
    factors = tuple(Explanation(factor, name) for name, factor in (named or {}).items())
    if not factors:
        return Explanation(score, "score: the sum of", lines)
    total = Explanation(math.fsum(line.value for line in lines), "the sum of", lines)
    return Explanation(score, "score: the product of", (total, *factors))


def render_bars(explanation: Explanation) -> list[Bar]:
    """Flatten the tree into rows, top down."""
    return [Bar(0, explanation.description, explanation.value, 1.0), *_rows(explanation, 1)]


def _rows(parent: Explanation, depth: int) -> list[Bar]:
    total = math.fsum(detail.value for detail in parent.details)
    adds_up = parent.value > 0 and math.isclose(total, parent.value, rel_tol=1e-9)
    rows: list[Bar] = []
    for detail in parent.details:
        share = detail.value / parent.value if adds_up else 0.0
        rows += [Bar(depth, detail.description, detail.value, share), *_rows(detail, depth + 1)]
    return rows


def _line(contribution: Contribution, part: Part | None) -> Explanation:
    place = _found(contribution, "" if part is None else f" of {part_name(part)}")
    description = f"{contribution.source}: {place}weight {contribution.weight:.4g} x {contribution.scaled:.4g}"
    return Explanation(contribution.value, description, _details(contribution))


def part_name(part: Part) -> str:
    return f"part {part.number} of {part.count} (characters {part.start:,} to {part.end:,})"


def _found(contribution: Contribution, where: str) -> str:
    """Rank and raw score in the retriever's list; empty for a bonus without a list, such as an exact file name."""
    if contribution.rank is None and contribution.raw is None:
        return ""
    rank = "not listed" if contribution.rank is None else f"rank {contribution.rank}"
    if contribution.raw is None:
        return f"{rank}; "
    return f"{rank}, {_raw_name(contribution)} {contribution.raw:.4g}{where}; "


def _details(contribution: Contribution) -> tuple[Explanation, ...]:
    named = (
        ("rank", contribution.rank),
        (_raw_name(contribution), contribution.raw),
        ("scaled", contribution.scaled),
        ("weight", contribution.weight),
    )
    return tuple(Explanation(float(value), name) for name, value in named if value is not None)


def _raw_name(contribution: Contribution) -> str:
    return RETRIEVERS[contribution.source].score if contribution.source in RETRIEVERS else "score"

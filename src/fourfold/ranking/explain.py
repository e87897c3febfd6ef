"""Explanations: a score as a tree, and the tree as rows for a renderer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Contribution, Explanation, Part, Result


class Bar(NamedTuple):
    """One row of a drawn explanation."""

    depth: int
    description: str
    value: float
    share: float
    """Share of the parent's value in 0..1; 0 if the rows do not add up to it (a factor, a rank)."""


def explained(result: Result) -> Result:
    """Attach the tree of its score: the sum of its contributions, times its factors."""
    told = explain(result.contributions, result.score, result.factors, result.part)
    return replace(result, explanation=told)


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
    found = _found(contribution, "" if part is None else f" of {part_name(part)}")
    description = f"{contribution.source}: {found}weight {contribution.weight:.4g} x {contribution.scaled:.4g}"
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

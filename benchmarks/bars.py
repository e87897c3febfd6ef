"""A measured figure beside the bar that it has to clear."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that must be at most the bar, or at least."""

    what: str
    measured: float
    bar: float
    least: bool = False
    note: str = ""

    @property
    def cleared(self) -> bool:
        """Whether the figure is on the right side."""
        return self.measured >= self.bar if self.least else self.measured <= self.bar


def as_markdown(bars: Iterable[Bar]) -> str:
    """Lay the figures out with one line each."""
    return "\n".join(["| what | measured | bar | | how |", "|---|--:|--:|---|---|", *map(line, bars)])


def line(bar: Bar) -> str:
    """One line of the table."""
    sign = "≥" if bar.least else "≤"
    verdict = "yes" if bar.cleared else "**no**"
    return f"| {bar.what} | {shown(bar.measured)} | {sign} {bar.bar:g} | {verdict} | {bar.note} |"


def shown(figure: float) -> str:
    """Three digits of a figure."""
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.3g}"

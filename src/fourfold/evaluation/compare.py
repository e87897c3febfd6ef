"""Compares two runs over the same questions by a paired bootstrap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from fourfold.errors import InvalidQuery

SAMPLES: Final = 10_000
SEED: Final = 20240607
SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Comparison:
    """The mean of (new - old) over questions, and the interval that holds 95 % of the resampled means."""

    old: float
    new: float
    difference: float
    low: float
    high: float

    @property
    def loss(self) -> bool:
        return self.high < 0

    @property
    def gain(self) -> bool:
        return self.low > 0

    def form(self) -> dict[str, float]:
        return asdict(self)


def compared(old: Mapping[str, float], new: Mapping[str, float]) -> Comparison:
    """Compares scores by question; both runs must have the same questions."""
    if old.keys() != new.keys():
        odd = sorted(old.keys() ^ new.keys())
        raise InvalidQuery(
            f"the runs differ in {len(odd)} questions, such as {odd[0]!r}", "Compare runs over the same collection"
        )
    names = sorted(new)
    differences = [new[name] - old[name] for name in names]
    low, high = interval(differences)
    return Comparison(_mean(list(old.values())), _mean(list(new.values())), _mean(differences), low, high)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the means of samples with replacement (percentiles; the generator has a fixed start)."""
    import numpy as np

    if not differences:
        raise InvalidQuery("there is nothing to compare", "Runs need at least one question")
    values = np.asarray(differences, np.float64)
    random = np.random.default_rng(SEED)
    at_once = max(1, 5_000_000 // len(values))
    means = [
        values[random.integers(0, len(values), (min(at_once, SAMPLES - start), len(values)))].mean(axis=1)
        for start in range(0, SAMPLES, at_once)
    ]
    outside = (1 - SHARE) / 2
    low, high = np.quantile(np.concatenate(means), (outside, 1 - outside))
    return float(low), float(high)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0

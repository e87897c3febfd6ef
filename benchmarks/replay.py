"""Rankings of single retrievers and with other weights, computed from the candidates of one search per question.

The balance between vectors and words has a few coefficients (`TextOdds`). The table says how `auto` does on a
collection with coefficients that were chosen on all others; collections over the same texts are left out together.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourfold.engine.pipeline import highest
from fourfold.evaluation.bench import Bench
from fourfold.evaluation.metrics import MAIN, Scores, scores
from fourfold.evaluation.tune import STEPS
from fourfold.limits import TOP_K
from fourfold.ranking.fusion import (
    TEXT_ODDS,
    TEXTS,
    AutoInputs,
    TextEvidence,
    TextOdds,
    columns,
    rrf,
    text_evidence,
    weighted,
)
from fourfold.retrieval import Candidates, Hit, Ranking

GRID = tuple(
    TextOdds(nearness=nearness, coverage=coverage, fall=fall, code=code, prior=prior)
    for nearness, coverage, fall, code, prior in product(
        (3.0, 4.0, 5.0), (-0.5, -1.0, -1.5), (-0.5, -1.0, -2.0), (1.0, 2.0, 3.0), (-0.5, -1.0, -1.5)
    )
)
HALVES = dict.fromkeys(TEXTS, 0.5)
STEP = 0.2
"""Log odds are rounded to this, which changes a weight by 0.025 at most."""
FAMILIES = ("xquad",)
"""Collections whose names begin so have texts in common."""
RESULTS = Path(__file__).with_name("quality-odds.json")
"""By collection, a line each: the mean nDCG@10 for each point of GRID."""


@dataclass(frozen=True)
class Replay:
    """The candidates of one question."""

    found: Candidates
    relevant: Mapping[str, int]

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Ascending: ties are ordered by id."""
        return np.unique(np.concatenate([np.fromiter(scaled, np.int64) for scaled in self.found.scaled.values()]))

    @cached_property
    def columns(self) -> dict[str, NDArray[np.float64]]:
        """By list: what its weight multiplies, for each of the ids."""
        made = {name: np.zeros(len(self.ids)) for name in self.found.scaled}
        for name, scaled in self.found.scaled.items():
            places = np.searchsorted(self.ids, np.fromiter(scaled, np.int64))
            made[name][places] = np.fromiter(scaled.values(), np.float64)
        return made

    def value(self, weights: Mapping[str, float]) -> float:
        """The nDCG@10 with these weights of the lists."""
        total = sum((weights.get(name, 0.0) * column for name, column in self.columns.items()), np.zeros(len(self.ids)))
        return self._scores(self.ids[np.argsort(-total, kind="stable")[:10]].tolist())[MAIN]

    def variants(self) -> dict[str, Scores]:
        """The metrics of each list alone, of both texts fused by fixed rules, and of `auto`."""
        lists: dict[str, Sequence[Hit]] = {name: ranking.hits for name, ranking in self.found.lists.items()}
        texts = {name: lists.get(name, ()) for name in TEXTS}
        rankings = {name: columns(lists.get(name, ())).ids.tolist() for name in (*TEXTS, "tags")}
        rankings |= {"rrf .5/.5": rrf(texts, HALVES).ids, "weighted .5/.5": weighted(texts, HALVES).ids}
        rankings["auto"] = [hit.id for hit in self.found.order]
        return {name: self._scores(ids[:TOP_K]) for name, ids in rankings.items()}

    def _scores(self, ids: Sequence[int]) -> Scores:
        return scores(self.relevant, [str(self.found.items[item].key) for item in ids])

    @cached_property
    def has_both(self) -> bool:
        return all(name in self.found.lists and len(self.found.lists[name].hits) for name in TEXTS)

    @cached_property
    def evidence(self) -> TextEvidence | None:
        """None: there is no balance to choose."""
        if not self.has_both:
            return None
        vectors, words = (self.found.lists[name] for name in TEXTS)
        other_vectors, other_words = (self.found.unlisted.get(name, Ranking()) for name in TEXTS)
        inputs = AutoInputs(
            {},
            average=vectors.background,
            coverage=highest({**words.evidence, **other_words.evidence}),
            unknown=words.unknown,
            items=words.items,
            code=words.code,
            foreign=words.foreign,
        )
        return text_evidence(inputs, columns(words.hits), (columns(vectors.hits), columns(other_vectors.hits)))

    def by_odds(self) -> list[float]:
        """The nDCG@10 for each point of GRID."""
        if self.evidence is None:
            return [self.value(self.found.weights)] * len(GRID)
        steps = [round(odds.log_odds(self.evidence) / STEP) for odds in GRID]
        known = {step: self.value(self._balanced(step * STEP)) for step in set(steps)}
        return [known[step] for step in steps]

    def by_fixed_weight(self) -> list[float]:
        """The nDCG@10 of vectors and words with the same weights for every question, for each of STEPS."""
        return [self.value({"semantic": semantic, "keyword": 1 - semantic}) for semantic in STEPS]

    def _balanced(self, log_odds: float) -> dict[str, float]:
        """The weights with another balance of vectors and words; all others keep their share."""
        weights, share = self.found.weights, 1 / (1 + math.exp(-log_odds))
        both = math.fsum(weights[name] for name in TEXTS)
        return {**weights, "semantic": both * share, "keyword": both * (1 - share)}


@dataclass(frozen=True, slots=True)
class Replayed:
    """Every question of a collection."""

    variants: dict[str, dict[str, Scores]] = field(default_factory=dict[str, dict[str, Scores]])
    """By variant and question."""
    odds: list[list[float]] = field(default_factory=list[list[float]])
    """By question, for each point of GRID."""
    fixed: list[list[float]] = field(default_factory=list[list[float]])
    """By question, for each of STEPS."""
    connected: list[bool] = field(default_factory=list[bool])
    """By question: whether the graph had a part in the ranking."""

    def add(self, question: str, replay: Replay) -> None:
        for name, values in replay.variants().items():
            self.variants.setdefault(name, {})[question] = values
        self.odds.append(replay.by_odds())
        self.fixed.append(replay.by_fixed_weight())
        self.connected.append(not {"graph", "walk"}.isdisjoint(replay.found.weights))


def replayed(bench: Bench) -> Replayed:
    """Search for every question that has an answer."""
    found = Replayed()
    for question in bench.collection.questions:
        if question.id in bench.collection.judgements:
            candidates = bench.search(question, candidates=True).candidates
            assert candidates is not None
            found.add(question.id, Replay(candidates, bench.collection.judgements[question.id]))
    return found


def column_means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [round(mean(column), 5) for column in zip(*rows, strict=True)]


def kept_odds() -> dict[str, list[float]]:
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def keep_odds(name: str, values: list[float]) -> None:
    """Replace the line of one collection."""
    known = {**kept_odds(), name: values}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known))
    RESULTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


# ---------------------------------------------------------------- the table


def held_out_table(collections: Mapping[str, Any], odds: Mapping[str, Sequence[float]]) -> str:
    """A row for each collection: its gain with the coefficients in use, and with those chosen on the others."""
    known = {name: _gains(collections[name], values) for name, values in odds.items() if name in collections}
    if not known:
        return ""
    used = GRID.index(TEXT_ODDS)
    rows, held = list[str](), list[float]()
    for name, gains in known.items():
        rest = [other for key, other in known.items() if _family(key) != _family(name)] or [gains]
        chosen = max(range(len(GRID)), key=lambda point: mean(other[point] for other in rest))
        held.append(gains[chosen])
        rows.append(f"| {name} | {gains[used]:+.3f} | {gains[chosen]:+.3f} | {_coefficients(GRID[chosen])} |\n")
    titles = ("gain over the best single", "in use", "chosen on the others", "nearness, coverage, fall, code, prior")
    head = f"| {' | '.join(titles)} |\n|---|--:|--:|---|\n"
    in_use = mean(gains[used] for gains in known.values())
    return head + "".join(rows) + f"| *mean* | {in_use:+.3f} | {mean(held):+.3f} | |\n"


def _coefficients(odds: TextOdds) -> str:
    return ", ".join(f"{value:g}" for value in (odds.nearness, odds.coverage, odds.fall, odds.code, odds.prior))


def _gains(found: Mapping[str, Any], values: Sequence[float]) -> Sequence[float]:
    single = found["variants"][found["best_single"]][MAIN]
    return [value - single for value in values]


def _family(name: str) -> str:
    return next((family for family in FAMILIES if name.startswith(family)), name)

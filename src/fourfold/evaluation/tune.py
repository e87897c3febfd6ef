"""Fits the constants of `auto` to judgements: chosen on one half of the questions, judged on the other.

Every question is searched once. The lists of its candidates do not depend on the weights, so all settings are fused
from them; only the starts of the graph's walk stay those of `auto`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from fourfold.errors import InvalidQuery, InvalidSetting
from fourfold.evaluation.bench import Bench, Progress
from fourfold.evaluation.collection import Question
from fourfold.evaluation.compare import Comparison, compared
from fourfold.evaluation.metrics import MAIN, scores
from fourfold.evaluation.sweep import held_out
from fourfold.ranking.auto import TEXTS
from fourfold.ranking.tuning import TUNED_PRESET, tuned_shares
from fourfold.retrieval import Tuning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fourfold.retrieval import Candidates

    Floats = NDArray[np.float64]

BALANCES: Final = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
FACTORS: Final = (0.0, 0.5, 1.0, 2.0)
FEWEST_QUESTIONS: Final = 20
DEPTH: Final = 10


@dataclass(frozen=True, slots=True)
class Case:
    """One question: the score of each candidate in each list, from 0 to 1, and the shares of the lists."""

    question: Question
    keys: Sequence[str]
    """The candidates in the order of `auto`, also for equal scores."""
    lists: Mapping[str, Floats]
    shares: Mapping[str, float]
    relevant: Mapping[str, int]

    def value(self, tuning: Tuning) -> float:
        """nDCG@10 with this tuning."""
        import numpy as np

        shares = tuned_shares(self.shares, tuning)
        totals = sum((shares[name] * scaled for name, scaled in self.lists.items()), np.zeros(len(self.keys)))
        best: list[int] = np.argsort(-totals, kind="stable")[:DEPTH].tolist()
        return scores(self.relevant, [self.keys[place] for place in best])[MAIN]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The setting that is best on the training half, judged on the half that was held out."""

    tuning: Tuning
    trained: Comparison
    judged: Comparison
    questions: int
    """The number of held-out questions."""

    @property
    def helps(self) -> bool:
        """Whether the gain is significant: the 95 % interval lies above 0."""
        return self.judged.gain


def tune(bench: Bench, progress: Progress | None = None) -> Tuned:
    """Finds the best setting. It may be that of `auto`, which then gains nothing."""
    cases = list(_cases(bench, progress))
    train = [case for case in cases if not held_out(case.question.id)]
    rest = [case for case in cases if held_out(case.question.id)]
    if min(len(train), len(rest)) < FEWEST_QUESTIONS // 2:
        remedy = f"Judge at least {FEWEST_QUESTIONS}; a hundred show a gain of a few hundredths"
        raise InvalidQuery(f"{len(cases)} judged questions are too few to tune and to check", remedy)
    best = max(_grid(cases), key=lambda tuning: (_mean(train, tuning), -_distance(tuning)))
    return Tuned(best, _compared(train, best), _compared(rest, best), len(rest))


def _cases(bench: Bench, progress: Progress | None) -> Iterator[Case]:
    if bench.model is None:
        raise InvalidSetting("tuning needs vectors, and no embedder is set", "Set one: FOURFOLD_EMBEDDER=minilm")
    judged = [question for question in bench.collection.questions if question.id in bench.collection.judgements]
    for number, question in enumerate(judged, 1):
        response = bench.search(question, preset=TUNED_PRESET, rerank="off", candidates=True)
        if response.candidates is not None:
            yield _case(question, response.candidates, bench.collection.judgements[question.id])
        if progress is not None:
            progress(number, len(judged))


def _case(question: Question, found: Candidates, relevant: Mapping[str, int]) -> Case:
    import numpy as np

    ids = [hit.id for hit in found.order]
    acting = {name: scaled for name, scaled in found.scaled.items() if name in found.lists}
    lists: dict[str, Any] = {name: np.array([scaled.get(item, 0.0) for item in ids]) for name, scaled in acting.items()}
    texts = sum(found.weights[name] for name in TEXTS if name in acting)
    shares = {name: found.weights[name] / texts if texts else found.weights[name] for name in acting}
    keys = [str(found.items[item].key) if item in found.items else "" for item in ids]
    return Case(question, keys, lists, shares, relevant)


def _grid(cases: Sequence[Case]) -> Iterator[Tuning]:
    """The settings to try for the lists that occur."""
    present = {name for case in cases for name in case.lists}
    graph = FACTORS if present & {"graph", "walk"} else (1.0,)
    tags = FACTORS if present & {"tags", "shared"} else (1.0,)
    for balance, graph_factor, tags_factor in product(BALANCES, graph, tags):
        yield Tuning(balance, graph_factor, tags_factor)


def _distance(tuning: Tuning) -> float:
    """The distance from `auto`; the closest of equally good settings is chosen."""
    return abs(tuning.balance) + abs(tuning.graph - 1) + abs(tuning.tags - 1)


def _mean(cases: Sequence[Case], tuning: Tuning) -> float:
    return sum(case.value(tuning) for case in cases) / len(cases)


def _compared(cases: Sequence[Case], tuning: Tuning) -> Comparison:
    plain = {case.question.id: case.value(Tuning()) for case in cases}
    return compared(plain, {case.question.id: case.value(tuning) for case in cases})

"""The metrics equal those of ir-measures and ranx, in the engine's order."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from math import log2
from pathlib import Path

import ir_measures
import pytest
import ranx
from ir_measures import RR, R, Success, nDCG

from fourfold import Settings
from fourfold.evaluation.bench import Answer, Variant, open_bench, percentile
from fourfold.evaluation.collection import Question, read_collection
from fourfold.evaluation.metrics import measured, separation
from fourfold.retrieval import Plan

GARDEN = Path(__file__).with_name("garden")
PLAN = Plan("auto", ("keyword",), "auto", 60, 100, None)
OF_RANX = {
    "ndcg@10": "ndcg@10",
    "recall@10": "recall@10",
    "recall@100": "recall@100",
    "hit@1": "hit_rate@1",
    "hit@5": "hit_rate@5",
    "hit@10": "hit_rate@10",
    "mrr": "mrr",
}
THEIRS = {
    **{"ndcg@10": nDCG @ 10, "recall@10": R @ 10, "recall@100": R @ 100, "mrr": RR},
    **{"hit@1": Success @ 1, "hit@5": Success @ 5, "hit@10": Success @ 10},
}

pytestmark = pytest.mark.spec("S5.7")


def answer(question: str, keys: list[str], confidence: float = 0.5, *, unanswerable: bool = False) -> Answer:
    asked = Question(question, "?", unanswerable=unanswerable)
    return Answer(asked, tuple(keys), confidence, 1.0, PLAN, {})


def agree(judgements: Mapping[str, Mapping[str, int]], answers: list[Answer]) -> None:
    """Compares with ir-measures and ranx, question by question."""
    ours = measured(judgements, answers)
    run = {one.question.id: {key: float(-place) for place, key in enumerate(one.keys)} for one in answers}
    theirs = list(ir_measures.iter_calc(THEIRS.values(), judgements, run))
    assert len(theirs) == len(THEIRS) * len(judgements)
    names = {measure: name for name, measure in THEIRS.items()}
    for metric in theirs:
        assert ours[metric.query_id][names[metric.measure]] == pytest.approx(metric.value, abs=1e-9), metric
    theirs_too = ranx.Run(run)
    ranx.evaluate(
        ranx.Qrels({name: dict(grades) for name, grades in judgements.items()}), theirs_too, [*OF_RANX.values()]
    )
    for question, row in ours.items():
        expected = {name: float(theirs_too.scores[of][question]) for name, of in OF_RANX.items()}
        assert {name: row[name] for name in OF_RANX} == pytest.approx(expected, abs=1e-12), question


def test_a_collection_agrees_with_ir_measures_and_ranx(tmp_path: Path) -> None:
    garden = read_collection(GARDEN)
    with open_bench(garden, Settings(embedder="none"), tmp_path) as bench:
        bench.fill()
        answers = bench.run(Variant("auto"))
    found = [one for one in answers if one.keys and not one.question.unanswerable]
    assert len(found) > 10
    agree({one.question.id: garden.judgements[one.question.id] for one in found}, found)


def test_random_rankings_with_grades_agree_with_ir_measures_and_ranx() -> None:
    draw = random.Random(3)
    documents = [f"d{number}" for number in range(150)]
    judgements = {
        f"q{n}": {key: draw.randint(1, 3) for key in draw.sample(documents, draw.randint(1, 20))} for n in range(40)
    }
    answers = [answer(question, draw.sample(documents, draw.randint(1, 100))) for question in judgements]
    agree(judgements, answers)


def test_by_hand() -> None:
    judgements = {"q": {"a": 2, "b": 1}, "nothing": {"a": 1}}
    found = measured(judgements, [answer("q", ["x", "b", "a"]), answer("nothing", [])])
    ideal = 2 + 1 / log2(3)
    assert found["q"]["ndcg@10"] == pytest.approx((1 / log2(3) + 2 / log2(4)) / ideal)
    assert found["q"] == pytest.approx(
        {
            "ndcg@10": found["q"]["ndcg@10"],
            "recall@10": 1,
            "recall@100": 1,
            "hit@1": 0,
            "hit@5": 1,
            "hit@10": 1,
            "mrr": 0.5,
            "all_relevant@5": 1,
            "all_relevant@10": 1,
        }
    )
    assert set(found["nothing"].values()) == {0.0}


def test_every_answer_has_to_be_among_the_first_five() -> None:
    judgements = {"q": {"a": 1, "b": 1}}
    for keys, five, ten in ((["a", "x", "b"], 1, 1), ([*"axyzvb"], 0, 1), (["a"], 0, 0), (["x", "b", "a"], 1, 1)):
        row = measured(judgements, [answer("q", keys)])["q"]
        assert (row["all_relevant@5"], row["all_relevant@10"]) == (five, ten), keys


def test_the_engines_order_counts_where_scores_are_equal() -> None:
    """A run has ranks only, so equal scores cannot be shuffled by the metric."""
    keys = [f"d{number}" for number in range(100)]
    judgements = {f"q{place}": {keys[place]: 1} for place in range(100)}
    found = measured(judgements, [answer(question, keys) for question in judgements])
    assert [found[f"q{place}"]["mrr"] for place in range(100)] == pytest.approx([1 / (1 + n) for n in range(100)])


def test_unanswerable_questions_are_not_part_of_the_means() -> None:
    judgements = {"q": {"a": 1}}
    assert measured(judgements, [answer("q", ["a"]), answer("u", ["a"], unanswerable=True)]).keys() == {"q"}


def test_separation_is_the_share_of_pairs_in_the_right_order() -> None:
    sure, unsure = answer("a", [], 0.9), answer("b", [], 0.4)
    vain = answer("c", [], 0.4, unanswerable=True)
    assert separation([sure, unsure, vain]) == pytest.approx(0.75)
    assert separation([sure, replace(vain, confidence=0.1)]) == 1.0
    assert separation([sure]) is None


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile([7.0], 0.95)) == (50.0, 95.0, 7.0)

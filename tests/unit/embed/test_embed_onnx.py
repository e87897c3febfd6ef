"""`onnx:FOLDER`, with folders made of the built-in model."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import BertWordPieceTokenizer

from fourfold.embed.base import Embedder
from fourfold.embed.builtin import ENCODERS, MODEL, PASSAGE_PREFIX, SHA256, VOCABULARY, WORDS
from fourfold.embed.onnx import LONGEST, folder_model, max_tokens, pooling
from fourfold.embed.session import best_output, digest, input_type, normalised, pooled
from fourfold.errors import EmbedderUnavailable, MissingExtra

TEXTS = ["how to log in", "authentication flow", "a much longer text about nothing in particular " * 4]


def link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def exported(folder: Path, model: str = "model.onnx", tokenizer: str = "tokenizer.json") -> Path:
    link(ENCODERS / MODEL, folder / model)
    link(ENCODERS / WORDS, (folder / model).with_name(WORDS))
    if tokenizer == "vocab.txt":
        shutil.copy(ENCODERS / VOCABULARY, folder / tokenizer)
    else:
        own = BertWordPieceTokenizer(str(ENCODERS / VOCABULARY))
        own.enable_truncation(8)  # exports contain such settings, which must be ignored
        own.enable_padding(length=8)
        own.save(str(folder / tokenizer))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return exported(tmp_path / "model")


@pytest.mark.parametrize("model", ["model.onnx", "onnx/model.onnx"])
@pytest.mark.parametrize("tokenizer", ["tokenizer.json", "vocab.txt"])
def test_the_same_model_gives_the_same_vectors(tmp_path: Path, built_in: Embedder, model: str, tokenizer: str) -> None:
    embedder = folder_model(exported(tmp_path, model, tokenizer))
    assert embedder.dimension is None
    rows = embedder.embed([f"{PASSAGE_PREFIX}{text}" for text in TEXTS])
    np.testing.assert_allclose(rows, built_in.embed(TEXTS), atol=1e-5)
    assert embedder.dimension == 384


def test_pooling_and_length_come_from_the_export(folder: Path, built_in: Embedder) -> None:
    write(folder, "1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    write(folder, "sentence_bert_config.json", {"max_seq_length": 16})
    embedder = folder_model(folder)
    assert embedder.truncates("word " * 15)
    assert not embedder.truncates("word " * 14)
    rows = embedder.embed([f"{PASSAGE_PREFIX}{text}" for text in TEXTS])
    (mean,) = built_in.embed(TEXTS[:1])
    assert abs(float(rows[0] @ mean)) < 0.99, "pooling by the first token differs from the mean"
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-5)


# ---------------------------------------------------------------- fingerprint


@pytest.mark.spec("B8")
def test_the_fingerprint_is_known_before_loading_and_stays(folder: Path) -> None:
    embedder = folder_model(folder)
    before = embedder.fingerprint
    assert SHA256[MODEL] in before
    embedder.load()
    assert embedder.fingerprint == before


@pytest.mark.spec("B8")
def test_a_folder_may_move(tmp_path: Path, folder: Path) -> None:
    before = folder_model(folder).fingerprint
    assert folder_model(folder.rename(tmp_path / "elsewhere")).fingerprint == before


@pytest.mark.spec("B8")
@pytest.mark.parametrize(("name", "content"), [
    ("model.onnx_data", "other weights"), ("tokenizer.json", "{}"),
    ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}),
    ("sentence_bert_config.json", {"max_seq_length": 128}),
])  # fmt: skip
def test_whatever_changes_the_vectors_changes_the_fingerprint(folder: Path, name: str, content: Any) -> None:
    before = folder_model(folder).fingerprint
    write(folder, name, content)
    assert folder_model(folder).fingerprint != before


def test_the_digest_of_one_file_is_its_sha256() -> None:
    assert digest([ENCODERS / VOCABULARY], "") == SHA256[VOCABULARY]


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    for use in (lambda: folder_model(folder).load(), lambda: folder_model(folder).fingerprint):
        with pytest.raises(EmbedderUnavailable, match=f"has no {name}.*onnx:FOLDER"):
            use()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", "{", "is not a tokenizer"),
        ("tokenizer.json", "{}", "is not a tokenizer"),
        ("1_Pooling/config.json", "{", "is not JSON"),
        ("1_Pooling/config.json", "[]", "is not a JSON dict"),
        ("1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True}, "pools by weightedmean_tokens"),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "pools by lasttoken"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
            r"pools by cls_token \+ max_tokens",
        ),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "a module Dense"),
        ("modules.json", {}, "is not a JSON list"),
    ],
)
def test_an_export_that_cannot_work_is_refused(folder: Path, name: str, content: Any, message: str) -> None:
    write(folder, name, content)
    with pytest.raises(EmbedderUnavailable, match=message) as caught:
        folder_model(folder).load()
    assert caught.value.remedy


@pytest.mark.parametrize("content", [b"", b"not a model", (ENCODERS / VOCABULARY).read_bytes()[:1000]])
def test_a_file_that_is_not_a_model_raises_a_typed_error(folder: Path, content: bytes) -> None:
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").write_bytes(content)
    with pytest.raises(EmbedderUnavailable, match="onnxruntime cannot open"):
        folder_model(folder).load()


def test_a_foreign_tokenizer_is_a_typed_error(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    words = [f"filler{index}" for index in range(200_000)] + ["[UNK]", "[SEP]", "[CLS]"]
    write(folder, "vocab.txt", "\n".join(words))
    with pytest.raises(EmbedderUnavailable, match="onnxruntime cannot run") as caught:
        folder_model(folder).load()
    assert "tokenizer belongs to the model" in caught.value.remedy


def test_a_saved_tokenizer_without_its_library_names_the_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"fourfold\[onnx\]"):
        folder_model(folder).load()


def test_a_vocabulary_of_another_kind_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    write(folder, "vocab.txt", "<s>\n</s>\nword")
    with pytest.raises(EmbedderUnavailable, match=r"has no \[UNK\], \[SEP\], \[CLS\]"):
        folder_model(folder).load()


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize(("name", "content", "expected"), [
    ("sentence_bert_config.json", {"max_seq_length": 128}, 128),
    ("sentence_bert_config.json", {"max_seq_length": None}, 256),
    ("sentence_bert_config.json", {"max_seq_length": 8192}, LONGEST),
    ("sentence_bert_config.json", {"max_seq_length": "many"}, 256),
    ("tokenizer_config.json", {"model_max_length": 512}, 512),
    ("tokenizer_config.json", {"model_max_length": int(1e30)}, 256), ("other.json", {}, 256),
])  # fmt: skip
def test_the_maximum_length_of_a_text(tmp_path: Path, name: str, content: Any, expected: int) -> None:
    write(tmp_path, name, content)
    assert max_tokens(tmp_path) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "mean"),
        ({"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True, "include_prompt": True}, "mean"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "cls"}, "cls"),
    ],
)
def test_how_tokens_become_one_vector(tmp_path: Path, config: dict[str, Any], expected: str) -> None:
    write(tmp_path, "1_Pooling/config.json", config)
    assert pooling(tmp_path) == expected


def test_pooling_ignores_the_padding() -> None:
    hidden = np.array([[[1.0, 4.0], [3.0, 0.0], [99.0, 99.0]]], np.float32)
    mask = np.array([[1, 1, 0]])
    np.testing.assert_allclose(normalised(pooled(hidden, mask, "mean")), normalised(np.array([[2.0, 2.0]], np.float32)))
    np.testing.assert_allclose(pooled(hidden, mask, "cls"), [[1.0, 4.0]])
    np.testing.assert_allclose(pooled(hidden, mask, "max"), [[3.0, 4.0]])


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_model_that_returns_zero_vectors_raises_a_typed_error(row: list[float]) -> None:
    with pytest.raises(EmbedderUnavailable, match="zero or not finite"):
        normalised(np.array([[1.0, 0.0], row], np.float32))


def test_the_pooled_output_is_preferred() -> None:
    assert best_output(["token_embeddings", "sentence_embedding"]) == "sentence_embedding"
    assert best_output(["last_hidden_state"]) == "last_hidden_state"


def test_a_model_for_something_else_is_refused() -> None:
    class Pixels:
        name, type = "pixel_values", "tensor(float)"

    with pytest.raises(EmbedderUnavailable, match="asks for `pixel_values`"):
        input_type(Pixels())

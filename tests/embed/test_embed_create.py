"""The embedder that a setting names; naming one loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fourfold.embed import EMBEDDERS, OpenAISettings, create, model_folder
from fourfold.embed.endpoint import OpenAIEmbedder
from fourfold.errors import InvalidSetting

LIGHT = """
import sys
from fourfold.embed import OpenAISettings, check_vector, create
for spec in ("builtin", "openai", "none", "onnx:/nowhere", "sentence-transformers:x"):
    create(spec, openai=OpenAISettings())
for spec in ("builtin", "sentence-transformers:x"):
    assert create(spec, openai=OpenAISettings()).fingerprint
heavy = ("numpy", "onnxruntime", "tokenizers", "httpx", "sentence_transformers", "torch")
print(sorted(name for name in heavy if name in sys.modules))
"""


def test_naming_an_embedder_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.spec("B8")
def test_the_embedders_by_name(tmp_path: Path) -> None:
    settings = OpenAISettings(model="some-model")
    built_in = create("builtin", openai=settings)
    assert built_in is not None
    assert built_in.dimension == 384
    remote = create("openai", openai=settings)
    assert isinstance(remote, OpenAIEmbedder)
    assert "some-model" in remote.fingerprint
    assert create(f"onnx:{tmp_path}", openai=settings) is not None
    assert create("none", openai=settings) is None


@pytest.mark.parametrize(
    "spec",
    ["", "MiniLM", "onnx", "onnx:", "builtin:x", "none:", "https://example.org", "sentence-transformers:"],
)
def test_an_unknown_name_lists_the_choices(spec: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        create(spec, openai=OpenAISettings())
    assert all(name in refused.value.remedy for name in EMBEDDERS)


def test_the_reference_names_every_embedder() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference-cli.md"
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

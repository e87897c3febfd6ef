"""The embedder that a setting names; naming one loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fourfold.embed import OpenAISettings, create
from fourfold.embed.openai import OpenAIEmbedder
from fourfold.errors import InvalidSetting

LIGHT = """
import sys
from fourfold.embed import OpenAISettings, check_vector, create
for spec in ("minilm", "openai", "none", "onnx:/nowhere"):
    create(spec, openai=OpenAISettings())
assert create("minilm", openai=OpenAISettings()).fingerprint
print(sorted(name for name in ("numpy", "onnxruntime", "tokenizers", "httpx") if name in sys.modules))
"""


def test_naming_an_embedder_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.spec("B8")
def test_the_embedders_by_name(tmp_path: Path) -> None:
    settings = OpenAISettings(model="some-model")
    built_in = create("minilm", openai=settings)
    assert built_in is not None
    assert built_in.dimension == 384
    remote = create("openai", openai=settings)
    assert isinstance(remote, OpenAIEmbedder)
    assert "some-model" in remote.fingerprint
    assert create(f"onnx:{tmp_path}", openai=settings) is not None
    assert create("none", openai=settings) is None


@pytest.mark.parametrize("spec", ["", "MiniLM", "onnx", "onnx:", "minilm:x", "none:", "https://example.org"])
def test_an_unknown_name_lists_the_choices(spec: str) -> None:
    with pytest.raises(InvalidSetting, match="minilm, openai, none or onnx:FOLDER"):
        create(spec, openai=OpenAISettings())

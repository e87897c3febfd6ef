"""The setting `onnx_provider`: which part of the machine computes local models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from fourfold import Memory, Settings
from fourfold.embed.builtin import built_in_model
from fourfold.errors import EmbedderUnavailable, RerankerUnavailable
from fourfold.rerank import RerankSettings, create


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


@pytest.mark.parametrize("origin", ["flag", "environment", "file"])
def test_the_command_line_takes_the_provider_from_flag_environment_and_file(tmp_path: Path, origin: str) -> None:
    given = {"FOURFOLD_ONNX_PROVIDER": "quantum"} if origin == "environment" else {}
    flags = ["--onnx-provider", "quantum"] if origin == "flag" else []
    if origin == "file":
        (tmp_path / "own.yaml").write_text("onnx_provider: quantum\n", encoding="utf-8")
        flags = ["--config", str(tmp_path / "own.yaml")]
    environment = {**os.environ, "FOURFOLD_STORE": str(tmp_path / "store"), "FOURFOLD_EMBEDDER": "builtin", **given}
    with Memory.open(tmp_path / "store", embedder="none", background=False) as memory:
        memory.add("the router is in the cellar")
    command = [sys.executable, "-m", "fourfold", *flags, "search", "router", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "quantum" in str(json.loads(done.stdout)["degraded"])

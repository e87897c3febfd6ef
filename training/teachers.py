"""Teachers: weights of BERT models out of ONNX files, with the names of Hugging Face's BertModel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

WORDS = "embeddings.word_embeddings.weight"


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Read float weights; matrices of multiplications, which have no name of their own, are named after their nodes."""
    graph = onnx.load(str(path)).graph
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    named = {
        name.removeprefix("bert.").removeprefix("model."): values
        for name, values in tensors.items()
        if "embeddings." in name or "encoder." in name
    }
    for node in graph.node:
        if node.op_type != "MatMul":
            continue
        values = next((tensors[name] for name in node.input if name in tensors and tensors[name].ndim == 2), None)
        if values is None:
            continue
        parts = node.name.strip("/").split("/")
        place = next(index for index, part in enumerate(parts) if part.startswith("layer."))
        named["encoder." + ".".join(parts[place:-1]) + ".weight"] = values.T
    return {name: np.asarray(values, np.float32) for name, values in named.items()}


def word_vectors(path: Path) -> np.ndarray:
    return read_weights(path)[WORDS]

"""Weights of BERT models out of files, with the names of Hugging Face's BertModel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

Weights = dict[str, np.ndarray]

WORDS = "embeddings.word_embeddings.weight"
PLACES, WIDTH = 512, 384


def read_weights(path: Path) -> Weights:
    """Read float32 weights of a teacher (ONNX), of a shipped encoder (ONNX, int8), or of what `train.py` wrote."""
    if path.suffix == ".npz":
        return {name: values.astype(np.float32) for name, values in np.load(path).items()}
    graph = onnx.load(str(path)).graph
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = _shipped(tensors) if "words" in tensors else _exported(graph, tensors)
    return {name: np.asarray(values, np.float32) for name, values in weights.items()}


def _exported(graph: onnx.GraphProto, tensors: Weights) -> Weights:
    """Matrices of multiplications, which have no name of their own, are named after their nodes."""
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
    return named


def _shipped(tensors: Weights) -> Weights:
    """Undo what `export.py` did, as far as int8 allows."""
    named = {name: values for name, values in tensors.items() if "LayerNorm" in name}
    named[WORDS] = tensors["words"].astype(np.float32) * tensors["words.scale"]
    places = np.zeros((PLACES, WIDTH), np.float32)
    places[: len(tensors["places"])] = tensors["places"]
    named["embeddings.position_embeddings.weight"] = places
    named["embeddings.token_type_embeddings.weight"] = np.zeros((2, WIDTH), np.float32)
    for name in [name.removesuffix(".steps") for name in tensors if name.endswith(".steps")]:
        weight = tensors[f"{name}.weight"].astype(np.float32).T * tensors[f"{name}.steps"][:, None]
        weight = weight * tensors.get(f"{name}.smooth", np.float32(1))
        bias = tensors.get(f"{name}.bias", tensors.get(f"{name.removesuffix('.dense')}.bias"))
        if not name.endswith("qkv"):
            named[f"{name}.weight"], named[f"{name}.bias"] = weight, bias
            continue
        for number, part in enumerate(("query", "key", "value")):
            rows = slice(number * WIDTH, (number + 1) * WIDTH)
            own = f"{name.removesuffix('qkv')}attention.self.{part}"
            named[f"{own}.weight"], named[f"{own}.bias"] = weight[rows], bias[rows]
    return named

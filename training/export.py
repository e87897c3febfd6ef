"""Writes an encoder as an ONNX file with int8 multiplication, the form in which Fourfold ships it.

    pip install onnx==1.23.2 onnxruntime==1.31.1 numpy
    python training/export.py WEIGHTS VOCABULARY FOLDER

WEIGHTS is the `student.npz` of `train.py`. FOLDER gets `encoder.onnx` and `words.bin`, its vectors of word pieces. The
texts of `calibration.txt` get the student's prefixes, and umlauts are written with two letters. Prints the sha256 of
both files, and how close the vectors are to those of float multiplication.

Weights are int8 with a scale for each output. Activations are uint8:

- Behind a layer normalisation, and for the mixed values of attention, the range hardly depends on the text. A fixed
  scale for each input channel, from the ranges on `calibration.txt`, needs no pass over the data.
- The inner activations of a feed-forward layer have rare values of twenty times the usual size. Each row (token) has
  its own scale, computed as it is read.

Nothing depends on the other texts of a batch: a text has the same vector alone and in any company.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data
from teachers import read_weights
from texts import PREFIXES, fold

from fourfold.embed.wordpiece import WordPiece

Floats = NDArray[np.float32]
Weights = dict[str, Floats]
Ranges = dict[str, tuple[Floats, Floats]]

FILES = ("encoder.onnx", "words.bin")
CALIBRATION = Path(__file__).with_name("calibration.txt")
LAYERS, HEADS, WIDTH, TOKENS = 6, 12, 384, 256
EPSILON = 1e-12
CONTRIB = "com.microsoft"
OPSET, IR_VERSION = 18, 9

SMOOTHING = 0.85
"""Share of the spread between input channels that moves from the activations into the weights."""
GELU_MINIMUM = 0.17
NEGATIVE_SHARE = 0.1
"""Share of a row's maximum that is kept below zero, where GELU has little."""


def main() -> None:
    """Write the file and compare it with the float encoder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    weights = read_weights(options.weights)
    lines = CALIBRATION.read_text("utf-8").splitlines()
    texts = [PREFIXES[number % 2] + fold(line) for number, line in enumerate(lines)]
    rows = WordPiece(options.vocabulary.read_bytes(), TOKENS).encode(texts)
    plain = session(Builder(weights, None).model())
    content = Builder(weights, ranges(plain, rows)).model()
    cosines = np.array(list(compared(plain, session(content), rows)))
    for name, part in zip(FILES, apart(content), strict=True):
        (options.target / name).write_bytes(part)
        print(f"{name}: {len(part):,} bytes, sha256 {hashlib.sha256(part).hexdigest()}")
    print(f"cosine to float multiplication: mean {cosines.mean():.5f}, minimum {cosines.min():.5f}")


# ---------------------------------------------------------------- the graph


class Builder:
    """Makes the graph node by node. Without ranges it multiplies in float and also returns every multiplied input."""

    def __init__(self, weights: Weights, known: Ranges | None) -> None:
        self._weights = weights
        self._ranges = known
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._inputs: list[str] = []

    def model(self) -> bytes:
        """Token ids of texts of one length in, their last states out."""
        states = self._embedded()
        for layer in range(LAYERS):
            states = self._layer(states, f"encoder.layer.{layer}.")
        self._nodes[-1].output[0] = "last_hidden_state"
        outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", WIDTH])]
        if self._ranges is None:
            outputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self._inputs]
        ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])
        graph = helper.make_graph(self._nodes, "encoder", [ids], outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()

    def _embedded(self) -> str:
        """Word rows are int8; positions and the one token type are added together beforehand."""
        words = self._weights["embeddings.word_embeddings.weight"]
        scales = np.maximum(np.abs(words).max(axis=1, keepdims=True), 1e-9).astype(np.float32) / np.float32(127)
        rounded = self._constant("words", np.rint(words / scales).astype(np.int8))
        picked = self._node("Cast", [self._node("Gather", [rounded, "input_ids"])], to=TensorProto.FLOAT)
        scaled = self._node("Gather", [self._constant("words.scale", scales), "input_ids"])
        types = self._weights["embeddings.token_type_embeddings.weight"][0]
        places = self._constant("places", (self._weights["embeddings.position_embeddings.weight"] + types)[:TOKENS])
        zero = self._constant("zero", np.array([0], np.int64))
        length = self._node("Shape", ["input_ids"], start=1, end=2)
        placed = self._node(
            "Add", [self._node("Mul", [picked, scaled]), self._node("Slice", [places, zero, length, zero])]
        )
        return self._normalised(placed, "embeddings.LayerNorm")

    def _layer(self, states: str, name: str) -> str:
        parts = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
        joined = [np.concatenate([self._weights[f"{part}.{kind}"] for part in parts]) for kind in ("weight", "bias")]
        mixed = self._node("Split", [self._product(states, f"{name}qkv", *joined)], count=3, axis=-1, num_outputs=3)
        attended = self._node("MultiHeadAttention", mixed, domain=CONTRIB, num_heads=HEADS)
        seen = self._node("Add", [self._linear(attended, f"{name}attention.output.dense"), states])
        states = self._normalised(seen, f"{name}attention.output.LayerNorm")
        weight, bias = (self._weights[f"{name}intermediate.dense.{kind}"] for kind in ("weight", "bias"))
        inner = self._product(states, f"{name}intermediate.dense", weight, None)
        inner = self._node("BiasGelu", [inner, self._constant(f"{name}intermediate.bias", bias)], domain=CONTRIB)
        thought = self._node("Add", [self._linear(inner, f"{name}output.dense", by_row=True), states])
        return self._normalised(thought, f"{name}output.LayerNorm")

    def _normalised(self, states: str, name: str) -> str:
        inputs = [self._constant(f"{name}.{kind}", self._weights[f"{name}.{kind}"]) for kind in ("weight", "bias")]
        return self._node("LayerNormalization", [states, *inputs], axis=-1, epsilon=EPSILON)

    def _linear(self, states: str, name: str, *, by_row: bool = False) -> str:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        if self._ranges is not None and by_row:
            return self._row_product(states, name, weight, bias)
        return self._product(states, name, weight, bias)

    def _product(self, states: str, name: str, weight: Floats, bias: Floats | None) -> str:
        """Multiply with a fixed range for each input channel."""
        if self._ranges is None:
            self._inputs.append(states)
            made = self._node("MatMul", [states, self._constant(f"{name}.weight", weight.T)])
            return made if bias is None else self._node("Add", [made, self._constant(f"{name}.bias", bias)])
        low, high = self._ranges[name]
        factors = smoothing(np.maximum(np.abs(low), np.abs(high)), np.abs(weight).max(axis=0))
        least, most = min(float((low / factors).min()), 0.0), max(float((high / factors).max()), 0.0)
        scale = np.float32((most - least) / 255)
        smooth = self._node("Mul", [states, self._constant(f"{name}.smooth", (1 / factors).astype(np.float32))])
        return self._multiplied(smooth, name, weight * factors, scale, round(-least / float(scale)), bias)

    def _row_product(self, states: str, name: str, weight: Floats, bias: Floats) -> str:
        """Multiply with a range for each row, from its maximum."""
        most = self._node("ReduceMax", [states, self._constant(f"{name}.axis", np.array([-1], np.int64))], keepdims=1)
        floor = self._constant(f"{name}.floor", np.float32(GELU_MINIMUM / NEGATIVE_SHARE))
        most = self._node("Max", [most, floor])
        scale = np.float32((1 + NEGATIVE_SHARE) / 255)
        zero = int(np.ceil(NEGATIVE_SHARE / float(scale)))
        made = self._multiplied(self._node("Div", [states, most]), name, weight, scale, zero, None)
        return self._node("Add", [self._node("Mul", [made, most]), self._constant(f"{name}.bias", bias)])

    def _multiplied(
        self, states: str, name: str, weight: Floats, scale: np.float32, zero: int, bias: Floats | None
    ) -> str:
        steps = np.abs(weight).max(axis=1).astype(np.float32) / np.float32(127)
        rounded = np.clip(np.rint(weight / steps[:, None]), -127, 127).astype(np.int8)
        step, middle = self._constant(f"{name}.step", scale), self._constant(f"{name}.zero", np.uint8(zero))
        inputs = [
            self._node("QuantizeLinear", [states, step, middle]),
            self._constant(f"{name}.weight", rounded.T),
            step,
            self._constant(f"{name}.steps", steps),
            middle,
            self._constant(f"{name}.zeros", np.zeros(len(steps), np.int8)),
            *([] if bias is None else [self._constant(f"{name}.bias", bias)]),
        ]
        return self._node("MatMulIntegerToFloat", inputs, domain=CONTRIB)

    def _constant(self, name: str, values: object) -> str:
        if all(known.name != name for known in self._constants):
            self._constants.append(
                numpy_helper.from_array(np.ascontiguousarray(values).reshape(np.shape(values)), name)
            )
        return name

    def _node(self, kind: str, inputs: list[str], *, domain: str = "", count: int = 1, **attributes: object) -> ...:
        """Return the name of the output, or the names of several."""
        names = [f"{kind}.{len(self._nodes)}.{index}" for index in range(count)]
        self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names[0] if count == 1 else names


def apart(content: bytes) -> tuple[bytes, bytes]:
    """Return the model without its word rows, and these: onnxruntime maps them into memory and reads what it needs."""
    model = onnx.load_from_string(content)
    (words,) = [tensor for tensor in model.graph.initializer if tensor.name == "words"]
    rows = words.raw_data
    set_external_data(words, FILES[1], offset=0, length=len(rows))
    words.ClearField("raw_data")
    return model.SerializeToString(), rows


def smoothing(peaks: Floats, largest: Floats) -> Floats:
    """Return factors that even out the input channels, with the geometric mean 1."""
    factors = np.maximum(peaks, 1e-4) ** SMOOTHING / np.maximum(largest, 1e-5) ** (1 - SMOOTHING)
    return (factors / np.exp(np.log(factors).mean())).astype(np.float32)


# ---------------------------------------------------------------- calibration and comparison


def session(content: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def ranges(plain: onnxruntime.InferenceSession, rows: list[list[int]]) -> Ranges:
    """Return the least and the greatest input of every product by channel, rounded to be the same everywhere."""
    names = [
        f"encoder.layer.{layer}.{part}"
        for layer in range(LAYERS)
        for part in ("qkv", "attention.output.dense", "intermediate.dense", "output.dense")
    ]
    outputs = [node.name for node in plain.get_outputs()][1:]
    found: Ranges = {}
    for row in rows:
        for name, states in zip(names, plain.run(outputs, {"input_ids": np.array([row])}), strict=True):
            low, high = states[0].min(axis=0), states[0].max(axis=0)
            before = found.get(name, (low, high))
            found[name] = np.minimum(before[0], low), np.maximum(before[1], high)
    return {name: (three_digits(low), three_digits(high)) for name, (low, high) in found.items()}


def three_digits(values: Floats) -> Floats:
    return np.array([float(f"{value:.3g}") for value in values], np.float32)


def compared(
    plain: onnxruntime.InferenceSession, quantised: onnxruntime.InferenceSession, rows: list[list[int]]
) -> Iterator[float]:
    """Yield the cosine of both vectors of each text."""
    for row in rows:
        states = (each.run(["last_hidden_state"], {"input_ids": np.array([row])})[0] for each in (plain, quantised))
        one, other = (each[0].mean(axis=0) for each in states)
        yield float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


if __name__ == "__main__":
    main()

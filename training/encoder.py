"""BERT as the encoder needs it: texts of one length at a time, so that nothing is padded and no mask is needed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

WIDTH, HEADS, INNER, PLACES, EPSILON = 384, 12, 1536, 512, 1e-12
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK_TOKENS = 8_192 if DEVICE == "cpu" else 262_144


@cache
def kernel() -> Any:
    """Compile the attention for processors (AVX-512): PyTorch's own backward pass takes half of a step there."""
    from torch.utils.cpp_extension import load

    flags = ["-O3", "-march=native", "-ffast-math", "-mprefer-vector-width=512"]
    return load("attention", [str(Path(__file__).with_name("attention.cpp").resolve())], extra_cflags=flags)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, mixed: Tensor, texts: int, tokens: int) -> Tensor:
        result, probabilities = kernel().forward(mixed, texts, tokens, HEADS)
        context.save_for_backward(mixed, probabilities)
        context.shape = texts, tokens
        return result

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        mixed, probabilities = context.saved_tensors
        return kernel().backward(gradient.contiguous(), mixed, probabilities, *context.shape, HEADS), None, None


def attend(mixed: Tensor, texts: int, tokens: int) -> Tensor:
    if mixed.device.type == "cpu":
        return Attention.apply(mixed, texts, tokens)
    query, key, value = mixed.view(texts, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
    return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(texts * tokens, WIDTH)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.seen, self.thought = nn.LayerNorm(WIDTH, EPSILON), nn.LayerNorm(WIDTH, EPSILON)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, states: Tensor, texts: int, tokens: int) -> Tensor:
        states = self.seen(states + self.out(attend(self.qkv(states), texts, tokens)))
        return self.thought(states + self.down(functional.gelu(self.up(states))))


class Encoder(nn.Module):
    """Word vectors are kept outside (`words`): few of them change in a step."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.places, self.norm = nn.Parameter(torch.zeros(PLACES, WIDTH)), nn.LayerNorm(WIDTH, EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, words: Tensor) -> Tensor:
        """Vectors of the words of each text in, the text's mean out."""
        texts, tokens, _ = words.shape
        states = self.norm(words + self.places[:tokens]).view(texts * tokens, WIDTH)
        for layer in self.layers:
            states = layer(states, texts, tokens)
        return states.view(texts, tokens, WIDTH).float().mean(1)


LAYER_NAMES = {
    "out": "attention.output.dense",
    "seen": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "thought": "output.LayerNorm",
}


def from_bert(weights: dict[str, np.ndarray]) -> tuple[Encoder, Tensor]:
    """Make an encoder of a BERT model, and its word vectors."""
    layers = {int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")}
    made = Encoder(len(layers))
    with torch.no_grad():
        types = weights["embeddings.token_type_embeddings.weight"][0]
        made.places.copy_(torch.from_numpy(weights["embeddings.position_embeddings.weight"] + types))
        for kind in ("weight", "bias"):
            getattr(made.norm, kind).copy_(torch.from_numpy(weights[f"embeddings.LayerNorm.{kind}"]))
            for layer, number in zip(made.layers, sorted(layers), strict=True):
                prefix = f"encoder.layer.{number}."
                joined = np.concatenate(
                    [weights[f"{prefix}attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
                )
                getattr(layer.qkv, kind).copy_(torch.from_numpy(joined))
                for ours, theirs in LAYER_NAMES.items():
                    getattr(getattr(layer, ours), kind).copy_(torch.from_numpy(weights[f"{prefix}{theirs}.{kind}"]))
    return made, torch.from_numpy(weights["embeddings.word_embeddings.weight"].copy())


def to_bert(encoder: Encoder, words: Tensor) -> dict[str, np.ndarray]:
    """The inverse, with the token type added to the places."""
    weights = {
        "embeddings.word_embeddings.weight": words,
        "embeddings.position_embeddings.weight": encoder.places,
        "embeddings.token_type_embeddings.weight": torch.zeros(2, WIDTH),
    }
    for kind in ("weight", "bias"):
        weights[f"embeddings.LayerNorm.{kind}"] = getattr(encoder.norm, kind)
        for number, layer in enumerate(encoder.layers):
            for part, values in zip(("query", "key", "value"), getattr(layer.qkv, kind).chunk(3), strict=True):
                weights[f"encoder.layer.{number}.attention.self.{part}.{kind}"] = values
            for ours, theirs in LAYER_NAMES.items():
                weights[f"encoder.layer.{number}.{theirs}.{kind}"] = getattr(getattr(layer, ours), kind)
    return {name: values.detach().float().cpu().numpy() for name, values in weights.items()}


class Rows:
    """Texts as ids, one after the other."""

    def __init__(self, ids: np.ndarray, ends: np.ndarray) -> None:
        self.ids = ids
        self.starts = np.concatenate([[0], ends[:-1]])
        self.lengths = ends - self.starts

    @classmethod
    def of(cls, rows: list[np.ndarray]) -> Rows:
        return cls(np.concatenate(rows), np.cumsum([len(row) for row in rows]))

    def block(self, places: np.ndarray, skip: slice | None = None) -> Tensor:
        """The ids of texts of one length; `skip` leaves out columns."""
        length = int(self.lengths[places[0]])
        block = self.ids[self.starts[places][:, None] + np.arange(length)]
        if skip is not None:
            block = np.delete(block, np.arange(length)[skip], axis=1)
        return torch.from_numpy(block.astype(np.int64))

    def blocks(self, tokens: int, draw: np.random.Generator | None = None) -> Iterator[np.ndarray]:
        """Yield the places of texts of one length, about `tokens` at a time, in random order if `draw` is given."""
        order = np.arange(len(self.lengths)) if draw is None else draw.permutation(len(self.lengths))
        order = order[np.argsort(self.lengths[order], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.lengths[order])) + 1
        blocks: list[np.ndarray] = []
        for group in np.split(order, cuts):
            size = max(1, tokens // int(self.lengths[group[0]]))
            blocks += [group[start : start + size] for start in range(0, len(group), size)]
        if draw is not None:
            draw.shuffle(blocks)
        yield from blocks


@torch.no_grad()
def embed(encoder: Encoder, words: Tensor, rows: Rows, *, skip: slice | None = None) -> Tensor:
    """The unit vectors of all texts."""
    vectors = torch.empty(len(rows.lengths), WIDTH)
    for places in rows.blocks(BLOCK_TOKENS):
        block = words[rows.block(places, skip).to(words.device)].to(torch.bfloat16)
        vectors[torch.from_numpy(places)] = functional.normalize(encoder(block), dim=-1).cpu()
    return vectors

"""BERT as the encoder needs it: texts of one length at a time, so that nothing is padded and no mask is needed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as functional
from data import Texts
from torch import Tensor, nn

WIDTH, HEADS, INNER, PLACES, EPSILON = 384, 12, 1536, 512, 1e-12
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK_TOKENS = 8_192 if DEVICE == "cpu" else 524_288
LONGEST_START = 2.5
"""Means of several vectors are shorter than one; they are stretched to the usual length, at most by this factor."""

Weights = dict[str, np.ndarray]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.seen, self.thought = nn.LayerNorm(WIDTH, EPSILON), nn.LayerNorm(WIDTH, EPSILON)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, states: Tensor) -> Tensor:
        texts, tokens, _ = states.shape
        query, key, value = self.qkv(states).view(texts, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(states.shape)
        states = self.seen(states + self.out(mixed))
        return self.thought(states + self.down(functional.gelu(self.up(states))))


class Encoder(nn.Module):
    def __init__(self, layers: int, pieces: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(pieces, WIDTH), nn.Parameter(torch.zeros(PLACES, WIDTH))
        self.norm = nn.LayerNorm(WIDTH, EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, ids: Tensor) -> Tensor:
        """Ids of texts of one length in, the mean of the last states of each out."""
        states = self.norm(self.words(ids) + self.places[: ids.shape[1]])
        for layer in self.layers:
            states = layer(states)
        return states.float().mean(1)


LAYER_NAMES = {
    "out": "attention.output.dense",
    "seen": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "thought": "output.LayerNorm",
}


def from_bert(weights: Weights, keep: list[int] | None = None) -> Encoder:
    """Make an encoder of a BERT model, with all of its layers or some."""
    layers = keep or sorted({int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")})
    words = weights["embeddings.word_embeddings.weight"]
    made = Encoder(len(layers), len(words))
    with torch.no_grad():
        made.words.weight.copy_(torch.from_numpy(words))
        types = weights["embeddings.token_type_embeddings.weight"][0]
        made.places.copy_(torch.from_numpy(weights["embeddings.position_embeddings.weight"] + types))
        for kind in ("weight", "bias"):
            getattr(made.norm, kind).copy_(torch.from_numpy(weights[f"embeddings.LayerNorm.{kind}"]))
            for layer, number in zip(made.layers, layers, strict=True):
                prefix = f"encoder.layer.{number}."
                joined = [weights[f"{prefix}attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
                getattr(layer.qkv, kind).copy_(torch.from_numpy(np.concatenate(joined)))
                for ours, theirs in LAYER_NAMES.items():
                    getattr(getattr(layer, ours), kind).copy_(torch.from_numpy(weights[f"{prefix}{theirs}.{kind}"]))
    return made


def to_bert(encoder: Encoder) -> Weights:
    """The inverse, with the token type added to the places."""
    weights = {
        "embeddings.word_embeddings.weight": encoder.words.weight,
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


def with_translations(vectors: np.ndarray, pieces: int, table: dict[str, np.ndarray]) -> np.ndarray:
    """Vectors of all pieces: a new one starts from those of the English pieces that translate it."""
    sums, weights = np.zeros((pieces, vectors.shape[1]), np.float32), np.zeros(pieces, np.float32)
    weighted = table["weight"][:, None] * vectors[table["translation"]]
    order = np.argsort(table["piece"], kind="stable")
    present, first = np.unique(table["piece"][order], return_index=True)
    sums[present] = np.add.reduceat(weighted[order], first, axis=0)
    weights[present] = np.add.reduceat(table["weight"][order], first)
    middle = vectors.mean(axis=0)
    made = np.where(weights[:, None] > 0, sums / np.maximum(weights, 1e-9)[:, None], middle)
    usual = np.median(np.linalg.norm(vectors[1000:20000] - middle, axis=1))
    away = made - middle
    length = np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-6)
    made = middle + away * np.minimum(usual / length, LONGEST_START)
    made[: len(vectors)] = vectors
    return made.astype(np.float32)


class Blocks:
    """Texts on the device, read in blocks of one length."""

    def __init__(self, texts: Texts) -> None:
        self.lengths = texts.lengths
        self._ids = torch.from_numpy(texts.ids).to(DEVICE)
        self._starts = torch.from_numpy(texts.starts).to(DEVICE)

    def __getitem__(self, places: np.ndarray) -> Tensor:
        start = self._starts[torch.from_numpy(places).to(DEVICE)]
        length = int(self.lengths[places[0]])
        return self._ids[start[:, None] + torch.arange(length, device=DEVICE)].long()

    def order(self, tokens: int, most: int, draw: np.random.Generator | None = None) -> Iterator[np.ndarray]:
        """Yield the places of texts of one length, about `tokens` at a time, in random order if `draw` is given."""
        order = np.arange(len(self.lengths)) if draw is None else draw.permutation(len(self.lengths))
        order = order[np.argsort(self.lengths[order], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.lengths[order])) + 1
        blocks: list[np.ndarray] = []
        for group in np.split(order, cuts):
            size = min(most, max(1, tokens // int(self.lengths[group[0]])))
            blocks += [group[start : start + size] for start in range(0, len(group), size)]
        if draw is not None:
            draw.shuffle(blocks)
        yield from blocks


@torch.no_grad()
def embed(encoder: Encoder, texts: Texts, *, skip: slice | None = None) -> Tensor:
    """The unit vectors of all texts; `skip` leaves out columns."""
    blocks = Blocks(texts)
    vectors = torch.empty(len(texts.lengths), WIDTH, device=DEVICE, dtype=torch.float16 if DEVICE == "cuda" else None)
    for places in blocks.order(BLOCK_TOKENS, 65_536):
        ids = blocks[places]
        if skip is not None:
            ids = torch.cat([ids[:, : skip.start], ids[:, skip.stop :]], 1)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            made = encoder(ids)
        vectors[torch.from_numpy(places).to(DEVICE)] = functional.normalize(made, dim=-1).to(vectors.dtype)
    return vectors

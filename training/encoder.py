"""BERT as the encoder needs it: texts packed one behind the other, so that nothing is padded and no mask is needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as functional
from data import WINDOW_TOKENS, Texts
from torch import Tensor, nn

WIDTH, HEADS, INNER, PLACES, EPSILON = 384, 12, 1536, 512, 1e-12
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cuda":
    from torch.nn.attention.varlen import varlen_attn
PACK_TOKENS = 8_192 if DEVICE == "cpu" else 131_072
LONGEST_START = 2.5
"""Means of several vectors are shorter than one; they are stretched to the usual length, at most by this factor."""

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    column: Tensor
    """The place of each id in its text."""
    ends: Tensor
    """Where each text begins, and where the last one ends."""
    owners: Tensor
    """The text of each id."""


def attend(query: Tensor, key: Tensor, value: Tensor, ends: Tensor) -> Tensor:
    """Let the ids of each text read each other."""
    if DEVICE == "cuda":
        return varlen_attn(query, key, value, ends, ends, WINDOW_TOKENS, WINDOW_TOKENS)
    cuts = ends[1:-1].tolist()
    parts = (torch.tensor_split(each, cuts) for each in (query, key, value))
    return torch.cat(
        [
            functional.scaled_dot_product_attention(*(each.transpose(0, 1) for each in text)).transpose(0, 1)
            for text in zip(*parts, strict=True)
        ]
    )


def means(states: Tensor, batch: Batch) -> Tensor:
    """The mean of the states of each text."""
    lengths = batch.ends.diff().unsqueeze(1)
    sums = torch.zeros(len(lengths), WIDTH, device=states.device).index_add(0, batch.owners, states.float())
    return sums / lengths


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.seen, self.thought = nn.LayerNorm(WIDTH, EPSILON), nn.LayerNorm(WIDTH, EPSILON)
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, states: Tensor, ends: Tensor) -> Tensor:
        query, key, value = self.qkv(states).view(len(states), 3, HEADS, -1).unbind(1)
        mixed = attend(query, key, value, ends).reshape(states.shape)
        states = self.seen(states + self.out(mixed)).to(mixed.dtype)
        return self.thought(states + self.down(functional.gelu(self.up(states)))).to(mixed.dtype)


class Encoder(nn.Module):
    def __init__(self, layers: int, pieces: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(pieces, WIDTH), nn.Parameter(torch.zeros(PLACES, WIDTH))
        self.norm = nn.LayerNorm(WIDTH, EPSILON)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, ids: Tensor, column: Tensor, ends: Tensor) -> Tensor:
        """The last state of each id."""
        states = self.norm(self.words(ids) + self.places[column])
        for layer in self.layers:
            states = layer(states, ends)
        return states


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


class Packed:
    """Texts on the device, packed one behind the other into batches: nothing is padded, so nothing is masked."""

    def __init__(self, texts: Texts) -> None:
        self.lengths = texts.lengths
        self._ids = torch.from_numpy(texts.ids).to(DEVICE)
        self._starts = torch.from_numpy(texts.starts).to(DEVICE)
        self._lengths = torch.from_numpy(texts.lengths).to(DEVICE)

    def batch(self, places: Tensor, tokens: int, *, skip: slice = slice(0, 0)) -> Batch:
        """Pack texts that have `tokens` ids together; `skip` leaves out columns of each."""
        left_out = skip.stop - skip.start
        lengths = self._lengths[places] - left_out
        ends = lengths.cumsum(0)
        owners = torch.repeat_interleave(lengths, output_size=tokens - left_out * len(places))
        column = torch.arange(len(owners), device=DEVICE) - (ends - lengths)[owners]
        ids = self._ids[(self._starts[places])[owners] + column + left_out * (column >= skip.start)]
        return Batch(ids.long(), column, functional.pad(ends, (1, 0)).int(), owners)

    def packs(self, order: Tensor, tokens: int) -> list[tuple[Tensor, int]]:
        """Cut an order of texts into packs of at most `tokens` ids, each with the number of its ids."""
        sums = self._lengths[order].cumsum(0)
        step = tokens - int(self.lengths.max())
        cuts = torch.arange(step, int(sums[-1]) + step, step, device=DEVICE)
        ends = torch.searchsorted(sums, cuts, right=True)
        totals = sums[ends - 1].diff(prepend=sums.new_zeros(1)).tolist()
        sizes = ends.diff(prepend=ends.new_zeros(1)).tolist()
        return list(zip(order.split(sizes), totals, strict=True))


@torch.no_grad()
def embed(encoder: Encoder, texts: Texts, *, skip: slice = slice(0, 0), first: bool = False) -> Tensor:
    """The unit vectors of all texts; `skip` leaves out columns, `first` takes the state of [CLS], not the mean."""
    packed = Packed(texts)
    vectors = torch.empty(len(texts.lengths), WIDTH, device=DEVICE, dtype=torch.float16 if DEVICE == "cuda" else None)
    for places, tokens in packed.packs(torch.argsort(torch.from_numpy(texts.lengths).to(DEVICE)), PACK_TOKENS):
        batch = packed.batch(places, tokens, skip=skip)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            states = encoder(batch.ids, batch.column, batch.ends)
        made = states[batch.ends[:-1].long()] if first else means(states, batch)
        vectors[places] = functional.normalize(made.float(), dim=-1).to(vectors.dtype)
    return vectors

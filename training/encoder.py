"""MiniLM's architecture in plain PyTorch, with the names of Hugging Face's BertModel for its weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 384
HEADS = 12
LAYERS = 6
INNER = 1536
EPSILON = 1e-12


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value")})
        self.output = nn.ModuleDict({"dense": nn.Linear(WIDTH, WIDTH), "LayerNorm": nn.LayerNorm(WIDTH, EPSILON)})

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        rows, length, _ = states.shape
        query, key, value = (
            self.self[name](states).view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(rows, length, WIDTH)
        return self.output["LayerNorm"](states + self.output["dense"](mixed))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(WIDTH, INNER)})
        self.output = nn.ModuleDict({"dense": nn.Linear(INNER, WIDTH), "LayerNorm": nn.LayerNorm(WIDTH, EPSILON)})

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        states = self.attention(states, mask)
        inner = functional.gelu(self.intermediate["dense"](states))
        return self.output["LayerNorm"](states + self.output["dense"](inner))


class Encoder(nn.Module):
    """Token ids and a mask in, unit vectors out (the mean of the last states)."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {
                "word_embeddings": nn.Embedding(words, WIDTH),
                "position_embeddings": nn.Embedding(512, WIDTH),
                "token_type_embeddings": nn.Embedding(2, WIDTH),
                "LayerNorm": nn.LayerNorm(WIDTH, EPSILON),
            }
        )
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList([Layer() for _ in range(LAYERS)])})

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        states = self.embeddings["word_embeddings"](ids) + self.embeddings["position_embeddings"](places)
        states = self.embeddings["LayerNorm"](states + self.embeddings["token_type_embeddings"].weight[0])
        for layer in self.encoder["layer"]:
            states = layer(states, mask)
        weights = mask[:, :, None].float()
        return functional.normalize((states.float() * weights).sum(1) / weights.sum(1), dim=-1)

"""Computes what the student learns: one vector per English text, made of the vectors of several teachers.

    python training/targets.py OUT STUDENT E5 GTE BGE MINILM [--weights 1,0.8,0.8,0.3]

Each teacher's vectors are centred and scaled so that their similarities spread alike, weighted, joined, reduced to 384
dimensions by PCA, and turned towards the vectors of the student's start.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import data
import numpy as np
import torch
import torch.nn.functional as functional
from encoder import DEVICE, WIDTH, embed, from_bert
from teachers import read_weights
from torch import Tensor

COMPARED = 6_000
FITTED = 400_000
PREFIX = slice(1, 3)
"""The tokens of the prefix, which only the first teacher was trained with."""
NOTHING = slice(0, 0)
BGE = 2
"""The teacher whose vector is the state of [CLS]."""


def scale(vectors: Tensor, weight: float) -> Tensor:
    """The factor that gives similarities of different texts the standard deviation `weight`."""
    some = vectors[torch.randperm(len(vectors), generator=torch.Generator().manual_seed(1))[:COMPARED].to(DEVICE)]
    similarities = some.float() @ some.float().T
    apart = similarities[~torch.eye(len(similarities), dtype=torch.bool, device=DEVICE)]
    return (weight / apart.std()).sqrt()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("student", type=Path)
    parser.add_argument("teachers", type=Path, nargs=4)
    parser.add_argument("--weights", type=lambda text: [float(part) for part in text.split(",")], required=True)
    options = parser.parse_args()
    began = time.time()
    texts = data.read(options.folder, seed=1, teachers=True)
    print(f"[{time.time() - began:6.1f}] texts {len(texts.lengths)} tokens {len(texts.ids)}", flush=True)
    parts: list[Tensor] = []
    for number, (path, weight) in enumerate(zip(options.teachers, options.weights, strict=True)):
        encoder = from_bert(read_weights(path)).to(DEVICE).eval()
        vectors = embed(encoder, texts, skip=PREFIX if number else NOTHING, first=number == BGE)
        vectors -= vectors.float().mean(0).to(vectors.dtype)
        parts.append(vectors * scale(vectors, weight).to(vectors.dtype))
        print(f"[{time.time() - began:6.1f}] {path.name}", flush=True)
    own = embed(from_bert(read_weights(options.student)).to(DEVICE).eval(), texts)
    draw = torch.randperm(len(parts[0]), generator=torch.Generator().manual_seed(2))[:FITTED].to(DEVICE)
    some = torch.cat([part[draw] for part in parts], 1).double()
    values, basis = torch.linalg.eigh(some.T @ some)
    print("kept by PCA", float(values[-WIDTH:].sum() / values.sum()))
    reduced = functional.normalize(some @ basis[:, -WIDTH:], dim=-1)
    left, _, right = torch.linalg.svd(reduced.T @ own[draw].double())
    turned = (basis[:, -WIDTH:] @ left @ right).float()
    targets = np.empty((len(texts.lengths), WIDTH), np.float16)
    for start in range(0, len(targets), FITTED):
        joined = torch.cat([part[start : start + FITTED] for part in parts], 1).float()
        targets[start : start + FITTED] = functional.normalize(joined @ turned, dim=-1).half().cpu().numpy()
    np.save(options.folder / "targets.npy", targets)
    broken = int((~np.isfinite(targets).all(1)).sum())
    print(f"[{time.time() - began:6.1f}] targets {targets.shape}, {broken} not finite")


if __name__ == "__main__":
    main()

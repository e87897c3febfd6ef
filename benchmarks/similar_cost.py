"""What looking for near-duplicates adds to a write: CPU time of `add`, and of `add_many`, which does not look for them.

    python benchmarks/similar_cost.py [--items 2000] [--rounds 300]

Single items are added to a store of that size, without vectors and with given ones, in turns of 20.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import numpy as np
from corpus import SEED
from passages import collect_passages

from fourfold import Memory, NewItem

TURN = 20
DIMENSIONS = 384


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2_000, help="how many items the store holds")
    parser.add_argument("--rounds", type=int, default=300, help="how many items are added in each way")
    options = parser.parse_args()
    for vectors in (False, True):
        new = list(new_items(options.items + 2 * options.rounds, vectors=vectors))
        with tempfile.TemporaryDirectory() as folder, Memory.open(folder, embedder="none", background=False) as memory:
            memory.add_many(new[: options.items])
            memory.index()
            alone, looked = measure(memory, new[options.items :])
        told = "with given vectors" if vectors else "without vectors"
        print(f"{told}: add_many {alone:.2f} ms, add {looked:.2f} ms, so near-duplicates cost {looked - alone:.2f} ms")


def new_items(count: int, *, vectors: bool) -> Iterator[NewItem]:
    drawn = np.random.default_rng(SEED).standard_normal((count, DIMENSIONS))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    passages, _ = collect_passages(count, SEED)
    for number, passage in enumerate(passages):
        vector = drawn[number].tolist() if vectors else None
        yield NewItem(passage.text, passage.title, key=str(number), vector=vector)


def measure(memory: Memory, items: Sequence[NewItem]) -> tuple[float, float]:
    """The median CPU time of a turn, in ms per item, by `add_many` and by `add`."""
    ways: tuple[Callable[[NewItem], object], ...] = (lambda item: memory.add_many([item]), memory.add)
    spent: tuple[list[float], ...] = ([], [])
    for start in range(0, len(items), TURN):
        way = start // TURN % 2
        begun = time.process_time()
        for item in items[start : start + TURN]:
            ways[way](item)
        spent[way].append((time.process_time() - begun) * 1000 / TURN)
    alone, looked = (median(each[1:]) for each in spent)
    return alone, looked


if __name__ == "__main__":
    main()

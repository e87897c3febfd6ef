"""What times in queries, superseded and expiring items cost a search that uses none of them.

    python benchmarks/feature_cost.py [--items 100000] [--rounds 8]

The same process searches with the steps of these features and without them, in turns. `two_versions.py` compares with
a commit from before the features, with everything else that changed since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from engine import TOP
from setting import options_parser, setting_of

from fourfold import Memory
from fourfold.engine import search as steps

ROUNDS = 8


def main() -> None:
    parser = options_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    setting = setting_of(options)
    queries = [query.text for query in setting.corpus.queries()[: setting.corpus.query_count]]
    vectors = setting.corpus.query_vectors()
    with setting.copied_store() as folder, Memory.open(folder, embedder="none") as memory:
        memory.index()
        ways: tuple[Callable[[], float], ...] = (
            lambda: without_steps(lambda: p50_ms(memory, queries, vectors, time="off")),
            lambda: p50_ms(memory, queries, vectors),
        )
        for way in ways:
            way()
        pairs: list[list[float]] = []
        for number in range(options.rounds):
            turns = [(place, ways[place]()) for place in ((0, 1), (1, 0))[number % 2]]
            pairs.append([spent for _, spent in sorted(turns)])
    for without, present in pairs:
        print(f"  without {without:.2f} ms, with {present:.2f} ms, ratio {present / without:.3f}")
    print(
        f"p50 of {setting.corpus.item_count:,} items: {median(with_ / out for out, with_ in pairs):.3f} times without"
    )


def p50_ms(memory: Memory, queries: Sequence[str], vectors: Any, **options: Any) -> float:
    spent: list[float] = []
    for text, vector in zip(queries, np.asarray(vectors), strict=False):
        begun = time.perf_counter()
        memory.search(text, vector=vector, top_k=TOP, **options)
        spent.append(time.perf_counter() - begun)
    return median(spent) * 1000


def without_steps(measure: Callable[[], float]) -> float:
    """Measure with the steps taken out that look at superseded and expiring items, and at a window."""
    seen, windowed = steps._seen, steps._windowed
    steps._seen = lambda question, *_: question
    steps._windowed = lambda question, _, find: (find(question), question, None)
    try:
        return measure()
    finally:
        steps._seen, steps._windowed = seen, windowed


if __name__ == "__main__":
    main()

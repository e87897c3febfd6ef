"""Compare the latency of the same searches in two or more checkouts of this repository, in turns.

    python benchmarks/two_trees.py [--items N] [--rounds N] TREE TREE [TREE ...]

Each TREE is a checkout whose kernel is compiled (`python hatch_build.py`). For each a process fills a store of short
texts with drawn vectors, one per item, and answers some searches whenever it is its turn: what else the machine does
meets all of them alike. It also embeds texts and queries with the built-in model. Prints the median of wall and CPU
time for each, and how it relates to the first tree.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

SEARCHES = 25
WORDS = ("wind", "wave", "harbour", "storm", "crew", "log", "night", "lamp", "keeper", "ship", "coast", "fog", "rope")
KINDS = {"vectors": {"only": ["semantic"]}, "auto": {}}
EMBEDDED_TEXTS, EMBEDDED_WORDS = 40, 60
TIMED = (*KINDS, "embed a query", f"embed {EMBEDDED_TEXTS} texts")


def main() -> None:
    """Start a process for each tree and ask them in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("trees", nargs="*", type=Path, metavar="TREE")
    options = parser.parse_args()
    if options.child:
        answer_turns(options.items)
        return
    children = [started(tree, options.items) for tree in options.trees]
    for child in children:
        turn(child)  # filled and warm
    times = [[turn(child) for child in children] for _ in range(options.rounds)]
    for child in children:
        child.communicate()
    print(f"{options.items:,} items, {options.rounds * SEARCHES} searches of each kind, {options.rounds} times texts\n")
    print("| tree | search | wall p50, ms | beside the first | CPU p50, ms | beside the first |")
    print("|---|---|--:|--:|--:|--:|")
    for place, tree in enumerate(options.trees):
        for kind in TIMED:
            cells = [tree.name, kind]
            for clock in (0, 1):
                middle = [median(pair[clock] for each in times for pair in each[other][kind]) for other in (0, place)]
                cells += [f"{middle[1]:.3f}", f"{middle[1] / middle[0] - 1:+.1%}"]
            print(f"| {' | '.join(cells)} |")


def started(tree: Path, items: int) -> subprocess.Popen[str]:
    """A process that imports the package of this tree."""
    command = [sys.executable, __file__, "--child", "--items", str(items)]
    environment = {**os.environ, "PYTHONPATH": str(tree.absolute() / "src")}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def turn(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Let a process search, and wait for its times."""
    if child.stdin is None or child.stdout is None:
        raise SystemExit("the process has no pipes")
    child.stdin.write("go\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def answer_turns(items: int) -> None:
    """Fill a store, then search once per line of stdin."""
    import numpy as np

    from fourfold import Memory, NewItem

    drawn = np.random.default_rng(1)
    vectors = drawn.standard_normal((items, 384)).astype(np.float32)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(Path(folder, "drawn"), embedder="none", background=False) as memory,
        Memory.open(Path(folder, "embedded"), background=False) as embedded,
    ):
        texts = [f"{words(drawn, 12)} {number}" for number in range(items)]
        memory.add_many([NewItem(text, vector=vector) for text, vector in zip(texts, vectors, strict=True)])
        memory.index()
        for line in sys.stdin:
            if line.strip():
                times = {kind: [search(memory, drawn, kind) for _ in range(SEARCHES)] for kind in KINDS}
                embedded.add_many([NewItem(words(drawn, EMBEDDED_WORDS)) for _ in range(EMBEDDED_TEXTS)])
                texts_time = timed(embedded.embed_pending)
                queries = [timed(embedded.search, words(drawn, 8), only=["semantic"]) for _ in range(SEARCHES)]
                print(json.dumps(times | dict(zip(TIMED[2:], (queries, [texts_time]), strict=True))), flush=True)


def words(drawn: Any, count: int) -> str:
    return " ".join(drawn.choice(WORDS, count))


def search(memory: Any, drawn: Any, kind: str) -> tuple[float, float]:
    return timed(memory.search, words(drawn, 3), vector=drawn.standard_normal(384), **KINDS[kind])


def timed(work: Callable[..., object], *arguments: object, **options: object) -> tuple[float, float]:
    """Wall and CPU milliseconds of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work(*arguments, **options)
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


if __name__ == "__main__":
    main()

"""What a search costs in two versions of Fourfold, alternating: the earlier one, and the one that is checked out.

Shows what a feature costs searches that do not use it:

    git worktree add /tmp/before COMMIT && python /tmp/before/hatch_build.py
    python benchmarks/two_versions.py --before /tmp/before --items 100000

The earlier version builds the store; the present one migrates a copy of it. Each version has a process of its own, and
rounds alternate, so that both see the same machine. The ratio is the median over the rounds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import IO, Any, cast

from corpus import Corpus
from fourfold_engine import FourfoldEngine
from setting import options_parser, setting_of

HERE = Path(__file__).resolve().parent
ROUNDS = 9


class Version:
    """A version of Fourfold in a process of its own, with its store open."""

    def __init__(self, tree: Path, store: Path, corpus: Corpus, opened: ExitStack) -> None:
        self._process = opened.enter_context(started(tree, "serve", store, corpus))
        self._in, self._out = cast("IO[str]", self._process.stdin), cast("IO[str]", self._process.stdout)
        self.round_ms()  # loads what is loaded on first use

    def round_ms(self) -> float:
        """The median latency of one round over all queries."""
        print("go", file=self._in, flush=True)
        return float(self._out.readline())


def started(tree: Path, what: str, store: Path, corpus: Corpus) -> subprocess.Popen[str]:
    """Run this file in a process that imports Fourfold from the tree."""
    command = [sys.executable, __file__, what, str(store), json.dumps(corpus_options(corpus))]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{HERE}"}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def run(tree: Path, what: str, store: Path, corpus: Corpus) -> None:
    with started(tree, what, store, corpus) as process:
        process.communicate()
    if process.returncode:
        raise SystemExit(f"the version in {tree} could not {what} the store")


def corpus_options(corpus: Corpus) -> dict[str, object]:
    return {
        "folder": str(corpus.folder),
        "item_count": corpus.item_count,
        "query_count": corpus.query_count,
        "recombined": corpus.recombined,
        "fingerprint": corpus.fingerprint,
    }


def work(what: str, store: str, options: str) -> None:
    """Be one of the processes: build or migrate a store, or search it whenever a line comes in."""
    given: dict[str, Any] = json.loads(options)
    corpus = Corpus(**(given | {"folder": Path(given["folder"])}))
    engine = FourfoldEngine(Path(store))
    if what == "build":
        engine.build(corpus)
        return
    engine.open()
    if what == "migrate":
        engine.index()
        engine.close()
        return
    queries = corpus.queries()[: corpus.query_count]
    vectors = corpus.query_vectors()
    for _ in sys.stdin:
        spent: list[float] = []
        for query, vector in zip(queries, vectors, strict=False):
            begun = time.perf_counter()
            engine.hybrid(query.text, vector)
            spent.append(time.perf_counter() - begun)
        print(median(spent) * 1000, flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = options_parser(__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the source tree of the earlier version, built")
    parser.add_argument("--stores", type=Path, help="folder that keeps the stores of both versions for another run")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args(arguments)
    corpus = setting_of(options).corpus
    before, after = options.before.resolve(), HERE.parent
    with ExitStack() as opened:
        scratch = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=options.cache)))
        folder = options.stores or scratch
        if not (folder / "after").exists():
            run(before, "build", folder / "before", corpus)
            shutil.copytree(folder / "before", folder / "after")
            run(after, "migrate", folder / "after", corpus)
        old = Version(before, folder / "before", corpus, opened)
        new = Version(after, folder / "after", corpus, opened)
        pairs = [(old.round_ms(), new.round_ms()) for _ in range(options.rounds)]
    for first, second in pairs:
        print(f"  before {first:.2f} ms, after {second:.2f} ms, ratio {second / first:.3f}")
    print(f"p50 of {corpus.item_count:,} items: {median(second / first for first, second in pairs):.3f} times before")


if __name__ == "__main__":
    if sys.argv[1:2] in (["build"], ["migrate"], ["serve"]):
        work(*sys.argv[1:4])
    else:
        main(sys.argv[1:])

"""Compare the speed of hybrid search in Fourfold with that of its peers, on the same data in one run.

    python benchmarks/compare.py --items 10000,100000,1000000 --json results --plot growth.svg
    python benchmarks/compare.py --items 10000,100000 --record     # writes benchmarks/speed.json and docs/benchmarks.md

Every engine is built and then asked in a process of its own. The engines take turns in blocks of queries, so that
noise of the machine hits all of them alike. All use the same candidate depth and return the whole ten best items.
An engine that is too slow for all queries is asked the first ones; ratios are then over what both have answered.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from corpus import WARM_UP, Corpus, prepare_corpus, recall_of
from engine import (
    ENGINES,
    MODES,
    TOP,
    Answer,
    Built,
    Child,
    Load,
    Mode,
    Task,
    build_engine,
    engine_class,
    lacking,
    under_load,
)
from report import (
    Result,
    as_json,
    as_markdown,
    bars_table,
    figures_of,
    growth_bars,
    growth_table,
    plot,
    ratios,
    record,
    throughput_of,
)
from report import bars as comparison_bars

BLOCK = 20
OURS = "fourfold"
PEERS = ["sqlite", "lancedb", "chroma", "qdrant", "postgres"]
CLIENTS = 8
CACHE = Path(tempfile.gettempdir()) / "fourfold-bench"


def main() -> None:
    """Run the whole comparison for every size, print the tables and draw how cost grows."""
    options = read_options()
    written = [compare(count, options) for count in options.items]
    if len(written) > 1:
        print(growth_table(written))
        print(bars_table(growth_bars(written)))
    if options.plot:
        plot(written, options.plot)
    if options.record:
        record(written)


def compare(count: int, options: argparse.Namespace) -> dict[str, object]:
    """Compare the engines at one size; return what the file says of it."""
    corpus = prepare_corpus(options.cache, count, options.queries)
    describe(corpus)
    names = usable([OURS, *options.peers])
    folders = {name: options.cache / f"{name}-{corpus.fingerprint}" for name in names}
    built = build_all(folders, corpus, options.reuse)
    results = measure({name: folders[name] for name in built}, corpus, built, options)
    text = as_json(corpus, results)
    if options.json:
        options.json.mkdir(parents=True, exist_ok=True)
        (options.json / f"compare-{count}.json").write_text(text, encoding="utf-8")
    print(as_markdown(results) + "\n\n" + bars_table(comparison_bars(count, results)) + "\n", flush=True)
    return json.loads(text)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=sizes, default=[100_000], help="how many items to store, in one or more runs")
    parser.add_argument("--queries", type=int, default=500, help="how many distinct queries to ask")
    parser.add_argument("--peers", type=peer_names, default=PEERS, help=f"of: {', '.join(ENGINES)}")
    parser.add_argument("--seconds", type=float, default=120, help="the longest that an engine is asked in one mode")
    parser.add_argument(
        "--load-seconds", type=float, default=10, help=f"how long {CLIENTS} clients ask at once; 0: not"
    )
    parser.add_argument("--json", type=Path, help="also write all figures to files in this folder")
    parser.add_argument("--plot", type=Path, help="draw how cost grows into this file (svg or png)")
    parser.add_argument("--record", action="store_true", help="write the figures and their tables into the repository")
    parser.add_argument("--cache", type=Path, default=CACHE, help="data folder")
    parser.add_argument("--reuse", action="store_true", help="keep the peers that an earlier run has built")
    return parser.parse_args()


def sizes(text: str) -> list[int]:
    """Read a list of numbers, separated by commas."""
    return [int(number.replace("_", "")) for number in text.split(",")]


def peer_names(text: str) -> list[str]:
    """Read a list of peers, separated by commas."""
    names = [name for name in text.split(",") if name]
    unknown = set(names) - set(ENGINES)
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return names


def describe(corpus: Corpus) -> None:
    """Say what the data is."""
    items = f"{corpus.item_count} items ({corpus.recombined} recombined from others)"
    print(f"{items}, {corpus.query_count} queries, fingerprint {corpus.fingerprint}", flush=True)


def usable(names: list[str]) -> list[str]:
    """Return the engines that can run here; say which cannot."""
    found = []
    for name in names:
        if missing := lacking(name):
            print(f"{name}: skipped, it lacks {', '.join(missing)}", flush=True)
        else:
            found.append(name)
    return found


def build_all(folders: dict[str, Path], corpus: Corpus, reuse: bool) -> dict[str, Built]:
    """Build all engines; a peer that fails is left out, so that the hours spent on the others are not lost."""
    built: dict[str, Built] = {}
    for name, folder in folders.items():
        try:
            built[name] = build(name, folder, corpus, reuse and name != OURS)
        except Exception as error:
            if name == OURS:
                raise
            print(f"{name}: left out, it failed with {type(error).__name__}: {error}", flush=True)
    return built


def build(name: str, folder: Path, corpus: Corpus, reuse: bool) -> Built:
    """Build an engine, or reuse what an earlier run built."""
    note = folder.with_suffix(".json")
    if reuse and note.exists():
        built = Built(**json.loads(note.read_text(encoding="utf-8")))
    else:
        note.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        built = build_engine(name, folder, corpus)
        note.write_text(json.dumps(asdict(built)), encoding="utf-8")
    print(f"{name}: built in {built.seconds:.1f} s, {built.megabytes:.0f} MB; {built.settings}", flush=True)
    return built


def measure(
    folders: dict[str, Path], corpus: Corpus, built: dict[str, Built], options: argparse.Namespace
) -> list[Result]:
    """Ask all engines all queries in every mode, then let several clients ask at once."""
    children = {name: Child(name, folder, corpus) for name, folder in folders.items()}
    answers = {mode: ask_in_turns(children, mode, corpus.query_count, options.seconds) for mode in MODES}
    resident = {name: child.stop() for name, child in children.items()}
    truth = corpus.neighbours(TOP)
    results = []
    for name, folder in folders.items():
        figures = {mode: figures_of(answers[mode][name]) for mode in MODES}
        found = [answer.keys for answer in answers["vector"][name]]
        against = {mode: ratios(answers[mode][name], answers[mode][OURS]) for mode in MODES if OURS in folders}
        loads = loads_of(name, folder, corpus, options.load_seconds)
        throughput = [throughput_of(load, figures["hybrid"]) for load in loads]
        recall = recall_of(found, truth[: len(found)])
        label = engine_class(name).label
        results.append(Result(name, label, built[name], resident[name], recall, figures, against, throughput))
    return results


def loads_of(name: str, folder: Path, corpus: Corpus, seconds: float) -> list[Load]:
    """One client and eight, hybrid, in each way in which the engine can be shared."""
    if not seconds:
        return []
    print(f"{name}: {CLIENTS} clients", flush=True)
    tasks = [
        Task("hybrid", range(corpus.query_count), clients, kind, seconds)
        for kind in engine_class(name).client_kinds
        for clients in (1, CLIENTS)
    ]
    return [under_load(name, folder, corpus, task) for task in tasks]


def ask_in_turns(children: dict[str, Child], mode: Mode, count: int, seconds: float) -> dict[str, list[Answer]]:
    """Warm up with queries of their own, then let the engines take turns in blocks; who is out of time drops out."""
    for child in children.values():
        child.run(mode, range(count, count + WARM_UP))
    answers: dict[str, list[Answer]] = {name: [] for name in children}
    for turn, begin in enumerate(range(0, count, BLOCK)):
        for name in rotated(list(children), turn):
            if sum(answer.seconds for answer in answers[name]) < seconds:
                answers[name] += children[name].run(mode, range(begin, min(begin + BLOCK, count)))
    print(f"{mode}: {', '.join(f'{name} {len(found)}' for name, found in answers.items())} queries done", flush=True)
    return answers


def rotated(names: list[str], turn: int) -> list[str]:
    """Let another engine begin in every turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


if __name__ == "__main__":
    main()

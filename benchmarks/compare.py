"""Compare the speed of hybrid search in Fourfold with that of its peers, on the same data in one run.

    python benchmarks/compare.py --items 100000 --peers sqlite,lancedb --json result.json

Every engine is built and then asked in a process of its own. The engines take turns in blocks of queries, so that
noise of the machine hits all of them alike. All use the same candidate depth and return the whole ten best items.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from corpus import WARM_UP, Corpus, exact_neighbours, prepare_corpus, recall_of
from engine import MODES, TOP, Mode
from report import Result, as_json, as_markdown, figures_of
from worker import ENGINES, Answer, Built, Child, build_engine, engine_class, missing_packages

BLOCK = 40
OURS = "fourfold"
PEERS = ["sqlite", "lancedb"]
CACHE = Path(tempfile.gettempdir()) / "fourfold-bench"


def main() -> None:
    """Run the whole comparison and print its table."""
    options = read_options()
    corpus = prepare_corpus(options.cache, options.items, options.queries)
    describe(corpus)
    names = installed([OURS, *options.peers])
    folders = {name: options.cache / f"{name}-{corpus.fingerprint}" for name in names}
    built = {name: build(name, folders[name], corpus, options.reuse and name != OURS) for name in names}
    results = measure(folders, corpus, built)
    if options.json:
        options.json.write_text(as_json(corpus, results), encoding="utf-8")
    print(as_markdown(results))


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000, help="how many items to store")
    parser.add_argument("--queries", type=int, default=500, help="how many distinct queries to ask")
    parser.add_argument("--peers", type=peer_names, default=PEERS, help="of: sqlite, sqlite-stop, lancedb")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--cache", type=Path, default=CACHE, help="data folder")
    parser.add_argument("--reuse", action="store_true", help="keep the peers that an earlier run has built")
    return parser.parse_args()


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


def installed(names: list[str]) -> list[str]:
    """Return the engines that can run here; say which cannot."""
    usable = []
    for name in names:
        if missing := missing_packages(name):
            print(f"{name}: skipped, not installed: {', '.join(missing)}", flush=True)
        else:
            usable.append(name)
    return usable


def build(name: str, folder: Path, corpus: Corpus, reuse: bool) -> Built:
    """Build an engine anew, or take what an earlier run has built."""
    note = folder.with_suffix(".json")
    if reuse and note.exists():
        return Built(**json.loads(note.read_text(encoding="utf-8")))
    note.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    built = build_engine(name, folder, corpus)
    note.write_text(json.dumps(asdict(built)), encoding="utf-8")
    print(f"{name}: built in {built.seconds:.1f} s, {built.megabytes:.0f} MB; {built.settings}", flush=True)
    return built


def measure(folders: dict[str, Path], corpus: Corpus, built: dict[str, Built]) -> list[Result]:
    """Ask all engines all queries in every mode."""
    children = {name: Child(name, folder, corpus) for name, folder in folders.items()}
    answers = {mode: ask_in_turns(children, mode, corpus.query_count) for mode in MODES}
    truth = exact_neighbours(corpus.vectors(), corpus.query_vectors()[: corpus.query_count], TOP)
    results = []
    for name, child in children.items():
        figures = {mode: figures_of(answers[mode][name]) for mode in MODES}
        recall = recall_of([answer.keys for answer in answers["vector"][name]], truth)
        results.append(Result(name, engine_class(name).label, built[name], child.stop(), recall, figures))
    return results


def ask_in_turns(children: dict[str, Child], mode: Mode, count: int) -> dict[str, list[Answer]]:
    """Warm up with queries of their own, then let the engines take turns in blocks."""
    for child in children.values():
        child.run(mode, range(count, count + WARM_UP))
    answers: dict[str, list[Answer]] = {name: [] for name in children}
    for turn, begin in enumerate(range(0, count, BLOCK)):
        for name in rotated(list(children), turn):
            answers[name] += children[name].run(mode, range(begin, min(begin + BLOCK, count)))
    print(f"{mode}: {count} queries done", flush=True)
    return answers


def rotated(names: list[str], turn: int) -> list[str]:
    """Let another engine begin in every turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


if __name__ == "__main__":
    main()

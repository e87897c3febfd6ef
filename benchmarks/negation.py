"""How often a search returns what the query rules out, with and without reading negations.

    python benchmarks/negation.py [--cache DIR]

benchmarks/constraints has 100 short texts and 60 queries such as "restaurants without fish" and "Hotel, aber nicht in
Berlin", half of them German. Each topic has three wanted texts and two that are about what the query rules out. By
chance two of five results are unwanted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from unittest.mock import patch

from fourfold import Settings
from fourfold.engine import search
from fourfold.evaluation.bench import Answer, Bench, Variant, open_bench
from fourfold.evaluation.collection import read_collection
from fourfold.evaluation.metrics import measure
from fourfold.text.negation import Negated

FOLDER = Path(__file__).parent / "constraints"
VARIANTS = (
    Variant("semantic", {"only": ["semantic"]}),
    Variant("keyword", {"only": ["keyword"]}),
    Variant("auto"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    unwanted = read_unwanted()
    print("| | nDCG@10 | unwanted first | unwanted in the first three |\n|---|--:|--:|--:|")
    with open_bench(read_collection(FOLDER), Settings(), options.cache) as opened:
        opened.fill()
        for variant in VARIANTS:
            with patch.object(search, "negated_phrases", no_phrases):
                print(row(f"{variant.name}, every word counts", opened, variant, unwanted), flush=True)
            print(row(f"{variant.name}, negations are read", opened, variant, unwanted), flush=True)


def no_phrases(_: str) -> tuple[Negated, ...]:
    """As if a query had no negation."""
    return ()


def read_unwanted() -> dict[str, set[str]]:
    """By question, the texts that it rules out."""
    lines = (FOLDER / "queries.jsonl").read_text("utf-8").splitlines()
    return {question["_id"]: set(question["metadata"]["unwanted"]) for question in map(json.loads, lines)}


def row(name: str, opened: Bench, variant: Variant, unwanted: dict[str, set[str]]) -> str:
    run = measure(opened, variant)
    first, three = (share(run.answers, unwanted, count) for count in (1, 3))
    return f"| {name} | {run.mean():.3f} | {first:.0%} | {three:.0%} |"


def share(answers: Sequence[Answer], unwanted: dict[str, set[str]], count: int) -> float:
    return mean(len(unwanted[each.question.id].intersection(each.keys[:count])) / count for each in answers)


if __name__ == "__main__":
    main()

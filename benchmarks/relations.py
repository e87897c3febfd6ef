"""Measure what stored relations add: questions for a relation, and how many first places random links and notes cost.

    python benchmarks/relations.py [--data FOLDER] [--links N] [--misses] [NAME ...]

Questions are those of relations.tsv about the demo, by the number of steps and by language. The random links connect
nodes of the demo, and speakers of lihua-world (in FOLDER), by relations of the demo; all are added at once. The notes
have the names of these speakers as titles and answer nothing.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from quality import DEMO, ROOT, collection

from fourfold import NewItem, Settings
from fourfold.evaluation.bench import Bench, open_bench
from fourfold.evaluation.collection import Collection
from fourfold.memory import Memory

QUESTIONS = Path(__file__).with_name("relations.tsv")
PRESETS = ("auto", "insights")
SEED = 35
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
_SPEAKER = re.compile(r"^(\w[\w ]{1,30}): ", re.MULTILINE)


@dataclass(frozen=True)
class Asked:
    steps: str
    language: str
    text: str
    titles: frozenset[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    parser.add_argument("--links", type=int, default=200, help="the number of random links")
    parser.add_argument("--misses", action="store_true", help="show the questions that are not answered first")
    parser.add_argument("names", nargs="*", default=[DEMO, "lihua-world"], metavar="NAME")
    options = parser.parse_args()
    with collection(options.data, DEMO) as demo:
        relations = sorted({relation for _, relation, *_ in demo.edges})
    for name in options.names:
        with collection(options.data, name) as found, open_bench(found, Settings()) as bench:
            bench.fill()
            if name == DEMO:
                print_questions(bench.memory, misses=options.misses)
            print_links(bench, found, relations, options.links)
            if name != DEMO:
                print_notes(found)


# ---------------------------------------------------------------- questions for relations


def questions() -> list[Asked]:
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        read = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Asked(steps, language, text, frozenset(titles.split("|"))) for steps, language, text, titles in read]


def print_questions(memory: Memory, *, misses: bool) -> None:
    rows = questions()
    print("| preset | questions | n | answer first | MRR |\n|---|---|--:|--:|--:|")
    for preset in PRESETS:
        ranks = {row: rank(memory, row, preset) for row in rows}
        groups = {"all": rows, **grouped(rows, "steps"), **grouped(rows, "language")}
        for group, members in groups.items():
            found = [ranks[row] for row in members]
            print(f"| {preset} | {group} | {len(found)} | {mean(r == 1 for r in found):.2f} | {mrr(found):.3f} |")
        for row in rows if misses else ():
            if ranks[row] != 1:
                print(f"    {preset} {ranks[row]}: {row.text}")


def grouped(rows: Sequence[Asked], field: str) -> dict[str, list[Asked]]:
    names = sorted({getattr(row, field) for row in rows})
    return {f"{field} {name}": [row for row in rows if getattr(row, field) == name] for name in names}


def rank(memory: Memory, asked: Asked, preset: str) -> int:
    """The rank of the first answer; 0 if none is among the results."""
    response = memory.search(asked.text, preset=preset, top_k=20)
    titles = [result.item.title for result in response.results]
    return next((place for place, title in enumerate(titles, 1) if title in asked.titles), 0)


def mrr(ranks: Iterable[int]) -> float:
    return mean(1 / rank if rank else 0.0 for rank in ranks)


# ---------------------------------------------------------------- random links


def print_links(bench: Bench, found: Collection, relations: Sequence[str], count: int) -> None:
    choose = random.Random(SEED)
    names = connectable(bench.memory, found, choose)
    before = {preset: firsts(bench, found, preset) for preset in PRESETS}
    for _ in range(count):
        source, target = choose.sample(names, 2)
        bench.memory.add_edge(source, choose.choice(relations), target)
    for preset, known in before.items():
        now = firsts(bench, found, preset)
        lost, gained = len(known - now), len(now - known)
        print(f"{found.name}, {preset}: {len(known)} of {len(found.judgements)} first; lost {lost}, gained {gained}")


def print_notes(found: Collection) -> None:
    with open_bench(found, Settings()) as bench:
        bench.fill()
        before = {preset: firsts(bench, found, preset) for preset in PRESETS}
        for name in speakers(bench.memory):
            text = f"{name} is a friend. {name} writes in the group chat and lives in the same city."
            bench.memory.add(NewItem(text, title=name), wait=True)
        for preset, known in before.items():
            now = firsts(bench, found, preset)
            print(f"{found.name}, {preset}, notes about speakers: {len(known)} first, then {len(now)}")


def speakers(memory: Memory) -> dict[str, list[int]]:
    """Who says something, with the items."""
    said: dict[str, list[int]] = {}
    for item in memory.list(limit=1000):
        for name in sorted(set(_SPEAKER.findall(item.text))):
            said.setdefault(_HUMP.sub(" ", name), []).append(item.id)
    return said


def connectable(memory: Memory, found: Collection, choose: random.Random) -> list[str]:
    """The titles of the items; without titles the speakers, each as the name of a random item with its words."""
    if titles := sorted({item.title for item in found.items if item.title}):
        return titles
    said = speakers(memory)
    for name, items in said.items():
        memory.add_node(name, aliases=[name.split()[0]], item=choose.choice(items))
    return list(said)


def firsts(bench: Bench, found: Collection, preset: str) -> set[str]:
    """The questions whose first result is relevant."""
    answers = {question.id: bench.search(question, preset=preset) for question in found.questions}
    keys = {question: answer.results[0].key for question, answer in answers.items() if answer.results}
    return {question for question, key in keys.items() if found.judgements.get(question, {}).get(key or "", 0) > 0}


if __name__ == "__main__":
    main()

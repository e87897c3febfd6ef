"""What one typing error in each question costs, how much of it the correction of unknown words recovers, and its time.

    python benchmarks/typos.py --data DIR [--questions N] [--cache DIR] [NAME ...]

DIR has collections as folders or as NAME.tar.xz. Each question gets one error, chosen by its id: a letter of a word of
four or more letters is dropped, added, replaced or exchanged with its neighbour. Columns: nDCG@10 of the questions as
they are and with the error, without and with correction; the recovered share of the loss; processor time of a search
with an error (by words alone, so that the embedding of the query does not count).
"""

from __future__ import annotations

import argparse
import random
import re
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from quality import ROOT, collection, cut, names_in

from fourfold import Settings
from fourfold.evaluation.bench import Bench, Variant, open_bench
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.metrics import measure
from fourfold.index import text_index
from fourfold.text import keyword_query
from fourfold.text.compounds import Correction
from fourfold.text.language import stop_words

LETTERS = "abcdefghijklmnopqrstuvwxyz"
STOP_WORDS = stop_words("en") | stop_words("de")
WORD = re.compile(r"[^\W\d_]{4,}")
AUTO, KEYWORD = Variant("auto"), Variant("keyword", {"only": ["keyword"]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--questions", type=int)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    print("| `auto` (words) | as asked | with an error | corrected | recovered | change as asked | ms before | ms |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    with patch.object(text_index, "_CACHED_QUERIES", 0):  # both ways analyse every question
        for name in options.names or names_in(options.data):
            with collection(options.data, name) as found, open_bench(found, Settings(), options.cache) as bench:
                bench.fill()
                print(row(name, bench, cut(found, options.questions)), flush=True)


def row(name: str, bench: Bench, asked: Collection) -> str:
    wrong = with_errors(asked)
    with patch.object(keyword_query, "corrections", no_corrections):
        clean, lost = figures(bench, asked), figures(bench, wrong)
        before = milliseconds(bench, wrong)
    found, kept = figures(bench, wrong), figures(bench, asked)
    columns = [
        f"{clean[0]:.3f} ({clean[1]:.3f})",
        f"{lost[0]:.3f} ({lost[1]:.3f})",
        f"{found[0]:.3f} ({found[1]:.3f})",
        f"{share(clean[0], lost[0], found[0])} ({share(clean[1], lost[1], found[1])})",
        f"{kept[0] - clean[0]:+.4f} ({kept[1] - clean[1]:+.4f})",
        f"{before:.1f}",
        f"{milliseconds(bench, wrong):.1f}",
    ]
    return f"| {name} | {' | '.join(columns)} |"


def share(clean: float, lost: float, found: float) -> str:
    return f"{(found - lost) / (clean - lost):.0%}" if clean > lost else "no loss"


def figures(bench: Bench, asked: Collection) -> tuple[float, float]:
    """nDCG@10 of `auto` and of words alone."""
    bench.collection = asked
    return measure(bench, AUTO).mean(), measure(bench, KEYWORD).mean()


def milliseconds(bench: Bench, asked: Collection) -> float:
    bench.collection = asked
    started = time.process_time()
    bench.run(KEYWORD)
    return (time.process_time() - started) / len(asked.questions) * 1000


def no_corrections(*_: object) -> dict[str, Correction]:
    """As if no word had a neighbour."""
    return {}


def with_errors(found: Collection) -> Collection:
    questions = tuple(replace(each, text=misspelt(each.text, random.Random(each.id))) for each in found.questions)
    return replace(found, questions=questions)


def misspelt(text: str, chance: random.Random) -> str:
    spans = [word.span() for word in WORD.finditer(text) if word[0].lower() not in STOP_WORDS]
    if not spans:
        return text
    start, end = chance.choice(spans)
    kind, place, letter = chance.choice("dist"), chance.randrange(start, end), chance.choice(LETTERS)
    if kind == "d":
        return text[:place] + text[place + 1 :]
    if kind == "i":
        return text[:place] + letter + text[place:]
    if kind == "s":
        return text[:place] + letter + text[place + 1 :]
    place = min(place, end - 2)
    return text[:place] + text[place + 1] + text[place] + text[place + 2 :]


if __name__ == "__main__":
    main()

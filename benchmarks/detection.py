"""How often the language of short queries is recognised, so that the right encoder reads them.

    python benchmarks/detection.py [--data FOLDER]

Takes 500 questions of xquad-de and of xquad-en, cut to 2 to 5 words at a random place (seed 1).
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path

from quality import ROOT, collection

from fourfold.text.language import german_query

QUERIES = 500


def main() -> None:
    """Print one row per language."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    data = parser.parse_args().data
    print("| queries | right | uncertain: both encoders | wrong |\n|---|--:|--:|--:|")
    for language, is_german in (("German", True), ("English", False)):
        with collection(data, "xquad-de" if is_german else "xquad-en") as found:
            chance = random.Random(1)
            queries = [shortened(question.text, chance) for question in found.questions[:QUERIES]]
        told = Counter(german_query(query) for query in queries)
        print(f"| {len(queries)} {language} | {told[is_german]} | {told[None]} | {told[not is_german]} |")


def shortened(question: str, chance: random.Random) -> str:
    """A few adjacent words."""
    words = question.split()
    count = chance.randint(2, 5)
    start = chance.randint(0, max(0, len(words) - count))
    return " ".join(words[start : start + count])


if __name__ == "__main__":
    main()

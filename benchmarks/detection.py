"""How often the language of short texts is recognised, which decides their stems and stop words.

    python benchmarks/detection.py [--data FOLDER]

Judges the notes and queries of tests/unit/text/short_texts.tsv, and 500 questions of some collections, cut to 2 to 5
words at a random place (seed 1).
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from pathlib import Path

from quality import ROOT, collection

from fourfold.text.language import detect

QUESTIONS = 500
COLLECTIONS = {"xquad-en": "en", "xquad-de": "de", "xquad-es": "es", "xquad-ru": "ru", "piaf-fr": "fr"}


def main() -> None:
    """Print one row per language."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    data = parser.parse_args().data
    texts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in (ROOT / "tests/unit/text/short_texts.tsv").read_text(encoding="utf-8").splitlines():
        language, text = line.split("\t")
        texts["notes and queries", language].append(text)
    for name, language in COLLECTIONS.items():
        chance = random.Random(1)
        with collection(data, name) as found:
            texts[name, language] = [shortened(question.text, chance) for question in found.questions[:QUESTIONS]]
    print("| texts | language | right | of |\n|---|---|--:|--:|")
    for (source, language), own in texts.items():
        print(f"| {source} | {language} | {sum(detect(text) == language for text in own)} | {len(own)} |")


def shortened(question: str, chance: random.Random) -> str:
    """A few adjacent words."""
    words = question.split()
    count = chance.randint(2, 5)
    start = chance.randint(0, max(0, len(words) - count))
    return " ".join(words[start : start + count])


if __name__ == "__main__":
    main()

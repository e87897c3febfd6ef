"""Search in source code: each retriever, and `auto` with and without the weight that code gives to vectors.

    python benchmarks/code_search.py [--questions N] [--items N] [--cache DIR]

The collection is made from the standard library of the running Python: its functions without their docstrings are the
items, and the first paragraphs of some docstrings are the questions. The weight was
chosen after seeing this collection and cosqa-valid, so neither is an untouched check of it.
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest.mock import patch

from fourfold import NewItem, Settings
from fourfold.evaluation.bench import Variant, open_bench
from fourfold.evaluation.collection import Collection, Question
from fourfold.evaluation.metrics import compared, measure
from fourfold.ranking import fusion

PACKAGES = (
    ".",
    "asyncio",
    "collections",
    "email",
    "http",
    "importlib",
    "json",
    "logging",
    "unittest",
    "urllib",
    "xml/etree",
)
LINES = range(3, 41)
QUESTION_WORDS = range(4, 21)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--items", type=int, default=600)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    found = made(options.items, options.questions)
    with open_bench(found, Settings(), options.cache) as bench:
        bench.fill()
        semantic = measure(bench, Variant("semantic", {"only": ["semantic"]}))
        keyword = measure(bench, Variant("keyword", {"only": ["keyword"]}))
        with patch.object(fusion, "TEXT_ODDS", fusion.TextOdds(code=0.0)):
            before = measure(bench, Variant("auto"))
        now = measure(bench, Variant("auto"))
    print(f"{len(found.items)} functions, {len(found.questions)} questions, nDCG@10")
    print(f"semantic {semantic.mean():.3f}, keyword {keyword.mean():.3f}")
    print(f"auto without the weight {before.mean():.3f}, with it {now.mean():.3f}")
    print(f"auto compared with semantic: {compared(semantic.column(), now.column()).form()}")


def made(items: int, questions: int) -> Collection:
    """Functions and questions, always the same ones for one version of Python."""
    listed = [*functions()]
    Random(8).shuffle(listed)
    asked = [place for place, (_, doc) in enumerate(listed) if doc][:questions]
    others = [place for place in range(len(listed)) if place not in set(asked)][: max(0, items - len(asked))]
    return Collection(
        name="standard-library",
        items=tuple(NewItem(listed[place][0], key=f"f{place}") for place in (*asked, *others)),
        questions=tuple(Question(f"q{place}", listed[place][1]) for place in asked),
        judgements={f"q{place}": {f"f{place}": 1} for place in asked},
    )


def functions() -> Iterator[tuple[str, str]]:
    """Each function without its docstring, and the first paragraph of that if it is a question in prose."""
    root, seen = Path(sysconfig.get_path("stdlib")), set[str]()
    for file in (file for package in PACKAGES for file in sorted((root / package).glob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            doc = ast.get_docstring(node) or ""
            node.body = node.body[1:] if doc else node.body
            text = ast.unparse(node) if node.body else ""
            if text and text not in seen and (node.end_lineno or 0) - node.lineno in LINES:
                seen.add(text)
                yield text, question(doc)


def question(doc: str) -> str:
    line = " ".join(doc.split("\n\n")[0].split())
    return line if len(line.split()) in QUESTION_WORDS and "(" not in line and "_" not in line else ""


if __name__ == "__main__":
    main()

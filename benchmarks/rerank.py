"""Fill the table of notes/quality-rerank.md: what the built-in reranker gains over `auto` on test collections.

    python benchmarks/rerank.py [--data FOLDER] [--questions N] [NAME ...]

Needs the extra `rerank`. Each question is searched once, with the model reading the results in any language; the other
variants follow from the lines of the scores. Scores of the model are cached. Figures of collections that are not named
stay as they were (benchmarks/rerank.json).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import apsw
from quality import DEMO, ROOT, collection, cut, interval, names_in

import fourfold.rerank
from fourfold import Settings
from fourfold.evaluation.bench import Bench, cache_folder, open_bench
from fourfold.evaluation.collection import Collection, Question
from fourfold.evaluation.metrics import compared, scores
from fourfold.ranking.connections import names_something
from fourfold.ranking.fusion import RERANK, RERANK_SHARE
from fourfold.ranking.questions import is_question
from fourfold.rerank import LANGUAGES, MODEL_SHA256, Budget, Reranker, model_file
from fourfold.retrieval import Ranking
from fourfold.text.language import detect

PAGE = ROOT / "notes" / "quality-rerank.md"
RESULTS = ROOT / "benchmarks" / "rerank.json"
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
DEPTHS = (5, 10, 20)
METRIC = "ndcg@10"


@dataclass(frozen=True, slots=True)
class Read:
    """One result: its score without the model, and the model's own score, if it was read."""

    key: str
    fused: float
    raw: float | None
    language: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and its results, in the order of `auto`."""

    question: Question
    results: Sequence[Read]
    relevant: Mapping[str, int]
    names: bool
    """Whether the question names something that the graph knows."""

    @property
    def for_auto(self) -> bool:
        """Whether `rerank: auto` lets the model read the results."""
        return not self.names and is_question(self.question.text) and detect(self.question.text) in LANGUAGES

    def value(self, share: float, depth: int, languages: frozenset[str] | None = None) -> float:
        """nDCG@10 if the model reads the first `depth` results that are in these languages."""
        known = [each for each in self.results[:depth] if languages is None or each.language in languages]
        raws = [each.raw for each in known if each.raw is not None]
        best = max((each.fused for each in self.results), default=0.0)
        bonus = {
            each.key: share * best / (1 + sum(other > each.raw for other in raws))
            for each in known
            if each.raw is not None and len(raws) > 1
        }
        order = sorted(self.results, key=lambda each: -(each.fused + bonus.get(each.key, 0.0)))  # stable
        return scores(self.relevant, [each.key for each in order])[METRIC]


class CachedReranker:
    """A reranker with a cache file of its scores."""

    def __init__(self, model: Reranker, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.languages = model.languages
        self._model = model
        self._db = apsw.Connection(str(folder / "rerank.db"))
        self._db.set_busy_timeout(60_000)
        self._db.execute("CREATE TABLE IF NOT EXISTS scores (hash BLOB PRIMARY KEY, score REAL NOT NULL) WITHOUT ROWID")

    def load(self) -> None:
        """Later, if a score is missing."""

    def scores(self, query: str, texts: Sequence[str], budget: Budget) -> Iterator[float]:
        """From the cache, or by the model."""
        for text in texts:
            key = hashlib.sha256(f"{MODEL_SHA256[:16]}\0{query}\0{text}".encode("utf-8", "surrogatepass")).digest()
            known = self._db.execute("SELECT score FROM scores WHERE hash = ?", (key,)).fetchone()
            if known is None:
                known = (next(iter(self._model.scores(query, [text], budget))),)
                self._db.execute("INSERT OR REPLACE INTO scores VALUES (?, ?)", (key, *known))
            yield known[0]

    def close(self) -> None:
        """Close the file."""
        self._db.close()
        self._model.close()


def main() -> None:
    """Measure, keep the figures, write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    parser.add_argument("--questions", type=int, default=100, help="of each collection, always the same ones")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where vectors and scores are kept")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    made = fourfold.rerank.create
    fourfold.rerank.create = lambda name, settings: CachedReranker(made(name, settings), options.cache)
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for name in options.names or names_in(options.data):
        with collection(options.data, name) as found:
            results[name] = figures(asked_of(cut(found, options.questions), options.cache))
        print(f"{name}: {row(name, results[name])}", end="", flush=True)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write_page(results)


def asked_of(found: Collection, cache: Path) -> list[Asked]:
    """Every question, searched with the model."""
    with open_bench(found, Settings(rerank_seconds=3600.0), cache) as bench:
        bench.fill()
        return [asked(bench, question) for question in found.questions if question.id in found.judgements]


def asked(bench: Bench, question: Question) -> Asked:
    """One question; the model reads results in any language."""
    response = bench.search(question, rerank=f"onnx:{model_file().parent}", candidates=True)
    assert not response.degraded, response.degraded
    assert response.candidates is not None
    named = response.candidates.lists.get("graph", Ranking()).evidence
    results = [
        Read(
            key=str(result.key),
            fused=math.fsum(line.value for line in result.contributions if line.source != RERANK),
            raw=next((line.raw for line in result.contributions if line.source == RERANK), None),
            language=result.item.language,
        )
        for result in response.results
    ]
    results.sort(key=lambda each: -each.fused)
    return Asked(question, results, bench.collection.judgements[question.id], names_something(named))


def figures(questions: Sequence[Asked]) -> dict[str, Any]:
    """nDCG@10 without the model, with it for every question, and with `rerank: auto`; gains of shares and depths."""
    plain = {each.question.id: each.value(0.0, 0) for each in questions}

    def column(share: float, depth: int, *, auto: bool) -> dict[str, float]:
        return {
            each.question.id: plain[each.question.id]
            if auto and not each.for_auto
            else each.value(share, depth, LANGUAGES if auto else None)
            for each in questions
        }

    def gain(share: float, depth: int) -> float:
        return mean(column(share, depth, auto=True).values()) - mean(plain.values())

    return {
        "questions": len(questions),
        "asked": sum(each.for_auto for each in questions),
        "every": compared(plain, column(RERANK_SHARE, DEPTHS[-1], auto=False)).form(),
        "auto": compared(plain, column(RERANK_SHARE, DEPTHS[-1], auto=True)).form(),
        "shares": {f"{share:g}": gain(share, DEPTHS[-1]) for share in SHARES},
        "depths": {str(depth): gain(RERANK_SHARE, depth) for depth in DEPTHS},
    }


# ---------------------------------------------------------------- the page


def write_page(results: Mapping[str, Any]) -> None:
    """Put the table between the marks of notes/quality-rerank.md."""
    text = PAGE.read_text("utf-8")
    pattern = r"(<!-- gain -->\n).*?(<!-- end -->)"
    text = re.sub(pattern, lambda found: f"{found[1]}{gain_table(results)}{found[2]}", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


def gain_table(results: Mapping[str, Any]) -> str:
    """A row for each collection, and the mean without the demo."""
    titles = ("nDCG@10", "questions", "`off`", "every query, any language", "read by `auto`", "`auto`")
    head = f"| {' | '.join(titles)} |\n|---|{'--:|' * (len(titles) - 1)}\n"
    names = sorted(results, key=lambda name: (name != DEMO, name))
    others = [results[name] for name in names if name != DEMO] or [*results.values()]
    every, auto = (mean(found[key]["difference"] for found in others) for key in ("every", "auto"))
    return (
        head + "".join(row(name, results[name]) for name in names) + f"| *mean* | | | {every:+.3f} | | {auto:+.3f} |\n"
    )


def row(name: str, found: Mapping[str, Any]) -> str:
    """One collection."""
    plain, share = found["auto"]["old"], found["asked"] / found["questions"]
    gains = interval(found["every"]), interval(found["auto"])
    return f"| {name} | {found['questions']} | {plain:.3f} | {gains[0]} | {share:.0%} | {gains[1]} |\n"


if __name__ == "__main__":
    main()

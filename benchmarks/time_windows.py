"""Time windows on dated chats: nDCG@10 of questions that name a time, with `time` off, filter and boost.

    python benchmarks/time_windows.py [--data FOLDER]

FOLDER holds realmem and lihua-world (as in benchmarks/quality.py). Items get the date of their metadata, questions of
realmem are asked on their own date, those of lihua-world on the last day of the chats.
"""

from __future__ import annotations

import argparse
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import mean
from typing import Any

from quality import ROOT, collection

from fourfold import Settings
from fourfold.engine.present import ResultOptions
from fourfold.engine.scope import window_of
from fourfold.evaluation.bench import Bench, _earlier, open_bench
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.metrics import MAIN, scores
from fourfold.model import NO_FILTERS
from fourfold.ranking.factors import TIME_MODES
from fourfold.ranking.plan import PlanRequest

NAMES = ("lihua-world", "realmem")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)")
_NAMED_DATE = re.compile(r"\d|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    question: Any
    now: datetime
    words: str
    applied: bool


def main() -> None:
    """Print a line for each collection and group of questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--show", action="store_true", help="print the questions that name a time")
    options = parser.parse_args()
    print(f"{'collection':12} {'questions':34} {'n':>4} " + " ".join(f"{mode:>7}" for mode in TIME_MODES))
    for name in NAMES:
        with collection(options.data, name) as found:
            report(name, found, options)


def report(name: str, found: Collection, options: argparse.Namespace) -> None:
    """Measure one collection."""
    dated = replace(found, items=tuple(replace(item, created_at=noon(item.metadata["date"])) for item in found.items))
    asked = list(with_times(dated, question_dates(options.data, name)))
    if options.show:
        for one in asked:
            print(one.applied, one.now.date(), one.words, "|", one.question.text[:150].replace("\n", " "))
    with open_bench(dated, Settings(), options.cache) as bench:
        bench.fill()
        measured = {mode: [score(bench, one, mode) for one in asked] for mode in TIME_MODES}
    groups = {
        "that name a time": [True] * len(asked),
        "to which the window is applied": [one.applied for one in asked],
        "applied, with a date or month": [one.applied and bool(_NAMED_DATE.search(one.words)) for one in asked],
    }
    for group, members in groups.items():
        kept = [index for index, member in enumerate(members) if member]
        if kept:
            figures = " ".join(f"{mean(measured[mode][index] for index in kept):7.3f}" for mode in TIME_MODES)
            print(f"{name:12} {group:34} {len(kept):4} {figures}", flush=True)


def with_times(found: Collection, dates: Mapping[str, datetime]) -> Iterator[Asked]:
    """The questions that name a time, with the moment in which they are asked."""
    last = max(noon(item.metadata["date"]) for item in found.items) + timedelta(hours=6)
    for question in found.questions:
        now = dates.get(question.id, last)
        window = window_of(question.text, "boost", now, "UTC")
        if window is not None and question.id in found.judgements:
            yield Asked(question, now, window.words, window.applied is not None)


def question_dates(data: Path, name: str) -> dict[str, datetime]:
    """From queries.jsonl, whose metadata a Collection does not keep."""
    if (data / name).is_dir():
        text = (data / name / "queries.jsonl").read_text("utf-8")
    else:
        with tarfile.open(data / f"{name}.tar.xz") as archive:
            file = archive.extractfile(f"{name}/queries.jsonl")
            assert file is not None
            text = file.read().decode()
    rows = [json.loads(line) for line in text.splitlines()]
    return {row["_id"]: noon(row["metadata"]["date"]) for row in rows if "date" in row["metadata"]}


def noon(text: str) -> datetime:
    """The middle of a day."""
    match = _DATE.search(text)
    assert match is not None
    return datetime.fromisoformat(match[1]).replace(hour=12, tzinfo=UTC)


def score(bench: Bench, one: Asked, mode: Any) -> float:
    """The nDCG@10 of one question, asked at its moment."""
    memory = bench._memory
    space = bench._spaces.get(one.question.scope, "default")
    filters = _earlier(one.question) or NO_FILTERS
    request = PlanRequest(one.question.text, "auto", top_k=10)
    answer = memory._search.answer(space, request, ResultOptions(time=mode), None, filters, one.now)
    keys = [str(result.key) for result in answer.results]
    return scores(bench.collection.judgements[one.question.id], keys)[MAIN]


if __name__ == "__main__":
    main()

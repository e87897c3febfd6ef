"""Metrics of every question, through ranx (the extra `eval`).

ranx has numba compile its functions, anew for each shape of its arguments: minutes of processor time in all, for what
plain Python does in a millisecond a question. So it runs uncompiled here, unless somebody has loaded it before.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from fourfold.errors import MissingExtra
from fourfold.evaluation.bench import Answer
from fourfold.evaluation.collection import Judgements

Scores = Mapping[str, float]
"""By metric."""

MAIN: Final = "ndcg@10"
METRICS: Final = (MAIN, "recall@10", "recall@100", "hit@10", "mrr", "all_relevant@10")
_OF_RANX: Final = {
    MAIN: MAIN,
    "recall@10": "recall@10",
    "recall@100": "recall@100",
    "hit@10": "hit_rate@10",
    "mrr": "mrr",
}
_REMEDY: Final = "pip install 'fourfold[eval]'"
_NOTHING: Final = {"": 0.0}
"""ranx takes no empty list."""

_compiled: bool | None = None
"""Whether somebody loaded ranx before us; None: not asked yet."""


def measured(judgements: Judgements, answers: Iterable[Answer]) -> dict[str, Scores]:
    """Every metric of every question that has a relevant item."""
    runs = {answer.question.id: _ranked(answer.keys) for answer in answers if answer.question.id in judgements}
    if not runs:
        return {}
    wanted = {question: dict(judgements[question]) for question in runs}
    columns = _evaluated(wanted, runs)
    rows = {question: {name: float(columns[of][question]) for name, of in _OF_RANX.items()} for question in runs}
    return {question: {**row, "all_relevant@10": float(row["recall@10"] == 1.0)} for question, row in rows.items()}


def _ranked(keys: Iterable[str]) -> dict[str, float]:
    """Scores that give the engine's order back: ranx sorts by score, and equal ones would lose it."""
    return {key: -float(place) for place, key in enumerate(keys)} or _NOTHING


def _evaluated(judgements: dict[str, dict[str, int]], runs: dict[str, dict[str, float]]) -> Mapping[str, Any]:
    """By metric of ranx and question."""
    with _uncompiled(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba comments on how ranx casts numbers
        ranx = _imported("ranx")
        run = ranx.Run(runs)
        ranx.evaluate(ranx.Qrels(judgements), run, list(_OF_RANX.values()))
    return run.scores


@contextmanager
def _uncompiled() -> Generator[None]:
    global _compiled
    if _compiled is None:
        _compiled = "ranx" in sys.modules
    settings = _imported("numba").config
    before = settings.DISABLE_JIT
    settings.DISABLE_JIT = before or not _compiled
    try:
        yield
    finally:
        settings.DISABLE_JIT = before


def _imported(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(f"evaluation needs {name} ({error})", _REMEDY) from error


def check_extra() -> None:
    """Before a long run: whether its end can be computed."""
    if find_spec("ranx") is None:
        raise MissingExtra("evaluation needs ranx", _REMEDY)


def means(rows: Iterable[Scores]) -> dict[str, float]:
    listed = list(rows)
    return {name: sum(row[name] for row in listed) / len(listed) for name in METRICS} if listed else {}


def separation(answers: Iterable[Answer]) -> float | None:
    """How well `confidence` tells what can be answered from what cannot (AUC); None without both kinds."""
    listed = list(answers)
    sure = [answer.confidence for answer in listed if not answer.question.unanswerable]
    vain = [answer.confidence for answer in listed if answer.question.unanswerable]
    if not sure or not vain:
        return None
    return sum((yes > no) + (yes == no) / 2 for yes in sure for no in vain) / (len(sure) * len(vain))

"""The figures of a comparison, as one Markdown table and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from corpus import Corpus
from engine import DEPTH, MODES, TOP, Mode
from worker import Answer, Built, Resident, engine_class


@dataclass(frozen=True, slots=True)
class Figures:
    """Percentiles of the time a query took, and the median of its processor time, all in milliseconds.

    The processor time counts all threads; unlike the time by the clock it hardly depends on other load of the machine.
    """

    p50: float
    p95: float
    p99: float
    processor_p50: float


@dataclass(frozen=True, slots=True)
class Result:
    """All that was measured of one engine."""

    name: str
    label: str
    built: Built
    resident: Resident
    recall: float
    figures: dict[Mode, Figures]


def figures_of(answers: list[Answer]) -> Figures:
    """Summarise the times of one engine in one mode."""
    p50, p95, p99 = np.percentile([answer.seconds for answer in answers], [50, 95, 99]) * 1000
    processor_p50 = np.median([answer.processor_seconds for answer in answers]) * 1000
    return Figures(float(p50), float(p95), float(p99), float(processor_p50))


def as_markdown(results: list[Result]) -> str:
    """Lay the figures out as a table with one column for each engine."""
    ours = next((result for result in results if result.name == "fourfold"), None)
    lines = [row("", [result.label for result in results]), row("---", ["---:"] * len(results))]
    lines += [row(title, [text(result) for result in results]) for title, text in cost_rows()]
    lines += [line for mode in MODES for line in speed_lines(mode, results, ours)]
    return "\n".join(lines)


def speed_lines(mode: Mode, results: list[Result], ours: Result | None) -> list[str]:
    """Write the lines about the speed of one kind of search."""
    figures = [result.figures[mode] for result in results]
    return [
        row(f"{mode} p50 / p95 / p99, ms", [times(figure) for figure in figures]),
        row(f"{mode} processor time p50, ms", [f"{figure.processor_p50:.2f}" for figure in figures]),
        row(f"{mode} p50 / p95, times Fourfold's", [ratio(result, ours, mode) for result in results]),
    ]


def row(title: str, cells: list[str]) -> str:
    """Write one line of the table."""
    return "| " + " | ".join([title, *cells]) + " |"


def cost_rows() -> list[tuple[str, Callable[[Result], str]]]:
    """Return the title and the text of the rows about cost and quality."""
    return [
        ("build, s", lambda result: f"{result.built.seconds:.1f}"),
        ("disk, MB", lambda result: f"{result.built.megabytes:.0f}"),
        ("memory RssAnon / RssFile, MB", lambda result: memory(result.resident)),
        (f"vector recall@{TOP}", lambda result: f"{result.recall:.3f}"),
    ]


def memory(resident: Resident) -> str:
    """Write both kinds of memory."""
    return f"{resident.anonymous:.0f} / {resident.files:.0f}"


def times(figures: Figures) -> str:
    """Write three percentiles."""
    return f"{figures.p50:.2f} / {figures.p95:.2f} / {figures.p99:.2f}"


def ratio(result: Result, ours: Result | None, mode: Mode) -> str:
    """Write how many times as long as Fourfold an engine takes."""
    if ours is None:
        return "–"
    mine, base = result.figures[mode], ours.figures[mode]
    return f"{mine.p50 / base.p50:.2f} / {mine.p95 / base.p95:.2f}"


def as_json(corpus: Corpus, results: list[Result]) -> str:
    """Return everything, with the machine and the versions, as JSON."""
    about = {
        "items": corpus.item_count,
        "queries": corpus.query_count,
        "recombined": corpus.recombined,
        "fingerprint": corpus.fingerprint,
        "depth": DEPTH,
        "top": TOP,
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()},
        "versions": versions(results),
        "results": [asdict(result) for result in results],
    }
    return json.dumps(about, indent=2) + "\n"


def versions(results: list[Result]) -> dict[str, str]:
    """Return the versions of all packages that were compared."""
    names = sorted({package for result in results for package in engine_class(result.name).packages})
    return {name: installed_version(name) for name in names}


def installed_version(name: str) -> str:
    """Return a package's version, or a word for one that runs from its sources."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "from source"

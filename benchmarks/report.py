"""The figures of a comparison, as Markdown tables, as bars that they have to clear, as plots, and as JSON."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from corpus import Corpus
from engine import DEPTH, MODES, TOP, Answer, Built, Load, Mode, Resident, engine_class


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure that must be at most the bar, or at least."""

    what: str
    measured: float
    bar: float
    least: bool = False
    note: str = ""

    @property
    def cleared(self) -> bool:
        """Whether the figure is on the right side."""
        return self.measured >= self.bar if self.least else self.measured <= self.bar


def bars_table(bars: Iterable[Bar]) -> str:
    """Lay the figures out with one line each."""
    return "\n".join(["| what | measured | bar | | how |", "|---|--:|--:|---|---|", *map(line, bars)])


def line(bar: Bar) -> str:
    """One line of the table."""
    sign = "≥" if bar.least else "≤"
    verdict = "yes" if bar.cleared else "**no**"
    return f"| {bar.what} | {shown(bar.measured)} | {sign} {bar.bar:g} | {verdict} | {bar.note} |"


def shown(figure: float) -> str:
    """Three digits of a figure."""
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


Written: TypeAlias = dict[str, Any]

PANELS = (
    ("hybrid p50, ms", lambda result: result["figures"]["hybrid"]["p50"]),
    ("hybrid p95, ms", lambda result: result["figures"]["hybrid"]["p95"]),
    ("keyword p95, ms", lambda result: result["figures"]["keyword"]["p95"]),
    ("vector p95, ms", lambda result: result["figures"]["vector"]["p95"]),
    ("build, s", lambda result: result["built"]["seconds"]),
    ("memory of its own, MB", lambda result: result["resident"]["anonymous"]),
)
TENFOLD_P95 = 4.0
OURS = "fourfold"


def items_of(run: Written) -> int:
    """How many items a run had."""
    count: int = run["items"]
    return count


def growth_table(runs: Sequence[Written]) -> str:
    """One line for each engine and figure, one column for each size."""
    lines = ["| | " + " | ".join(f"{items_of(run):,}" for run in runs) + " |", "|---|" + "--:|" * len(runs)]
    for label, points in lines_of(runs).items():
        for title, pick in PANELS:
            cells = [f"{pick(points[items_of(run)]):.1f}" if items_of(run) in points else "–" for run in runs]
            lines.append(f"| {label}: {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def lines_of(runs: Sequence[Written]) -> dict[str, dict[int, Any]]:
    """Each engine's result by the number of items."""
    found: dict[str, dict[int, Any]] = {}
    for run in runs:
        for result in run["results"]:
            found.setdefault(result["label"], {})[items_of(run)] = result
    return found


def growth_bars(runs: Sequence[Written]) -> list[Bar]:
    """What ten times the items may cost."""
    ours = {items_of(run): result for run in runs for result in run["results"] if result["name"] == OURS}
    return [
        Bar(f"hybrid p95 at {count * 10:,} / at {count:,}", p95(ours[count * 10]) / p95(ours[count]), TENFOLD_P95)
        for count in sorted(ours)
        if count * 10 in ours
    ]


def p95(result: Any) -> float:
    """Of hybrid search."""
    figure: float = result["figures"]["hybrid"]["p95"]
    return figure


def plot(runs: Sequence[Written], path: Path) -> None:
    """Draw one panel a figure, one line an engine, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    for axis, (title, pick) in zip(axes.flat, PANELS, strict=True):
        for label, points in lines_of(runs).items():
            counts = sorted(points)
            width = 2.5 if label.startswith("Fourfold") else 1.2
            axis.plot(counts, [pick(points[count]) for count in counts], marker="o", label=label, linewidth=width)
        axis.set(title=title, xscale="log", yscale="log", xlabel="items")
        axis.grid(visible=True, which="both", alpha=0.25)
    figure.legend(*axes.flat[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path)


ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "speed.json"
PAGE = ROOT / "docs" / "benchmarks.md"

PEER_BARS = (("sqlite", 10.0, 8.0), ("lancedb", 4.0, 2.0))
"""How many times as long as Fourfold a peer must take, at p50 and p95."""
PEER_BARS_FROM = 100_000
"""Items below which those bars mean nothing."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Percentiles of the time a query took, and the mean of its processor time, all in milliseconds.

    The processor time counts all threads; unlike the time by the clock it hardly depends on other load of the machine.
    """

    queries: int
    p50: float
    p95: float
    p99: float
    processor: float


@dataclass(frozen=True, slots=True)
class Throughput:
    """Several clients at once: what they got done, and how much of it the processors allow.

    `share`: queries a second, in parts of what all cores could do if a query cost what it costs a single client.
    """

    clients: int
    kind: str
    queries_a_second: float
    p95: float
    processor: float
    share: float


@dataclass(frozen=True, slots=True)
class Result:
    """All that was measured of one engine."""

    name: str
    label: str
    built: Built
    resident: Resident
    recall: float
    figures: dict[Mode, Figures]
    against: dict[Mode, tuple[float, float]]
    """How many times as long as Fourfold it takes, at p50 and p95, for the queries that both were asked."""
    throughput: list[Throughput] = field(default_factory=list[Throughput])


def figures_of(answers: list[Answer]) -> Figures:
    """Summarise the times of one engine in one mode."""
    p50, p95, p99 = np.percentile([answer.seconds for answer in answers], [50, 95, 99]) * 1000
    processor = np.mean([answer.processor_seconds for answer in answers]) * 1000
    return Figures(len(answers), float(p50), float(p95), float(p99), float(processor))


def ratios(mine: list[Answer], ours: list[Answer]) -> tuple[float, float]:
    """How many times as long as ours, at p50 and p95, over the queries that both have answered."""
    both = min(len(mine), len(ours))
    this, base = (figures_of(answers[:both]) for answers in (mine, ours))
    return this.p50 / base.p50, this.p95 / base.p95


def throughput_of(load: Load, alone: Figures) -> Throughput:
    """Judge a load by what a query costs a single client."""
    rate = len(load.times) / load.seconds
    allowed = cores() / (alone.processor / 1000)
    processor = load.processor_seconds / len(load.times) * 1000
    p95 = float(np.percentile(load.times, 95)) * 1000
    return Throughput(load.clients, load.kind, rate, p95, processor, rate / allowed)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


# ---------------------------------------------------------------- the table


def as_markdown(results: list[Result]) -> str:
    """Lay the figures out as a table with one column for each engine."""
    lines = [row("", [result.label for result in results]), row("---", ["---:"] * len(results))]
    lines += [row(title, [text(result) for result in results]) for title, text in cost_rows()]
    lines += [line for mode in MODES for line in speed_lines(mode, results)]
    lines += [row(f"{number} clients", [clients(result, number) for result in results]) for number in loads(results)]
    return "\n".join(lines)


def speed_lines(mode: Mode, results: list[Result]) -> list[str]:
    """Write the lines about the speed of one kind of search."""
    figures = [result.figures[mode] for result in results]
    return [
        row(f"{mode} p50 / p95 / p99, ms", [times(figure) for figure in figures]),
        row(f"{mode} processor time, ms", [f"{figure.processor:.2f}" for figure in figures]),
        row(f"{mode} p50 / p95, times Fourfold's", [against(result, mode) for result in results]),
    ]


def row(title: str, cells: list[str]) -> str:
    """Write one line of the table."""
    return "| " + " | ".join([title, *cells]) + " |"


def cost_rows() -> list[tuple[str, Callable[[Result], str]]]:
    """Return the title and the text of the rows about cost and quality."""
    return [
        ("build, s", lambda result: f"{result.built.seconds:.1f}"),
        ("disk, MB", lambda result: f"{result.built.megabytes:.0f}"),
        ("memory of its own (RssAnon), MB", lambda result: f"{result.resident.anonymous:.0f}"),
        ("memory mapped from files (RssFile), MB", lambda result: f"{result.resident.files:.0f}"),
        (f"vector recall@{TOP}", lambda result: f"{result.recall:.3f}"),
        ("queries asked", lambda result: " / ".join(str(figures.queries) for figures in result.figures.values())),
    ]


def times(figures: Figures) -> str:
    """Write three percentiles."""
    return f"{figures.p50:.2f} / {figures.p95:.2f} / {figures.p99:.2f}"


def against(result: Result, mode: Mode) -> str:
    """Write how many times as long as Fourfold an engine takes."""
    return "{:.2f} / {:.2f}".format(*result.against[mode]) if mode in result.against else "–"


def loads(results: list[Result]) -> list[int]:
    """Return the numbers of clients that were tried."""
    return sorted({each.clients for result in results for each in result.throughput})


def clients(result: Result, number: int) -> str:
    """Write what several clients got done, for each way of sharing the engine."""
    tried = [each for each in result.throughput if each.clients == number]
    return "; ".join(
        f"{each.kind}: {each.queries_a_second:.0f}/s, p95 {each.p95:.1f} ms, {each.processor:.2f} ms processor, "
        f"{each.share:.0%}"
        for each in tried
    )


# ---------------------------------------------------------------- the bars


def bars(items: int, results: list[Result]) -> list[Bar]:
    """What the comparison has to show, as far as it was measured."""
    by_name = {result.name: result for result in results}
    found: list[Bar] = []
    for peer, p50, p95 in PEER_BARS if items >= PEER_BARS_FROM else ():
        if peer in by_name and (measured := by_name[peer].against.get("hybrid")):
            found.append(Bar(f"hybrid p50, {peer} / fourfold at {items}", measured[0], p50, least=True))
            found.append(Bar(f"hybrid p95, {peer} / fourfold at {items}", measured[1], p95, least=True))
    for result in results:
        least = 0.98 if result.name in ("fourfold", "postgres") else 0.95
        found.append(Bar(f"vector recall@{TOP} of {result.name} at {items}", result.recall, least, least=True))
    if ours := by_name.get("fourfold"):
        found.append(Bar(f"fourfold's own memory at {items}, MB", ours.resident.anonymous, 1000))
        found += [
            Bar(
                f"{each.clients} clients ({each.kind}), share of what {cores()} cores allow",
                each.share,
                0.8,
                least=True,
            )
            for each in ours.throughput
            if each.clients > 1
        ]
    return found


# ---------------------------------------------------------------- the file


def as_json(corpus: Corpus, results: list[Result]) -> str:
    """Return everything, with the machine and the versions, as JSON."""
    about = {
        "items": corpus.item_count,
        "queries": corpus.query_count,
        "recombined": corpus.recombined,
        "fingerprint": corpus.fingerprint,
        "depth": DEPTH,
        "top": TOP,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()},
        "versions": versions(results),
        "results": [asdict(result) for result in results],
    }
    return json.dumps(about, indent=2) + "\n"


def commit() -> str:
    """Return the commit that was measured."""
    run = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def record(runs: Sequence[dict[str, Any]]) -> None:
    """Keep the figures of one run of all sizes, and write their tables into the page."""
    RECORD.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    tables = "\n\n".join(map(page_table, runs))
    text = PAGE.read_text("utf-8")
    marked = re.compile(r"(<!-- speed -->\n).*?(\n<!-- end -->)", re.DOTALL)
    PAGE.write_text(marked.sub(lambda part: f"{part[1]}{tables}{part[2]}", text), encoding="utf-8")


def page_table(run: dict[str, Any]) -> str:
    """One size, with a column for each engine."""
    results = run["results"]
    lines = [
        row(f"{run['items']:,} items", [result["label"] for result in results]),
        row("---", ["--:"] * len(results)),
    ]
    rows: dict[str, Callable[[Any], str]] = {
        "disk, MB": lambda result: f"{result['built']['megabytes']:.0f}",
        "memory, anonymous / mapped, MB": lambda result: "{anonymous:.0f} / {files:.0f}".format(**result["resident"]),
        f"vector recall@{TOP}": lambda result: f"{result['recall']:.3f}",
        "hybrid p50 / p95 / p99, ms": lambda result: "{p50:.1f} / {p95:.1f} / {p99:.1f}".format(
            **result["figures"]["hybrid"]
        ),
        "hybrid p50 / p95, relative to Fourfold": lambda result: "{:.2f} / {:.2f}".format(*result["against"]["hybrid"]),
        "hybrid, CPU ms": lambda result: f"{result['figures']['hybrid']['processor']:.1f}",
        "keyword p50 / p95, ms": lambda result: "{p50:.1f} / {p95:.1f}".format(**result["figures"]["keyword"]),
        "vector p50 / p95, ms": lambda result: "{p50:.1f} / {p95:.1f}".format(**result["figures"]["vector"]),
    }
    lines += [row(title, [cell(result) for result in results]) for title, cell in rows.items()]
    for number in sorted({load["clients"] for result in results for load in result["throughput"]}):
        title = "1 client, searches per second" if number == 1 else f"{number} clients, searches per second"
        lines.append(row(title, [rates(result, number) for result in results]))
    return "\n".join(lines)


def rates(result: Any, clients: int) -> str:
    """What several clients got done, in each way of sharing the engine."""
    loads = [load for load in result["throughput"] if load["clients"] == clients]
    return ", ".join(f"{load['queries_a_second']:.0f} ({load['kind']})" for load in loads) or "–"


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

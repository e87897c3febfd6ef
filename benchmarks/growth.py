"""How cost grows with the number of items: a table, the bars, and a plot, from the files that compare.py writes.

python benchmarks/growth.py results/compare-*.json --plot growth.svg
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from bars import Bar, as_markdown

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


def main() -> None:
    """Read the files, print the table, draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="what compare.py --json has written")
    parser.add_argument("--plot", type=Path, help="draw into this file (svg or png)")
    options = parser.parse_args()
    written = sorted((json.loads(file.read_text(encoding="utf-8")) for file in options.files), key=items_of)
    print(growth_table(written))
    print(as_markdown(growth_bars(written)))
    if options.plot:
        plot(written, options.plot)


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


if __name__ == "__main__":
    main()

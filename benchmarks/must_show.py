"""Everything that Fourfold alone has to show, each figure beside its bar, in one run.

    python benchmarks/must_show.py --items 100000 --only starting,building,meanwhile

What it has to show beside other engines is printed by compare.py, and how cost grows by growth.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import freshness
import numpy as np
from bars import Bar, as_markdown
from building import building_bars
from embedding import embedding_bars
from serving import building_search_bars, opening_bars, overhead_bars, starting_bars
from setting import Setting, options_parser, setting_of

ROUNDS = 100


def freshness_bars(setting: Setting) -> list[Bar]:
    """A search directly after another process's commit, which it must show, beside one without a write before it."""
    with setting.copied_store() as folder:
        freshness.published(folder)
        times = freshness.measure(folder, setting.corpus, min(ROUNDS, setting.corpus.item_count // 4))
    return [
        Bar(f"search after another process's {kind} / a calm one", ratio(found), freshness.BAR, note=medians(found))
        for kind, found in times.items()
    ]


def ratio(times: freshness.Times) -> float:
    """Of the medians."""
    return float(np.median(times.after_write) / np.median(times.calm))


def medians(times: freshness.Times) -> str:
    """Both, in milliseconds."""
    return f"p50 {np.median(times.after_write) * 1000:.2f} / {np.median(times.calm) * 1000:.2f} ms"


MEASUREMENTS: dict[str, Callable[[Setting], list[Bar]]] = {
    "opening": opening_bars,
    "starting": starting_bars,
    "overhead": overhead_bars,
    "building": building_bars,
    "meanwhile": building_search_bars,
    "freshness": freshness_bars,
    "embedding": embedding_bars,
}


def main() -> None:
    """Run what is asked for; print every table as soon as it is there, and all of them at the end."""
    parser = options_parser(__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(MEASUREMENTS))
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    options = parser.parse_args()
    setting, found = setting_of(options), list[Bar]()
    for name in options.only:
        print(f"{name} ...", flush=True)
        fresh = MEASUREMENTS[name](setting)
        print(as_markdown(fresh), flush=True)
        found += fresh
    if options.json:
        options.json.write_text(json.dumps([asdict(bar) for bar in found], indent=2) + "\n", encoding="utf-8")
    print("\n" + as_markdown(found))


if __name__ == "__main__":
    main()

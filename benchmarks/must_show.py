"""Everything that Fourfold alone has to show, each figure beside its bar, in one run.

    python benchmarks/must_show.py --items 100000 --only starting,building,meanwhile

What it has to show beside other engines is printed by compare.py, and how cost grows too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from building import building_bars
from embedding import embedding_bars
from report import Bar, bars_table
from serving import building_search_bars, freshness_bars, opening_bars, overhead_bars, starting_bars
from setting import Setting, options_parser, setting_of

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
        print(bars_table(fresh), flush=True)
        found += fresh
    if options.json:
        options.json.write_text(json.dumps([asdict(bar) for bar in found], indent=2) + "\n", encoding="utf-8")
    print("\n" + bars_table(found))


if __name__ == "__main__":
    main()

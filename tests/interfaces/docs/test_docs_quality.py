"""docs/benchmarks.md shows the figures that benchmarks/quality.py recorded."""

import json
import runpy

import pytest
from docs_pages import ROOT

from fourfold.ranking.plan import PRESETS

RESULTS = json.loads((ROOT / "benchmarks" / "quality.json").read_text("utf-8"))


@pytest.mark.spec("S5.7")
def test_tables_match_the_recorded_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    tables = runpy.run_path(str(ROOT / "benchmarks" / "quality.py"))["tables"](RESULTS)
    assert all(tables.values())
    for mark, table in tables.items():
        assert f"<!-- {mark} -->\n{table}<!-- end -->" in page, f"run benchmarks/quality.py ({mark})"


BARS = RESULTS["bars"]


@pytest.mark.spec("S1.10", "S2.7", "S4.6", "S5.7", "S5.8", "C1")
def test_recorded_figures_reach_the_required_values():
    presets = BARS["presets"]
    assert presets.keys() == PRESETS.keys()
    assert presets["memories"]["hit@10"] > 0.85
    for milliseconds, limit in (
        (BARS["p95_100_items"], 1000), (BARS["graph_p95"], 200), (BARS["wiki_p50"], presets["wiki"]["p95"]),
        (presets["wiki"]["p95"], 100), (presets["memories"]["p95"], 120),
        (BARS["graph_p95"], presets["insights"]["p95"]), (presets["insights"]["p95"], 1000),
    ):  # fmt: skip
        assert 0 < milliseconds < limit

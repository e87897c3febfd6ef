"""docs/quality.md shows the figures that benchmarks/quality.py has kept, and nothing that was typed by hand."""

from __future__ import annotations

import json
import runpy

import pytest
from docs_pages import ROOT

RESULTS = json.loads((ROOT / "benchmarks" / "quality.json").read_text("utf-8"))


@pytest.mark.spec("S5.7")
def test_the_tables_are_those_of_the_figures() -> None:
    page = (ROOT / "docs" / "quality.md").read_text("utf-8")
    tables = runpy.run_path(str(ROOT / "benchmarks" / "quality.py"))["tables"](RESULTS)
    assert all(tables.values())
    for mark, table in tables.items():
        assert f"<!-- {mark} -->\n{table}<!-- end -->" in page, f"run benchmarks/quality.py ({mark})"

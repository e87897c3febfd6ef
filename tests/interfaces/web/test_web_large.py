"""The page on a store of 10,000 items."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from http_server import Server, serving
from test_web_search import ids, slide, state
from web_stores import many_items
from workbench import Workbench, working

from fourfold import Memory
from fourfold.config import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.soak
ITEMS = 10_000
QUERY = "word3 word17 word420 word99"


@pytest.fixture(scope="module")
def large(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store: Path = tmp_path_factory.mktemp("large")
    items = many_items(ITEMS)
    with Memory.open(store, settings=Settings(embedder="none")) as memory:
        for start in range(0, ITEMS, 1000):
            memory.add_many(items[start : start + 1000])
        edges = [(f"word{number % 50}", "leads to", f"word{number * 7 % 300}", 1.0) for number in range(400)]
        memory.add_edges(edges)
        memory.index()
    with serving(store) as running:
        yield running


@pytest.fixture
def bench(browser: Browser, large: Server) -> Iterator[Workbench]:
    with working(browser, large) as opened:
        yield opened


def test_every_view_works_with_ten_thousand_items(bench: Workbench) -> None:
    page = bench.open(q=QUERY, top_k=100)
    assert len(ids(page)) == 100
    assert "semantic" in page.locator("#warnings").inner_text()
    page.get_by_role("group", name="Tags").get_by_role("button", name="word3", exact=False).first.click()
    bench.settled()
    assert 0 < len(ids(page)) <= 100
    page.get_by_role("group", name="Kinds").get_by_role("button", name="note").click()
    bench.settled()
    slide(page, "weight-tags", 80)
    page.locator("#weight-tags").dispatch_event("change")
    bench.settled()
    page.get_by_role("button", name="Clear all").click()
    bench.settled()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".pair")
    bench.settled()
    page.locator("#sides [data-side=b]").click()
    page.select_option("#set-fusion", "rrf")
    bench.settled()
    page.locator(".side .link").first.click()
    page.wait_for_selector("#item[open] pre.text")
    page.locator("#item").get_by_role("tab", name="Why").click()
    page.wait_for_selector("#item .stages")
    page.locator("#item").get_by_role("tab", name="Graph").click()
    page.wait_for_selector("#item .graph-drawing")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Results", exact=True).click()
    page.get_by_role("button", name=re.compile("^Relevant: ")).first.click()
    page.wait_for_selector(".verdict[aria-pressed=true]")
    page.get_by_role("button", name="Evaluate").click()
    page.get_by_role("button", name="Measure A and B").click()
    page.wait_for_selector(".metrics")
    assert state(page)["view"] == ["evaluate"]

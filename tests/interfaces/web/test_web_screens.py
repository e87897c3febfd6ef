"""Screens look as they did, violate no rule of accessibility, and work with ten thousand items."""

import re
import runpy
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
import shared_once
from http_server import serving
from test_web_search import ids, slide, state
from web_stores import many_items
from workbench import working

from fourfold import Memory, Settings

UPDATE = "look at it, then run python scripts/workbench_screenshots.py"
BLOCK = 8
"""Pixels of a sheet that are compared as one."""
NOTICED = 24
"""Difference of a block's mean colour, of 255, from which on it looks different."""
SHARE = 0.005


def differing(old, new):
    """The share of blocks that look different."""
    from PIL import ImageChops

    blocks = np.asarray(ImageChops.difference(old.reduce(BLOCK), new.reduce(BLOCK)))
    return float((blocks.max(axis=2) >= NOTICED).mean())


@pytest.mark.spec("C10")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_screen_looks_as_it_did(browser, server, tmp_path, width, scheme):
    images = pytest.importorskip("PIL.Image", reason="no Pillow: the screens are not compared")
    script = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "workbench_screenshots.py"))
    kept = images.open(script["SHEETS"] / f"{width}-{scheme}.png")
    if kept.text["fonts"] != script["fonts"](browser):
        pytest.skip("the screens were made with other fonts than those here: they are not compared")
    old, new = kept.convert("RGB"), script["sheet"](browser, server.url, width, scheme)
    shown = tmp_path / f"{width}-{scheme}.png"
    new.save(shown)
    assert old.size == new.size, f"{shown}: {UPDATE}"
    across, down = (side // script["COLUMNS"] for side in old.size)
    down = old.size[1] // -(-len(script["SCREENS"]) // script["COLUMNS"])
    changed = {}
    for place, screen in enumerate(script["SCREENS"]):
        left, top = place % script["COLUMNS"] * across, place // script["COLUMNS"] * down
        part = (left, top, left + across, top + down)
        changed[screen.name] = differing(old.crop(part), new.crop(part))
    assert {name: share for name, share in changed.items() if share > SHARE} == {}, f"{shown}: {UPDATE}"


# ---------------------------------------------------------------- accessibility


SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "workbench_screenshots.py"))
PACKAGE = "axe-core@4"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECK = "rules => axe.run(document, {runOnly: rules})"


def fetched(folder):
    """Leaves an empty folder if the library cannot be had."""
    folder.mkdir(exist_ok=True)
    if shutil.which("npm") is None:
        return
    command = ["npm", "pack", PACKAGE, "--silent", "--pack-destination", str(folder)]
    packed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)
    if packed.returncode:
        return
    with tarfile.open(folder / packed.stdout.strip()) as archive:
        source = archive.extractfile("package/axe.min.js")
        (folder / "axe.js").write_bytes(source.read())


@pytest.fixture(scope="session")
def axe():
    source = shared_once.made("axe", fetched) / "axe.js"
    if not source.is_file():
        pytest.skip(f"npm cannot fetch {PACKAGE}: accessibility is not checked")
    return source.read_text(encoding="utf-8")


@pytest.mark.spec("C10")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_no_screen_violates_a_rule_of_accessibility(browser, server, axe, width, scheme):
    violations: dict[str, set[str]] = {}
    for screen in SCRIPT["SCREENS"]:
        with working(browser, server, color_scheme=scheme) as bench:
            bench.page.set_viewport_size({"width": width, "height": 900})
            bench.refused = screen.name == "refused"
            SCRIPT["show"](bench.page, server.url, screen)
            bench.page.evaluate(axe)
            for found in bench.page.evaluate(CHECK, RULES)["violations"]:
                places = {f"{screen.name}: {node['html']} {node['failureSummary']}" for node in found["nodes"]}
                violations.setdefault(found["id"], set()).update(places)
    assert violations == {}


# ---------------------------------------------------------------- the page on a store of 10,000 items


ITEMS = 10_000
QUERY = "word3 word17 word420 word99"


@pytest.fixture(scope="module")
def large(browser, tmp_path_factory):
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
def bench(browser, large):
    with working(browser, large) as opened:
        yield opened


@pytest.mark.soak
def test_every_view_works_with_ten_thousand_items(bench):
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

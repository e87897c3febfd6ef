"""Makes the screenshots of docs/workbench.md from the real page, on a store of the demo."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from fourfold import Memory
from fourfold.cli.demo import fill
from fourfold.config import Settings
from fourfold.evaluation.collection import read_collection

DOCS = Path(__file__).parent.parent / "docs"
FLAGS = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
QUERY = "What did we decide after invoices went out twice?"
JUDGED_QUESTIONS = 40
COLOURS = 128


class Shot(NamedTuple):
    name: str
    state: dict[str, Any]
    clicks: tuple[str, ...] = ()
    width: int = 1280
    height: int = 860
    scheme: str = "light"


SHOTS = (
    Shot("start", {}, height=1180),
    Shot("results", {"q": QUERY}, (".card:nth-child(2) .bars",)),
    Shot("results-dark", {"q": "kitchen recipe", "fusion": "weighted", "weights": "55,35,0,40"}, scheme="dark"),
    Shot("compare", {"q": QUERY, "view": "compare", "b.preset": "memories", "b.fusion": "rrf", "side": "b"}),
    Shot("why", {"q": QUERY, "item": "key:rabenhorst", "tab": "why"}, height=700),
    Shot("graph", {"q": "What uses Rabenhorst?", "item": "key:rabenhorst", "tab": "graph"}, scheme="dark"),
    Shot("evaluate", {"q": QUERY, "view": "evaluate", "b.preset": "wiki", "side": "b"}, ("text=Measure A and B",)),
    Shot("narrow", {"q": QUERY}, width=380, height=820),
)


@contextmanager
def served(store: str) -> Iterator[str]:
    command = [sys.executable, "-m", "fourfold", "--store", store, "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield server.stderr.readline().split()[3]
        server.terminate()


def judge(url: str) -> None:
    """Stores the judgements of the demo's own questions."""
    collection = read_collection(Path(str(files("fourfold"))) / "demo")
    with httpx.Client(base_url=url) as client:
        for question in collection.questions[:JUDGED_QUESTIONS]:
            for key, relevance in collection.judgements.get(question.id, {}).items():
                body = {"query": question.text, "item": f"key:{key}", "relevance": int(relevance)}
                client.post("/v1/namespaces/default/judgements", json=body).raise_for_status()


def take(browser: Browser, url: str, shot: Shot) -> None:
    page: Page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.scheme)
    page.goto(f"{url}/#{urlencode(shot.state)}")
    page.wait_for_selector("body:not(.busy)")
    for place in shot.clicks:
        page.click(place)
    page.wait_for_load_state("networkidle")
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)
    image = Image.open(BytesIO(page.screenshot()))
    image.quantize(COLOURS).save(DOCS / f"workbench-{shot.name}.png", optimize=True)
    page.close()


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    with TemporaryDirectory(prefix="fourfold-workbench-") as folder:
        with Memory.open(folder, settings=Settings()) as memory:
            fill(memory)
        with served(folder) as url, sync_playwright() as playwright:
            judge(url)
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            for shot in SHOTS:
                take(browser, url, shot)
            browser.close()


if __name__ == "__main__":
    main()

"""Makes the pictures of docs/workbench.md from the page on the demo's store, and the sheets that tests compare with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from fourfold import Memory
from fourfold.cli.demo import fill, judge
from fourfold.config import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = ROOT / "docs"
SHEETS: Final = ROOT / "tests" / "interfaces" / "web" / "screens"
FLAGS: Final = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
QUERY: Final = "What did we decide after invoices went out twice?"
COLOURS: Final = 256
Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
SIZES: Final = {1280: (900, 3), 400: (900, 2)}
"""The height of a screen by its width, and how much a sheet reduces it."""
COLUMNS: Final = 4


STEADY: Final = """() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const { data } = texts.currentNode;
        texts.currentNode.data = data.replace(/[\\d.]+ ms/g, '0.0 ms').replace(/(127.0.0.1):\\d+/g, '$1:0');
    }
}"""
"""Makes times and ports the same in every run."""


class Screen(NamedTuple):
    """What the page shows: its address, then clicks, then what is scrolled to."""

    name: str
    state: dict[str, Any]
    clicks: tuple[str, ...] = ()
    scrolled: str | None = None


SCREENS: Final = (
    Screen("start", {}),
    Screen("start-graph", {}, (), "#start .graph-view"),
    Screen("results", {"q": QUERY}, (".card:nth-child(2) .bars",)),
    Screen("compare", {"q": QUERY, "view": "compare"}),
    Screen("why", {"q": QUERY, "item": "key:rabenhorst", "tab": "why"}),
    Screen("item", {"q": QUERY, "item": "key:double-invoices"}),
    Screen("graph", {"q": "What uses Rabenhorst?", "item": "key:rabenhorst", "tab": "graph"}),
    Screen("evaluate", {"view": "evaluate"}, ("text=Measure A and B",), ".plots"),
    Screen("copies", {"q": QUERY}, ("#copy-button",)),
    Screen("nothing-stored", {"ns": "nothing"}),
    Screen("nothing-found", {"q": QUERY, "tag": "no-such-tag"}),
    Screen("refused", {"q": QUERY, "where": "kind =="}),
)
PICTURES: Final[dict[str, tuple[str, int, int, Scheme]]] = {
    "start": ("start", 1280, 1180, "light"),
    "results": ("results", 1280, 860, "light"),
    "results-dark": ("results", 1280, 860, "dark"),
    "compare": ("compare", 1280, 860, "light"),
    "why": ("why", 1280, 700, "light"),
    "graph": ("graph", 1280, 860, "dark"),
    "evaluate": ("evaluate", 1280, 860, "light"),
    "narrow": ("results", 400, 860, "light"),
}
"""Screen, width, height and scheme of each picture of the docs."""


@contextmanager
def served(store: str) -> Generator[str]:
    command = [sys.executable, "-m", "fourfold", "--store", store, "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield server.stderr.readline().split()[3]
        server.terminate()


def show(page: Page, url: str, screen: Screen) -> None:
    page.goto(f"{url}/#{urlencode(screen.state)}")
    page.wait_for_selector("body:not(.busy)")
    for place in screen.clicks:
        page.click(place)
    page.wait_for_load_state("networkidle")
    if screen.scrolled is not None:
        page.locator(screen.scrolled).evaluate("place => place.scrollIntoView({block: 'center'})")
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)


def picture(
    browser: Browser, url: str, screen: Screen, width: int, height: int, scheme: Scheme, *, steady: bool = False
) -> Image.Image:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    show(page, url, screen)
    if steady:
        page.evaluate(STEADY)
    image = Image.open(BytesIO(page.screenshot())).convert("RGB")
    page.close()
    return image


def reduced(image: Image.Image) -> Image.Image:
    """The image in 256 colours: the most frequent ones exactly as they are, and the most different others."""
    pixels = np.asarray(image)
    found, places, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    rare = image.quantize(COLOURS // 2, Image.Quantize.MAXCOVERAGE).getpalette() or []
    kept = np.vstack([found[np.argsort(-counts)[: COLOURS // 2]], np.array(rare, np.uint8).reshape(-1, 3)])
    nearest = np.square(found[:, None].astype(np.int32) - kept).sum(axis=2).argmin(axis=1).astype(np.uint8)
    small = Image.fromarray(nearest[places].reshape(pixels.shape[:2]), "P")
    small.putpalette(kept.tobytes())
    return small


def fonts(browser: Browser) -> str:
    """The widths of two texts: with other fonts every line of a page is elsewhere."""
    page = browser.new_page()
    page.set_content("<span style='font-family:system-ui'>Fourfold</span> <code>Fourfold</code>")
    widths = page.locator("span, code").evaluate_all("all => all.map((each) => each.getBoundingClientRect().width)")
    page.close()
    return " ".join(f"{width:.2f}" for width in widths)


def sheet(browser: Browser, url: str, width: int, scheme: Scheme) -> Image.Image:
    """All screens beside each other, reduced."""
    height, factor = SIZES[width]
    images = [picture(browser, url, screen, width, height, scheme, steady=True).reduce(factor) for screen in SCREENS]
    across, down = images[0].size
    whole = Image.new("RGB", (COLUMNS * across, -(-len(images) // COLUMNS) * down))
    for place, image in enumerate(images):
        whole.paste(image, (place % COLUMNS * across, place // COLUMNS * down))
    return whole


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    with TemporaryDirectory(prefix="fourfold-workbench-") as folder:
        settings = Settings(store=folder)
        with Memory.open(folder, settings=settings) as memory:
            fill(memory)
        judge(settings)
        with served(folder) as url, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            screens = {screen.name: screen for screen in SCREENS}
            for name, (screen, *size, scheme) in PICTURES.items():
                image = picture(browser, url, screens[screen], *size, scheme)
                reduced(image).save(DOCS / f"workbench-{name}.png", optimize=True)
            info = PngInfo()
            info.add_text("fonts", fonts(browser))
            for width in SIZES:
                for scheme in SCHEMES:
                    whole = reduced(sheet(browser, url, width, scheme))
                    whole.save(SHEETS / f"{width}-{scheme}.png", optimize=True, pnginfo=info)
            browser.close()


if __name__ == "__main__":
    main()

"""How long a move of a slider takes in the workbench: `python benchmarks/slider.py [--items 100000]`.

From the move to the drawn list of ten results, in Chromium on this machine, with the built-in model. Texts and vectors
are generated; the store is kept in --cache. CPU times, of the server and of the page (scripts, styles and layout),
depend less than the other figures on what else the machine does; a quiet machine needs a little more than their sum.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from http_cost import cpu_seconds, vocabulary
from playwright.sync_api import sync_playwright

from fourfold import Memory, NewItem
from fourfold.embed import OpenAISettings, create

BATCH = 5_000
MOVES = 100
DRAWING = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")
MEASURE = """async ([name, moves]) => {
    const slider = document.querySelector(`#${name}`);
    const settled = () => new Promise((done) => {
        const seen = new MutationObserver(() => {
            if (!document.body.classList.contains('busy')) done(seen.disconnect());
        });
        seen.observe(document.body, { attributes: true });
    });
    const times = [];
    for (const position of moves) {
        await new Promise((done) => setTimeout(done, 120));
        slider.value = position;
        const begun = performance.now();
        const drawn = settled();
        slider.dispatchEvent(new Event('input'));
        await drawn;
        document.body.offsetHeight;
        times.push(performance.now() - begun);
    }
    return times;
}"""


class Generated:
    """Makes random vectors in the name of the built-in model."""

    dimension = 384

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._random = np.random.default_rng(1)

    def load(self) -> None:
        pass

    def close(self) -> None:
        pass

    def truncates(self, text: str) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._random.standard_normal((len(texts), self.dimension), np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "fourfold-bench")
    options = parser.parse_args()
    chooser = random.Random(18)
    words = vocabulary(chooser)
    store = options.cache / f"slider-{options.items}"
    if not store.exists():
        fill(store, options.items, words, chooser)
    command = [sys.executable, "-m", "fourfold", "--store", str(store), "serve", "--port", "0"]
    environment = {**os.environ, "FOURFOLD_EMBEDDER": "builtin"}
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert server.stderr is not None
    address = next(line for line in server.stderr if "http://127.0.0.1:" in line)
    try:
        port = address.split("http://127.0.0.1:")[1].split()[0]
        named = f"the {words[0]} and the {words[150]} of the {words[300]}"
        ask(f"http://127.0.0.1:{port}", f"What do we know about {named}?", server.pid)
    finally:
        server.terminate()


def fill(store: Path, items: int, words: list[str], chooser: random.Random) -> None:
    model = create("builtin", openai=OpenAISettings())
    assert model is not None
    with Memory.open(store, embedder=Generated(model.fingerprint), background=False) as memory:
        for start in range(0, items, BATCH):
            new = [
                NewItem(" ".join(chooser.choices(words, k=60)), key=str(number), tags=(chooser.choice(words),))
                for number in range(start, min(start + BATCH, items))
            ]
            memory.add_many(new)
        memory.embed_pending()
        memory.index()


def ask(url: str, query: str, server: int) -> None:
    browser_path = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page()
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

        def page_cpu_seconds() -> float:
            listed = metrics.send("Performance.getMetrics")["metrics"]
            return sum(metric["value"] for metric in listed if metric["name"] in DRAWING)

        page.goto(f"{url}/#q={query}")
        page.wait_for_selector("body:not(.busy) .card")
        for name in ("weight-semantic", "weight-keyword", "set-recency"):
            most = 1 if name == "set-recency" else 100
            moves = [most * number / MOVES for number in range(MOVES)]
            page.evaluate(MEASURE, [name, moves[:10]])
            before = cpu_seconds(server), page_cpu_seconds()
            times = sorted(page.evaluate(MEASURE, [name, moves]))
            spent = cpu_seconds(server) - before[0], page_cpu_seconds() - before[1]
            cpu = " + ".join(f"{1000 * seconds / MOVES:.1f}" for seconds in spent)
            p10, p95 = times[MOVES // 10], times[MOVES * 95 // 100]
            print(f"{name}: p10 {p10:.1f} ms, p50 {median(times):.1f} ms, p95 {p95:.1f} ms; CPU {cpu} ms")
        browser.close()


if __name__ == "__main__":
    main()

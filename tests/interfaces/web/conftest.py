"""One server and one browser for all tests of the page; every test fails on console errors and foreign requests."""

import shutil

import pytest
import shared_once
from http_server import serving
from web_stores import make_demo
from workbench import working

FLAGS = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="session")
def chromium():
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium: the workbench is not tested (apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def browser(chromium):
    """A browser per module. Playwright keeps an event loop running in this thread, which would break later tests."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: the workbench is not tested")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def server(chromium, request, tmp_path_factory):
    """The demo and other namespaces, with the built-in model. Tests that write use namespaces of their own."""
    store = tmp_path_factory.mktemp("web") / "store"
    vectors = request.config.cache.mkdir("demo-vectors")
    shutil.copytree(shared_once.made("web", lambda folder: make_demo(folder, vectors)), store)
    with serving(store, FOURFOLD_EMBEDDER="builtin", FOURFOLD_RERANK_SECONDS="60") as running:
        yield running


@pytest.fixture
def bench(browser, server):
    with working(browser, server) as opened:
        yield opened

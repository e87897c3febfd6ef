"""The page in a browser; every test fails on console errors and foreign requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from http_server import Server

from fourfold.serve.http.app import page_files

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Request

API = re.compile(r"/v1/(status|namespaces(/[^/]+/[a-z:]+(/.*)?)?|openapi\.json)")


@dataclass
class Workbench:
    """The page in a new browser context, and a record of its requests and errors."""

    page: Page
    server: Server
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Methods and paths of all requests."""
    errors: list[str] = field(default_factory=list[str])
    """Console errors, exceptions, violations of the policy, requests to other hosts."""
    refused: bool = False
    """Whether the test expects refusals of the server, which the browser logs as errors."""

    def open(self, **state: Any) -> Page:
        self.page.goto(f"{self.server.url}/#{urlencode(state, doseq=True)}")
        return self.settled()

    def settled(self) -> Page:
        """Waits until every pending answer is shown and drawn; returns the page."""
        self.page.wait_for_selector("body:not(.busy)")
        # A new card has no text until the frame in which the browser finds that it is in view (content-visibility).
        self.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        return self.page

    def sent(self, method: str, pattern: str) -> int:
        return sum(made == method and re.search(pattern, path) is not None for made, path in self.requests)

    def saw(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme == "blob":
            return
        self.requests.append((request.method, url.path))
        if f"{url.scheme}://{url.netloc}" != self.server.url:
            self.errors.append(f"a request to {request.url}")
        elif url.path not in page_files() and not API.fullmatch(url.path):
            self.errors.append(f"a request for {url.path}")

    def logged(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not (self.refused and "the server responded with a status of 4" in text):
            self.errors.append(f"{kind}: {text}")


@contextmanager
def working(browser: Browser, server: Server, **options: Any) -> Iterator[Workbench]:
    context: BrowserContext = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(15_000)
    page = context.new_page()
    bench = Workbench(page, server)
    page.on("console", lambda message: bench.logged(message.type, message.text))
    page.on("pageerror", lambda error: bench.errors.append(f"exception: {error}"))
    page.on("request", bench.saw)
    page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('policy', e.violatedDirective, e.blockedURI))"
    )
    try:
        yield bench
        assert not bench.errors, bench.errors
    finally:
        context.close()

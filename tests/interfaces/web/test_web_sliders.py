"""Sliders: the server ranks for each position, and only the latest answer is shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from test_web_search import QUERY, ids, slide

from fourfold.ranking.plan import PRESETS, is_rerank
from fourfold.ranking.retrievers import RETRIEVERS

pytestmark = pytest.mark.spec("C10")

if TYPE_CHECKING:
    from playwright.sync_api import Route
    from workbench import Workbench

SEARCHES = re.compile(r"/search$")


def ranked(bench: Workbench, **options: Any) -> list[int]:
    """The ids of the server's results."""
    with bench.server.client() as client:
        answer = client.post("/v1/namespaces/default/search", json={"query": QUERY, "top_k": 100, **options}).json()
    return [result["id"] for result in answer["results"]]


def test_a_move_of_a_slider_shows_the_order_of_the_server(bench: Workbench) -> None:
    page = bench.open(q=QUERY, fusion="weighted", weights="50,50,0,0", top_k=100)
    orders = [ids(page)]
    for value in range(0, 100, 20):
        slide(page, "weight-keyword", value)
        bench.settled()
        orders.append(ids(page))
        weights = {"semantic": 50 / (50 + value), "keyword": value / (50 + value)}
        assert orders[-1] == ranked(bench, fusion="weighted", weights=weights)
    assert len({tuple(order) for order in orders}) > 3


def test_answers_are_small_until_the_slider_is_released(bench: Workbench) -> None:
    page = bench.open(q=QUERY)
    assert "candidates" in page.locator("#told").inner_text()
    with page.expect_request(SEARCHES) as asked:
        slide(page, "weight-keyword", 90)
    assert asked.value.post_data_json["candidates"] is False
    bench.settled()
    order = ids(page)
    assert "candidates" not in page.locator("#told").inner_text()
    with page.expect_request(SEARCHES) as asked:
        page.locator("#weight-keyword").dispatch_event("change")
    assert asked.value.post_data_json["candidates"] is True
    bench.settled()
    assert ids(page) == order
    assert "candidates" in page.locator("#told").inner_text()


def test_a_slider_that_moves_on_cancels_what_was_asked_before(bench: Workbench) -> None:
    page = bench.open(q=QUERY, fusion="weighted", weights="50,50,50,50", top_k=100)
    before, sent = ids(page), bench.sent("POST", "/search$")
    page.locator("#weight-keyword").evaluate(
        """(slider) => {
            for (let value = 0; value <= 90; value += 1) {
                slider.value = value;
                slider.dispatchEvent(new Event('input'));
            }
        }"""
    )
    bench.settled()
    assert bench.sent("POST", "/search$") == sent + 1, "moves within a frame are one request"
    weights = dict(zip(RETRIEVERS, (share / 240 for share in (50, 90, 50, 50)), strict=True))
    assert before != ids(page) == ranked(bench, fusion="weighted", weights=weights)


def test_an_answer_for_an_earlier_position_is_not_shown(bench: Workbench) -> None:
    page = bench.open(q=QUERY, fusion="weighted", weights="50,50,50,50", top_k=100)
    before = ids(page)
    page.evaluate(
        "window.shown = []; new MutationObserver(() => window.shown.push("
        "[...document.querySelectorAll('#results > li')].map((card) => Number(card.dataset.id))))"
        ".observe(document.querySelector('#results'), { childList: true })"
    )
    held: list[Route] = []
    page.route(SEARCHES, lambda route: route.continue_() if held else held.append(route))
    with page.expect_request(SEARCHES):
        slide(page, "weight-keyword", 0)
    with page.expect_response(SEARCHES):
        slide(page, "weight-keyword", 90)
    bench.settled()
    order = ids(page)
    assert order != before
    held[0].continue_()
    page.wait_for_timeout(200)
    assert page.evaluate("window.shown") == [order]
    assert ids(page) == order


def test_a_question_that_is_on_its_way_survives_a_move_of_a_slider(bench: Workbench) -> None:
    page = bench.open(q="kitchen recipe")
    held: list[Route] = []
    page.route(SEARCHES, lambda route: route.continue_() if held else held.append(route))
    page.fill("#query", QUERY)
    with page.expect_request(SEARCHES):
        page.keyboard.press("Enter")
    with page.expect_request(SEARCHES) as asked:
        slide(page, "weight-keyword", 90)
    assert asked.value.post_data_json["query"] == QUERY
    bench.settled()
    held[0].continue_()
    assert page.locator(".card h3").first.inner_text() == "Double invoices in August"


def test_a_reranker_is_a_colour_of_the_bars(bench: Workbench) -> None:
    page = bench.open(ns="files", q="what does the router do?", rerank="ms-marco")
    assert "rerank" in page.locator("#legend li").all_inner_texts()


def test_the_names_in_the_page_are_those_of_python(bench: Workbench) -> None:
    told = bench.open().evaluate("import('/state.js').then((m) => [m.RETRIEVERS, m.PRESETS, m.RERANKERS])")
    assert told[0] == {spec.name: spec.score for spec in RETRIEVERS.values()}
    assert list(told[0]) == list(RETRIEVERS)
    assert told[1] == list(PRESETS)
    assert all(map(is_rerank, told[2]))

"""The start of the page: what is stored, and questions that lead to good answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.spec("C10")

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from workbench import Workbench

NEWEST = 6


def sure(page: Page) -> int:
    """The confidence of the first result, in percent."""
    return int(page.locator("#results .sure").first.inner_text().removesuffix(" %"))


def test_the_start_shows_what_is_stored_until_something_is_asked(bench: Workbench) -> None:
    page = bench.open()
    assert page.locator("#start .counts li").all_inner_texts() == ["275 items", "7 kinds", "35 tags", "2 languages"]
    assert page.locator("#start .card").count() == NEWEST
    dates = page.locator("#start .card time").all_inner_texts()
    assert dates == sorted(dates, reverse=True)
    page.fill("#query", "BRK-4471-B")
    page.keyboard.press("Enter")
    bench.settled()
    assert page.locator("#start").inner_text() == ""
    assert sure(page) > 90
    page.go_back()
    bench.settled()
    assert page.locator("#start .card").count() == NEWEST


def test_every_question_of_the_start_leads_to_a_sure_answer(bench: Workbench) -> None:
    page = bench.open()
    questions = page.locator("#start .chip").all_inner_texts()
    assert len(questions) == NEWEST
    for question in questions:
        page.locator("#start .chip", has_text=question).click()
        bench.settled()
        assert page.input_value("#query") == question
        assert sure(page) >= 80, question
        page.go_back()
        bench.settled()


def test_filters_choose_among_the_newest_items(bench: Workbench) -> None:
    page = bench.open()
    page.locator(".facet .chip", has_text="workshop").click()
    bench.settled()
    titles = page.locator("#start .card h3").all_inner_texts()
    assert titles
    assert all("workshop" in tags for tags in page.locator("#start .card footer").all_inner_texts())
    page.locator("#start .card button.link").first.click()
    page.wait_for_selector("dialog#item[open]")
    assert page.locator("dialog#item h2").inner_text() == titles[0]


def test_the_picture_of_the_graph_can_be_walked(bench: Workbench) -> None:
    page = bench.open()
    centre = page.locator("#start .node.step-0").get_attribute("data-name")
    page.locator("#start .node.step-1").first.press("Enter")
    page.wait_for_selector(f'#start .node.step-0:not([data-name="{centre}"])')
    assert page.locator("#start").is_visible()


def test_an_empty_namespace_says_how_to_begin(bench: Workbench) -> None:
    page = bench.open(ns="nothing-yet")
    assert "fourfold add" in page.locator("#start").inner_text()


@pytest.mark.parametrize("namespace", ["default", "hostile", "hub"])
def test_the_start_fits_a_narrow_screen(bench: Workbench, namespace: str) -> None:
    bench.page.set_viewport_size({"width": 400, "height": 800})
    page = bench.open(ns=namespace)
    assert page.locator("#start .card").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 400

"""The start of the page: what is stored, and questions that lead to good answers."""

import pytest
from http_server import serving
from workbench import working

from fourfold.cli.demo import QUESTIONS

pytestmark = pytest.mark.spec("C10")


NEWEST = 6
ANSWERED = [question for question in QUESTIONS if question.answer is not None]


def sure(page):
    """The confidence of the first result, in percent."""
    return int(page.locator("#results .sure").first.inner_text().removesuffix(" %"))


def test_the_start_shows_what_is_stored_until_something_is_asked(bench):
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


def test_the_start_says_what_has_no_vector_yet(browser, tmp_path):
    with serving(tmp_path / "store", FOURFOLD_EMBEDDER="none") as server, working(browser, server) as bench:
        with server.client() as client:
            items = [{"text": f"heron number {number}"} for number in range(3)]
            client.post("/v1/namespaces/default/items:batch", json={"items": items}).raise_for_status()
        page = bench.open()
        assert "3 items have no vector yet: words, relations and tags find them." in page.locator("#start").inner_text()


def test_the_start_shows_receipts_of_what_others_than_the_page_asked(browser, tmp_path):
    with serving(tmp_path / "store", FOURFOLD_EMBEDDER="none") as server, working(browser, server) as bench:
        with server.client() as client:
            client.post("/v1/namespaces/default/items", json={"text": "heron at the gate"}).raise_for_status()
            page = bench.open()
            assert page.get_by_role("region", name="Receipts").count() == 0
            page.fill("#query", "heron")
            page.keyboard.press("Enter")
            bench.settled()
            client.post("/v1/namespaces/default/search", json={"query": "heron"}).raise_for_status()
        page = bench.open()
        shown = page.get_by_role("region", name="Receipts")
        assert shown.locator("tbody tr").all_inner_texts() == ["http\t1\t1\t0\t1"]
        assert "Never an answer yet: 0 of 1 item." in shown.inner_text()


def test_the_start_counts_the_most_frequent_kinds_and_tags(bench):
    page = bench.open()
    tallies = [each.locator("li").all_inner_texts() for each in page.locator("#start .tallies > div").all()]
    with bench.server.client() as client:
        facets = client.get("/v1/namespaces/default/facets").json()
    for shown, name in zip(tallies, ("kinds", "tags"), strict=True):
        assert [line.split() for line in shown] == [[each["name"], str(each["items"])] for each in facets[name][:5]]
    widths = (
        page.locator("#start .tallies > div")
        .first.locator(".meter")
        .evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().width)")
    )
    share = [each["items"] / facets["kinds"][0]["items"] for each in facets["kinds"][:5]]
    assert [width / widths[0] for width in widths] == pytest.approx(share, abs=0.02)


def test_the_questions_that_were_judged_last_lead_to_sure_answers(bench):
    page = bench.open()
    assert page.locator("#start .chip").all_inner_texts() == [question.text for question in ANSWERED]
    for question in ANSWERED:
        page.locator("#start .chip", has_text=question.text).click()
        bench.settled()
        assert page.input_value("#query") == question.text
        assert sure(page) >= 60, question
        page.locator("#results h3 button").first.click()
        assert question.answer in page.locator("#item[open] .meta").inner_text()
        page.go_back()
        page.go_back()
        bench.settled()


def test_relations_and_titles_are_questions_if_nothing_is_judged(bench):
    with bench.server.client() as client:
        items = [{"title": "Checkout", "text": "It takes orders"}, {"title": "Kestrel", "text": "A database"}]
        edges = [{"from": "Checkout", "relation": "depends on", "to": "Kestrel"}]
        client.post("/v1/namespaces/relations/items:batch", json={"items": items, "wait": True}).raise_for_status()
        client.post("/v1/namespaces/relations/graph/edges", json={"edges": edges}).raise_for_status()
    page = bench.open(ns="relations")
    questions = page.locator("#start .chip").all_inner_texts()
    assert questions == ["Checkout: depends on?", "Kestrel", "Checkout"]
    for question in questions:
        page.locator("#start .chip").get_by_text(question, exact=True).click()
        bench.settled()
        assert sure(page) >= 65, question
        page.go_back()
        bench.settled()


def test_filters_choose_among_the_newest_items(bench):
    page = bench.open()
    page.locator(".facet .chip", has_text="workshop").click()
    bench.settled()
    titles = page.locator("#start .card h3").all_inner_texts()
    assert titles
    assert all("workshop" in tags for tags in page.locator("#start .card footer").all_inner_texts())
    page.locator("#start .card button.link").first.click()
    page.wait_for_selector("dialog#item[open]")
    assert page.locator("dialog#item h2").inner_text() == titles[0]


def test_an_empty_namespace_says_how_to_begin(bench):
    page = bench.open(ns="nothing-yet")
    assert "fourfold add" in page.locator("#start").inner_text()


@pytest.mark.parametrize("namespace", ["default", "hostile", "hub"])
def test_the_start_fits_a_narrow_screen(bench, namespace):
    bench.page.set_viewport_size({"width": 400, "height": 800})
    page = bench.open(ns=namespace)
    assert page.locator("#start .card").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 400

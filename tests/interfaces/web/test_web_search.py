"""Searching in the page: cards, exact lines, filters, sliders, comparison, copies, the URL."""

import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from workbench import working

from fourfold.ranking.plan import PRESETS, is_rerank
from fourfold.ranking.retrievers import RETRIEVERS

pytestmark = pytest.mark.spec("C10")

QUERY = "What did we decide after invoices went out twice?"


def ids(page, place="#results"):
    return page.locator(f"{place} > li").evaluate_all("cards => cards.map((card) => Number(card.dataset.id))")


def state(page):
    return parse_qs(urlsplit(page.url).fragment)


def slide(page, name, value):
    """Drags a slider without releasing it."""
    page.locator(f"#{name}").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", str(value)
    )


def test_a_search_shows_cards_with_marked_snippets_and_lines_that_sum_to_the_score(bench):
    page = bench.open()
    page.fill("#query", QUERY)
    page.keyboard.press("Enter")
    bench.settled()
    page.wait_for_selector(".card")
    assert len(ids(page)) == 10
    first = page.locator(".card").first
    assert first.locator("h3").inner_text() == "Double invoices in August"
    assert {each.lower() for each in first.locator("mark").all_inner_texts()} >= {"invoices", "twice"}
    assert first.locator(".bar i").count() == 4
    first.locator(".bars").click()
    values = [float(text) for text in first.locator(".lines tbody td:last-child").all_inner_texts()]
    assert math.fsum(values[:-1]) == pytest.approx(values[-1], abs=5e-4)  # four digits are shown, all on hover
    assert first.locator(".bars").get_attribute("aria-expanded") == "true"
    assert page.locator("#legend li").all_inner_texts() == ["semantic", "keyword", "walk", "shared"]
    assert bench.sent("POST", "/search$") == 1
    assert state(page)["q"] == [QUERY]


def test_time_and_candidates_are_shown_by_stage(bench):
    page = bench.open(q="What uses Rabenhorst?")
    page.locator("#stages summary").click()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#stages tbody tr").all()]
    stages = {row[0]: row[-1] for row in rows}
    assert all(row[1].endswith(" ms") for row in rows)
    assert {"embed", "semantic", "keyword", "graph", "tags", "walk", "fusion", "total"} <= stages.keys()
    assert stages["semantic"] == "200"
    assert stages["total"].endswith("results")


def test_facets_and_filters_narrow_the_results(bench):
    page = bench.open(q="invoice")
    page.get_by_role("group", name="Tags").get_by_role("button", name="finance").click()
    page.wait_for_selector(".chosen .chip")
    bench.settled()
    assert all("finance" in each for each in page.locator(".card footer").all_inner_texts())
    assert state(page)["tag"] == ["finance"]
    page.get_by_role("group", name="Kinds").get_by_role("button", name="howto").click()
    page.locator(".chosen .chip").nth(1).wait_for()
    bench.settled()
    assert all("howto" in each for each in page.locator(".card .meta").all_inner_texts())
    page.get_by_text("More filters").click()
    page.fill("#filter-where", "nonsense ((")
    bench.refused = True
    page.locator("#filter-where").blur()
    page.wait_for_selector("#problem:not([hidden])")
    page.fill("#filter-where", "created_at >= 2026-01-01")
    page.locator("#filter-where").blur()
    page.wait_for_selector("#problem", state="hidden")
    bench.settled()
    assert 0 < len(ids(page)) < 10
    page.get_by_role("button", name="Clear all").click()
    bench.settled()
    assert len(ids(page)) == 10
    assert "tag" not in state(page)


def test_nothing_found_and_an_invalid_filter_say_what_to_do(bench):
    page = bench.open(q="invoice", tag="no-such-tag")
    assert page.locator("#results").inner_text() == "Nothing is found. Remove a filter, or use other words."
    bench.refused = True
    page = bench.open(q="invoice", where="kind ==")
    page.wait_for_selector("#problem:not([hidden])")
    assert "a value is missing after `==`. Give a word" in page.locator("#problem").inner_text()
    assert page.locator(".card").count() == 0


COUNT_MOTION = """() => {
    window.moved = 0;
    const { animate } = Element.prototype;
    Element.prototype.animate = function (...given) { window.moved++; return animate.apply(this, given); };
}"""


def test_cards_move_only_if_the_reader_wants_motion(browser, server):
    for wish, moving in (("no-preference", True), ("reduce", False)):
        with working(browser, server, reduced_motion=wish) as bench:
            page = bench.open(q=QUERY)
            page.evaluate(COUNT_MOTION)
            page.select_option("#set-preset", "wiki")
            bench.settled()
            assert (page.evaluate("window.moved") > 0) == moving
            durations = page.evaluate(
                "[...document.querySelectorAll('*')].map((each) => getComputedStyle(each).transitionDuration)"
            )
            assert moving or set(durations) == {"0s"}


def test_sliders_set_weights_that_the_url_keeps(bench):
    page = bench.open(q=QUERY, fusion="weighted", weights="50,50,0,0")
    before = ids(page)
    with page.expect_request("**/search") as asked:
        slide(page, "weight-semantic", 0)
    page.locator("#weight-semantic").dispatch_event("change")
    assert asked.value.post_data_json["weights"] == {"semantic": 0, "keyword": 1, "graph": 0, "tags": 0}
    bench.settled()
    assert ids(page) != before
    assert state(page)["weights"] == ["0,50,0,0"]
    page.get_by_role("button", name="Preset's weights").click()
    bench.settled()
    assert "weights" not in state(page)


@pytest.mark.parametrize(
    ("preset", "slider", "value", "option"),
    [
        ("memories", "set-alpha", 0.3, "alpha"),
        ("auto", "set-recency", 0.9, "recency"),
        ("wiki", "set-recency", 1, "recency"),
    ],
)
def test_alpha_recency_preset_and_fusion_are_those_of_the_server(bench, preset, slider, value, option):
    page = bench.open(q=QUERY)
    page.select_option("#set-preset", preset)
    bench.settled()
    with page.expect_request("**/search") as asked:
        slide(page, slider, value)
    assert asked.value.post_data_json[option] == value
    bench.settled()
    page.select_option("#set-fusion", "weighted")
    bench.settled()
    assert "weighted" in page.locator("#told").inner_text()
    assert state(page) | {"q": []} == {"q": [], option: [str(value)], "fusion": ["weighted"]} | (
        {} if preset == "auto" else {"preset": [preset]}
    )


def test_copies_of_a_search_give_the_same_results(bench):
    page = bench.open(
        q="it's an invoice", tag=["finance", "billing"], any_tag="1", fusion="weighted", weights="30,70,0,10"
    )
    expected = ids(page)
    page.click("#copy-button")
    texts = {name: page.locator(f"#copy-{name}").inner_text() for name in ("CLI", "Python", "JSON", "curl")}
    with bench.server.client() as client:
        answer: Any = client.post("/v1/namespaces/default/search", json=json.loads(texts["JSON"])).json()
    assert [result["id"] for result in answer["results"]] == expected
    environment = {**os.environ, "FOURFOLD_EMBEDDER": "none", "PYTHONWARNINGS": "ignore"}
    words = [sys.executable, "-m", "fourfold", *shlex.split(texts["CLI"].replace(" search ", " search --json "))[1:]]
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert [result["id"] for result in json.loads(shown.stdout)["results"]] == expected
    shown = subprocess.run(
        [sys.executable, "-c", texts["Python"]], env=environment, capture_output=True, text=True, check=True
    )
    assert [int(line.split()[0]) for line in shown.stdout.splitlines()] == expected
    if shutil.which("curl"):
        shown = subprocess.run(["sh", "-c", texts["curl"]], capture_output=True, text=True, check=True)
        assert [result["id"] for result in json.loads(shown.stdout)["results"]] == expected
    page.keyboard.press("Escape")
    page.wait_for_selector("#copies", state="hidden")


def test_copies_spell_every_filter(bench):
    filters = {"created_from": "2025-07-01", "created_to": "2026-09-30", "metadata": '{"lang": "en"}', "kind": "note"}
    page = bench.open(q="-invoice", **filters, where="not tag in (people)", top_k=20, sources="agent=0.8,import=0.5")
    expected = ids(page)
    assert len(expected) > 3
    page.click("#copy-button")
    environment = {**os.environ, "FOURFOLD_EMBEDDER": "none"}
    words = shlex.split(page.locator("#copy-CLI").inner_text().replace(" search ", " search --json "))
    words = [sys.executable, "-m", "fourfold", *words[1:]]
    shown = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert [result["id"] for result in json.loads(shown.stdout)["results"]] == expected
    python = [sys.executable, "-c", page.locator("#copy-Python").inner_text()]
    shown = subprocess.run(python, env=environment, capture_output=True, text=True, check=True)
    assert [int(line.split()[0]) for line in shown.stdout.splitlines()] == expected


def test_compare_begins_with_questions_and_shows_a_difference_for_nearly_all(bench):
    page = bench.open()
    page.get_by_role("button", name="Compare").click()
    questions = page.locator("#view-compare .chip").all_inner_texts()
    assert len(questions) == 8
    differences = 0
    for question in questions:
        page.locator("#view-compare .chip", has_text=question).click()
        bench.settled()
        left, right = (ids(page, f".side[data-side={name}] ol") for name in "AB")
        differences += left != right
        assert state(page) == {"q": [question], "view": ["compare"]}
        page.go_back()
        bench.settled()
    assert differences >= 7


def test_two_settings_are_compared_side_by_side(bench):
    page = bench.open(q=QUERY)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".pair")
    left, right = (ids(page, f".side[data-side={name}] ol") for name in "AB")
    shared = set(left) & set(right)
    counts = {
        each.get_attribute("data-count"): int(each.locator("strong").inner_text())
        for each in page.locator(".counts li").all()
    }
    assert counts["shared"] == len(shared) > 0
    assert counts["only in A"] == counts["only in B"] == 10 - len(shared) > 0
    assert {int(each.get_attribute("data-id") or 0) for each in page.locator(".threads path").all()} == shared
    page.locator("#sides [data-side=b]").click()
    page.select_option("#set-fusion", "")
    bench.settled()
    assert state(page) == {"q": [QUERY], "b.preset": ["auto"], "side": ["b"], "view": ["compare"]}
    assert ids(page, ".side[data-side=B] ol") == left
    slide(page, "weight-semantic", 100)
    bench.settled()
    assert ids(page, ".side[data-side=A] ol") == left
    assert ids(page, ".side[data-side=B] ol") != left


def test_a_link_shows_the_same_ranking_and_back_returns(bench):
    page = bench.open(q=QUERY, preset="memories", alpha="0.4", recency="0.5", top_k="20", tag="finance")
    expected = ids(page)
    link = page.url
    page.locator(".card h3 button").first.click()
    page.wait_for_selector("#item[open]")
    assert state(page)["item"] == [str(expected[0])]
    page.go_back()
    page.wait_for_selector("#item", state="hidden")
    other = page.context.new_page()
    other.goto(link)
    other.wait_for_selector("body:not(.busy) .card")
    assert ids(other) == expected
    assert other.locator("#query").input_value() == QUERY
    assert other.locator("#set-alpha").input_value() == "0.4"
    assert other.locator("#set-preset").input_value() == "memories"


def test_the_page_works_by_keyboard(bench):
    page = bench.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#query").focus()
    page.keyboard.type("invoice")
    page.keyboard.press("Enter")
    page.wait_for_selector(".card")
    bench.settled()
    page.locator("#weight-keyword").focus()
    page.keyboard.press("Home")
    bench.settled()
    assert state(page)["weights"][0].split(",")[1] == "0"
    assert page.evaluate("document.activeElement.id") == "weight-keyword"
    title = page.locator(".card h3 button").first
    title.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#item[open]")
    assert page.evaluate("document.activeElement.closest('dialog').id") == "item"
    page.keyboard.press("Escape")
    page.wait_for_selector("#item", state="hidden")
    page.locator(".bars").first.focus()
    page.keyboard.press("Space")
    assert page.locator(".card .lines").count() == 1


def test_keys_reach_the_question_and_move_through_results(bench):
    page = bench.open(q="invoice")
    focused = "document.activeElement.closest('.card')?.dataset.id ?? document.activeElement.id"
    page.keyboard.press("/")
    assert page.evaluate(focused) == "query"
    page.keyboard.type("/s")
    assert page.input_value("#query") == "invoice/s"
    first, second, *_ = (str(each) for each in ids(page))
    for key, expected in (("Down", first), ("Down", second), ("Up", first), ("Up", "query"), ("Up", "query")):
        page.keyboard.press(f"Arrow{key}")
        assert page.evaluate(focused) == expected
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("#item[open]")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.closest('dialog').id") == "item"


def test_keys_walk_tabs_and_the_graph_without_losing_the_focus(bench):
    page = bench.open(q="What uses Rabenhorst?", item="key:rabenhorst")
    page.locator("#tab-text").focus()
    for key, tab in (("Right", "chunks"), ("Right", "graph"), ("Left", "chunks"), ("Right", "graph")):
        page.keyboard.press(f"Arrow{key}")
        page.wait_for_selector(f"#tab-{tab}[aria-selected=true]:focus")
    assert page.locator("#item [role=tab][tabindex='0']").count() == 1
    page.locator("#item .node[data-name=Paketfuchs]").press("Enter")
    page.wait_for_selector("#item .node.step-0[data-name=Paketfuchs]:focus")
    page.keyboard.press("Escape")
    page.wait_for_selector("#item", state="hidden")
    bench.open()
    centre = page.locator("#start .node.step-0").get_attribute("data-name")
    page.locator("#start .node.step-1").first.press("Enter")
    page.wait_for_selector(f'#start .node.step-0:focus:not([data-name="{centre}"])')


# ---------------------------------------------------------------- sliders


SEARCHES = re.compile(r"/search$")


def ranked(bench, **options):
    """The ids of the server's results."""
    with bench.server.client() as client:
        answer = client.post("/v1/namespaces/default/search", json={"query": QUERY, "top_k": 100, **options}).json()
    return [result["id"] for result in answer["results"]]


def test_a_move_of_a_slider_shows_the_order_of_the_server(bench):
    page = bench.open(q=QUERY, fusion="weighted", weights="50,50,0,0", top_k=100)
    orders = [ids(page)]
    for value in range(0, 100, 20):
        slide(page, "weight-keyword", value)
        bench.settled()
        orders.append(ids(page))
        weights = {"semantic": 50 / (50 + value), "keyword": value / (50 + value)}
        assert orders[-1] == ranked(bench, fusion="weighted", weights=weights)
    assert len({tuple(order) for order in orders}) > 3


def test_answers_are_small_until_the_slider_is_released(bench):
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


def test_a_slider_that_moves_on_cancels_what_was_asked_before(bench):
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


def test_an_answer_for_an_earlier_position_is_not_shown(bench):
    page = bench.open(q=QUERY, fusion="weighted", weights="50,50,50,50", top_k=100)
    before = ids(page)
    page.evaluate(
        "window.shown = []; new MutationObserver(() => window.shown.push("
        "[...document.querySelectorAll('#results > li')].map((card) => Number(card.dataset.id))))"
        ".observe(document.querySelector('#results'), { childList: true })"
    )
    held = []
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


def test_a_question_that_is_on_its_way_survives_a_move_of_a_slider(bench):
    page = bench.open(q="kitchen recipe")
    held = []
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


def test_a_reranker_is_a_colour_of_the_bars(bench):
    page = bench.open(ns="files", q="what does the router do?", rerank="ms-marco")
    assert "rerank" in page.locator("#legend li").all_inner_texts()


def test_the_names_in_the_page_are_those_of_python(bench):
    told = bench.open().evaluate("import('/state.js').then((m) => [m.RETRIEVERS, m.PRESETS, m.RERANKERS])")
    assert told[0] == {spec.name: spec.score for spec in RETRIEVERS.values()}
    assert list(told[0]) == list(RETRIEVERS)
    assert told[1] == list(PRESETS)
    assert all(map(is_rerank, told[2]))

"""Items in the page: text, chunks, sources, graph, why; edit, delete with undo; proposals, evaluation."""

import json
import os
import re
import subprocess
import sys
import zipfile

import pytest
from http_server import serving
from test_web_search import QUERY, ids, state
from web_stores import SPOKES
from workbench import working

from fourfold import NewItem, connect

pytestmark = pytest.mark.spec("C10")

TEXTS = {
    "red": "The red bicycle is in the cellar",
    "blue": "The blue bicycle was sold in spring",
    "cake": "A recipe for a cake with plums",
}


def notes(bench, namespace):
    """Three items in a namespace of the test's own; one of them is drawn from a raw record."""
    base = f"/v1/namespaces/{namespace}"
    with bench.server.client() as client:
        raw = client.post(f"{base}/raw", json={"content": "Ada: it is down there", "speaker": "Ada"}).json()
        sent = [
            {
                "key": key,
                "title": f"Note {key}",
                "text": text,
                "tags": ["bike"],
                "source_ids": [raw["id"]] if key == "red" else [],
            }
            for key, text in TEXTS.items()
        ]
        stored = client.post(f"{base}/items:batch", json={"items": sent, "wait": True}).json()["items"]
    return {item["key"]: item for item in stored}


def read(bench, namespace, item):
    with bench.server.client() as client:
        return client.get(f"/v1/namespaces/{namespace}/items/{item}")


def opened(page):
    page.wait_for_selector("#item[open]")
    return page.locator("#item")


def test_an_item_shows_its_text_tags_metadata_vector_and_links(bench):
    page = bench.open(q=QUERY)
    page.locator(".card h3 button").first.click()
    dialog = opened(page)
    assert dialog.locator("h2").inner_text() == "Double invoices in August"
    assert "Ledgerline sent 214" in dialog.locator("pre.text").inner_text()
    assert {"billing", "postmortem"} == set(dialog.locator(".tag").all_inner_texts())
    assert dialog.locator("dt").all_inner_texts() == ["lang", "severity"]
    assert dialog.locator(".vector").inner_text() == "vector ready"
    dialog.get_by_role("tab", name="Graph").click()
    page.wait_for_selector(".graph-drawing")
    assert state(page)["tab"] == ["graph"]
    with page.expect_response("**/items/*") as read_again:
        page.reload()
    assert read_again.value.ok
    page.wait_for_selector("#item[open] .graph-drawing")


def test_chunks_of_a_file_are_listed_around_the_item(bench):
    page = bench.open(ns="files", q="how does the router work in office 3")
    page.locator(".card h3 button").first.click()
    dialog = opened(page)
    dialog.get_by_role("tab", name="Chunks").click()
    assert dialog.locator(".chunks li").count() > 1
    other = dialog.locator(".chunks li:not(.current) button").first
    name = other.inner_text()
    other.click()
    dialog.locator(".chunks .current", has_text=name).wait_for()


def test_raw_sources_are_shown(bench):
    item = notes(bench, "sources")["red"]
    page = bench.open(ns="sources", item=item["id"], tab="sources")
    dialog = opened(page)
    assert "Ada: it is down there" in dialog.locator("pre.text").inner_text()
    assert "Ada" in dialog.locator("#tab-body .meta").inner_text()


def test_an_edit_is_stored_unless_the_item_changed_meanwhile(bench):
    item = notes(bench, "edits")["red"]
    page = bench.open(ns="edits", q="bicycle", item=item["id"])
    dialog = opened(page)
    dialog.get_by_role("button", name="Edit").click()
    page.fill("#edit-title", "Where the red one is")
    page.fill("#edit-tags", "bike, cellar")
    page.fill("#edit-metadata", '{"floor": -1}')
    dialog.get_by_role("button", name="Save").click()
    dialog.locator("h2", has_text="Where the red one is").wait_for()
    stored = read(bench, "edits", str(item["id"])).json()
    assert (stored["title"], stored["tags"], stored["metadata"]) == (
        "Where the red one is",
        ["bike", "cellar"],
        {"floor": -1},
    )
    assert stored["content"] == TEXTS["red"]
    dialog.get_by_role("button", name="Edit").click()
    with bench.server.client() as client:
        client.patch(f"/v1/namespaces/edits/items/{item['id']}", json={"title": "another hand"})
    bench.refused = True
    page.fill("#edit-text", "lost update")
    dialog.get_by_role("button", name="Save").click()
    page.wait_for_selector("#item .warning:not([hidden])")
    assert "has changed" in dialog.locator(".warning").inner_text()
    assert read(bench, "edits", str(item["id"])).json()["content"] == TEXTS["red"]
    bench.settled()


def test_a_deletion_can_be_undone_and_then_leaves_everything_as_it_was(bench):
    item = notes(bench, "deletions")["red"]
    before = read(bench, "deletions", str(item["id"])).content
    page = bench.open(ns="deletions", q="bicycle", item=item["id"])
    opened(page).get_by_role("button", name="Delete").click()
    page.wait_for_selector(".toast")
    page.wait_for_selector(".card.leaving")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_selector(".toast", state="detached")
    assert read(bench, "deletions", str(item["id"])).content == before
    assert bench.sent("DELETE", "/items/") == 0
    bench.settled()
    page.locator(f".card[data-id='{item['id']}'] h3 button").click()
    opened(page).get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete now").click()
    page.wait_for_selector(f".card[data-id='{item['id']}']", state="detached")
    assert read(bench, "deletions", str(item["id"])).status_code == 404
    assert bench.sent("DELETE", f"/items/{item['id']}$") == 1


def test_a_deletion_that_waits_happens_when_the_page_is_left(bench):
    item = notes(bench, "leaving")["cake"]
    page = bench.open(ns="leaving", q="cake", item=item["id"])
    opened(page).get_by_role("button", name="Delete").click()
    page.wait_for_selector(".toast")
    page.goto("about:blank")
    for _ in range(50):
        if read(bench, "leaving", str(item["id"])).status_code == 404:
            return
        page.wait_for_timeout(100)
    pytest.fail("the item is still there")


# ---------------------------------------------------------------- graph


def test_the_graph_is_walked_by_click_and_key(bench):
    page = bench.open(q="What uses Rabenhorst?", item="key:rabenhorst", tab="graph")
    page.wait_for_selector(".graph-drawing")
    names = page.locator(".node").evaluate_all("nodes => nodes.map(node => node.dataset.name)")
    assert {"Rabenhorst", "Paketfuchs", "Jonas Wedekamp"} <= set(names)
    assert page.locator(".edges line").count() >= 7
    page.locator(".node[data-name=Paketfuchs] circle").click()
    page.wait_for_selector(".node.step-0[data-name=Paketfuchs]")
    assert state(page)["node"] == ["Paketfuchs"]
    page.locator(".node[data-name=Rabenhorst]").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".node.step-0[data-name=Rabenhorst]")
    page.get_by_role("button", name="Two steps").click()
    page.wait_for_selector(".node.step-2")
    page.go_back()
    page.wait_for_selector(".node.step-0[data-name=Paketfuchs]")
    assert bench.sent("GET", "/graph/around$") >= 4


def test_a_node_with_many_neighbours_is_a_table(bench):
    page = bench.open(ns="hub", q="Spoke 1", node="Hub")
    page.locator(".card").first.get_by_role("button", name="Graph", exact=True).click()
    page.locator("#item .chip", has_text="Hub").click()
    page.wait_for_selector(".neighbors")
    assert page.locator(".graph-drawing").count() == 0
    assert page.locator(".neighbors tbody tr").count() == 100
    page.get_by_role("button", name=re.compile(f"Show more of {SPOKES // 10}.")).click()
    page.locator(".neighbors tbody tr").nth(199).wait_for()
    page.locator(".neighbors").get_by_role("button", name="Spoke 1", exact=True).click()
    page.wait_for_selector(".node[data-name=End]")


LEGIBLE = """() => {
    const drawing = document.querySelector('#item .graph-drawing');
    const frame = drawing.getBoundingClientRect();
    const sizes = [...drawing.querySelectorAll('text')].map((text) => text.getBoundingClientRect());
    const across = (a, b) => a.left < b.right - 2 && b.left < a.right - 2;
    const down = (a, b) => a.top < b.bottom - 4 && b.top < a.bottom - 4;
    return {
        lowest: Math.min(...sizes.map((size) => size.height)),
        outside: sizes.filter((size) => size.left < frame.left - 1 || size.right > frame.right + 1).length,
        overlapping: sizes.filter((a, place) => sizes.slice(place + 1).some((b) => across(a, b) && down(a, b))).length,
    };
}"""


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("depth", [1, 2])
def test_the_names_in_a_graph_are_legible_and_cover_each_other_nowhere(bench, width, depth):
    bench.page.set_viewport_size({"width": width, "height": 900})
    page = bench.open(item="key:rabenhorst", tab="graph")
    page.wait_for_selector(".graph-drawing")
    if depth == 2:
        page.locator("#item").get_by_role("button", name="Two steps").click()
        page.wait_for_selector("#item .node.step-2")
    found = page.evaluate(LEGIBLE)
    assert found["lowest"] > 11
    assert (found["outside"], found["overlapping"]) == (0, 0)


@pytest.mark.parametrize("width", [1280, 400])
def test_two_nodes_lie_side_by_side_in_a_low_drawing(bench, width):
    with bench.server.client() as client:
        for title, text in (("Checkout", "It takes orders"), ("Kestrel", "A database")):
            client.post("/v1/namespaces/pair/items", json={"title": title, "text": text})
        edges = [{"from": "Checkout", "relation": "depends on", "to": "Kestrel"}]
        client.post("/v1/namespaces/pair/graph/edges", json={"edges": edges}).raise_for_status()
    bench.page.set_viewport_size({"width": width, "height": 900})
    page = bench.open(ns="pair")
    drawing, left, right = (
        page.locator(f"#start {place}").bounding_box() or {}
        for place in (".graph-drawing", ".node.step-0 circle", ".node.step-1 circle")
    )
    assert drawing["height"] < 250
    assert abs(left["y"] + left["height"] / 2 - right["y"] - right["height"] / 2) < 2
    assert right["x"] - left["x"] > 150
    assert page.locator("#start .graph-drawing text").all_text_contents()[0] == "depends on"


# ---------------------------------------------------------------- why


def test_why_not_this_one_names_the_stage_that_dropped_it(bench):
    page = bench.open(q=QUERY)
    page.get_by_role("button", name="Why not this one?").click()
    page.fill("#whynot-input", "Rabenhorst database")
    page.keyboard.press("Enter")
    page.locator(".suggestions").get_by_role("button", name="Rabenhorst 27").click()
    page.wait_for_selector("#whynot .dropped")
    assert page.locator("#whynot .dropped").get_attribute("data-stage") == "results"
    assert "10 are asked for" in page.locator("#whynot .dropped").inner_text()
    page.fill("#whynot-input", "999999")
    bench.refused = True
    page.keyboard.press("Enter")
    page.wait_for_selector("#whynot .warning")
    page.keyboard.press("Escape")


@pytest.mark.parametrize(
    ("asked", "item", "stage"),
    [
        ({"q": QUERY, "tag": "people"}, "key:double-invoices", "filters"),
        ({"q": "BRK-4471-B", "weights": "0,100,0,0", "fusion": "rrf"}, "key:rabenhorst", "fusion"),
        ({"q": QUERY}, "key:double-invoices", None),
    ],
)
def test_each_stage_that_can_drop_an_item_is_named(bench, asked, item, stage):
    page = bench.open(**asked)
    page.get_by_role("button", name="Why not this one?").click()
    page.fill("#whynot-input", item)
    page.keyboard.press("Enter")
    page.wait_for_selector("#whynot .stages")
    dropped = page.locator("#whynot .dropped")
    assert (dropped.get_attribute("data-stage") if dropped.count() else None) == stage


def test_copies_and_further_chunks_of_a_file_are_named_as_such(bench):
    page = bench.open(ns="files", q="how does the door work in office", top_k=100)
    results = ids(page)
    body = {"query": "how does the door work in office", "top_k": 100, "candidates": True}
    with bench.server.client() as client:
        answer = client.post("/v1/namespaces/files/search", json=body).json()
    order = [id for id, _ in answer["candidates"]["order"]]
    stages = set()
    page.get_by_role("button", name="Why not this one?").click()
    for item in [each for each in order if each not in results][:12]:
        page.fill("#whynot-input", str(item))
        with page.expect_response("**/why"):
            page.keyboard.press("Enter")
        page.wait_for_selector("#whynot .dropped")
        stages.add(page.locator("#whynot .dropped").get_attribute("data-stage"))
    assert stages == {"same text", "limit per file"}


# ---------------------------------------------------------------- judgements


def test_judged_results_are_a_collection_that_eval_reads(bench, tmp_path):
    items = notes(bench, "judged")
    page = bench.open(ns="judged", q="where is the bicycle")
    for key, verdict in (("red", "Relevant"), ("blue", "Not relevant"), ("cake", "Not relevant")):
        page.locator(f".card[data-id='{items[key]['id']}']").get_by_role(
            "button", name=re.compile(f"^{verdict}: ")
        ).click()
        page.wait_for_selector(f".card[data-id='{items[key]['id']}'] .verdict[aria-pressed=true]")
        assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    again = page.locator(f".card[data-id='{items['cake']['id']}'] .verdict[aria-pressed=true]")
    again.click()
    again.wait_for(state="detached")
    page.get_by_role("button", name="Evaluate").click()
    assert "2 judgements of 1 query" in page.locator("#view-evaluate").inner_text()
    page.locator("#sides [data-side=b]").click()
    page.select_option("#set-fusion", "weighted")
    bench.settled()
    page.get_by_role("button", name="Measure A and B").click()
    page.wait_for_selector(".metrics")
    metrics = {
        row.locator("td").first.inner_text(): row.locator("td").all_inner_texts()
        for row in page.locator(".metrics tbody tr").all()
    }
    assert metrics["ndcg@10"][1] == "1.0000"
    assert page.locator(".by-query tbody tr").count() == 1
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download the collection").click()
    with zipfile.ZipFile(saved.value.path()) as archive:
        archive.extractall(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl", "qrels.tsv", "queries.jsonl"]
    environment = {**os.environ, "FOURFOLD_EMBEDDER": "none"}
    shown = subprocess.run(
        [sys.executable, "-m", "fourfold", "eval", str(tmp_path), "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["queries"] == 1
    page.locator(".by-query button").click()
    page.wait_for_selector(".pair")
    assert state(page)["q"] == ["where is the bicycle"]


def test_an_evaluation_is_drawn_and_told(bench):
    page = bench.open(view="evaluate", **{"b.preset": "wiki"})
    with (
        page.expect_response("**/evaluation") as first,
        page.expect_response(
            lambda answer: answer.url.endswith("/evaluation") and answer.request.post_data_json["preset"] == "wiki"
        ) as second,
    ):
        page.get_by_role("button", name="Measure A and B").click()
    sides = [each.value.json()["questions"] for each in (first, second)]
    page.wait_for_selector(".plots")
    gains = [b["scores"]["ndcg@10"] - a["scores"]["ndcg@10"] for a, b in zip(*sides, strict=True)]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    assert worse > better > 0
    told = page.locator(".gains").get_attribute("aria-label") or ""
    assert (
        f"B is better for {better}, worse for {worse}, equal for {len(gains) - better - worse} of {len(gains)}" in told
    )
    heights = page.locator(".gains rect").evaluate_all("bars => bars.map((bar) => Number(bar.getAttribute('height')))")
    assert sum(height > 0 for height in heights) == better + worse
    assert page.locator(".by-query").first.locator("tbody tr").count() == better + worse
    page.locator("figure summary").click()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("figure tbody tr").all()]
    assert len(rows) == page.locator(".calibration g").count() > 6
    for side, questions in zip("AB", sides, strict=True):
        sure = [each["scores"]["hit@1"] for each in questions if each["confidence"] >= 0.8]
        share = f"{round(100 * sum(sure) / len(sure))} %"
        assert [side, "80–100 %", str(len(sure)), share] in rows
        assert f"{side}, confidence 80–100 %: {share} of {len(sure)} relevant" in (
            page.locator(".calibration").get_attribute("aria-label") or ""
        )


# ---------------------------------------------------------------- proposals


SAID = [
    "From now on deploy only from the release branch.",
    "<img src=x onerror=alert(1)> never use tabs",
    "Ann is away",
]


def test_proposals_are_kept_edited_and_dropped(browser, tmp_path):
    expect = pytest.importorskip("playwright.sync_api").expect
    with (
        serving(tmp_path / "store", FOURFOLD_EMBEDDER="none") as server,
        working(browser, server) as bench,
        connect(server.url) as memory,
    ):
        items = [NewItem(text, kind="preference", metadata={"confidence": 0.9}) for text in SAID]
        memory.propose(items, "s1", speaker="user")
        page = bench.open()
        section = page.get_by_role("region", name="Proposals")
        expect(section).to_contain_text("3 proposals of what to remember")
        assert section.locator(".snippet").all_inner_texts() == SAID[::-1]
        assert "90 %" in section.inner_text()
        section.locator(".card", has_text="Ann").get_by_role("button", name="Drop").click()
        expect(section).to_contain_text("2 proposals")
        section.locator(".card", has_text="release branch").get_by_role("button", name="Edit").click()
        section.get_by_label("What to store").fill("Deploy from the release branch.")
        section.locator(".card", has=page.get_by_label("What to store")).get_by_role("button", name="Keep").click()
        expect(section).to_contain_text("1 proposal of")
        section.get_by_role("button", name="Keep").click()
        expect(section).to_have_count(0)
        assert {item.text for item in memory.list()} == {"Deploy from the release branch.", SAID[1]}
        assert [each.text for each in memory.proposals(dropped=True)] == ["Ann is away"]

"""The fusion in the browser: the same table, order and scores as on the server, for random settings."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from test_web_search import ids, slide

from fourfold.ranking.fusion import FILE_NAME_PRESETS
from fourfold.ranking.presets import PRESETS
from fourfold.ranking.rerank import SHARE
from fourfold.ranking.rerankers import is_rerank
from fourfold.ranking.retrievers import RETRIEVERS

pytestmark = pytest.mark.spec("C10")

if TYPE_CHECKING:
    from conftest import Workbench
    from playwright.sync_api import Route

QUESTIONS = (
    ("default", "What did we decide after invoices went out twice?"),
    ("default", "What uses Rabenhorst?"),
    ("default", "kitchen recipe BRK-4471-B"),
    ("files", "how does the router.md work in office 3"),
)
SEARCHES = re.compile(r"/search$")
SETTINGS = 50
"""For each question."""
RANKED = """async ([namespace, text, settings]) => {
    const { Question } = await import('/ranking.js');
    const question = new Question(namespace, text, {});
    const found = [];
    const last = new Map();
    let slowest = 0;
    for (const setting of settings) {
        const before = last.get(setting.preset + setting.fusion) ?? null;
        const begun = performance.now();
        const preview = question.preview(setting, before);
        if (preview) slowest = Math.max(slowest, performance.now() - begun);
        const ranked = await question.checked(setting);
        last.set(setting.preset + setting.fusion, ranked);
        const theirs = ranked.answer.candidates.order;
        const ids = (order) => order.map(([id]) => id).join();
        found.push({
            difference: ranked.difference,
            apart: Math.max(0, ...theirs.map(([id, score]) => Math.abs(score - ranked.scores.get(id)))),
            previewed: preview !== null && ranked.plan.fusion !== 'auto',
            preview: preview === null || ranked.plan.fusion === 'auto' || ids(preview.fused.order) === ids(theirs),
            lines: ranked.plan.strength > 0 || ranked.plan.sources || theirs.slice(0, 20).every(
                ([id, score]) => ranked.fused.lines(id).reduce((sum, line) => sum + line.value, 0) === score
            ),
            candidates: theirs.length,
        });
    }
    return { found, slowest };
}"""


def random_setting(chance: random.Random) -> dict[str, Any]:
    preset = chance.choice(list(PRESETS))
    weights = [chance.choice((0, chance.randrange(101))) for _ in RETRIEVERS]
    given = sum(weights) > 0 and chance.random() < 0.75
    return {
        "preset": preset,
        "fusion": chance.choice((None, "auto", "rrf", "weighted")),
        "weights": weights if given else None,
        "alpha": round(chance.random(), 2) if not given and preset == "memories" and chance.random() < 0.7 else None,
        "recency": chance.choice((None, None, 0, 1, round(chance.random(), 2))),
        "rerank": None,
        "sources": chance.choice((None, None, "user=0.5", "file=0.25,user=0.7")),
        "top_k": chance.choice((5, 10, 50)),
    }


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_the_order_of_the_page_is_that_of_the_server_for_random_settings(
    bench: Workbench, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(number)
    settings = [random_setting(chance) for _ in range(SETTINGS)]
    page = bench.open(ns=QUESTIONS[number][0])
    answer = page.evaluate(RANKED, [*QUESTIONS[number], settings])
    for setting, one in zip(settings, answer["found"], strict=True):
        assert one["difference"] == "", setting
        assert one["apart"] == 0, setting
        assert one["preview"], setting
        assert one["lines"], setting
    assert sum(one["previewed"] for one in answer["found"]) > SETTINGS // 10
    most = max(one["candidates"] for one in answer["found"])
    with capsys.disabled():
        print(f"\n  re-ranking up to {most} candidates in the browser: {answer['slowest']:.1f} ms at most")  # noqa: T201


def test_the_order_of_the_page_is_that_of_the_server_with_a_reranker(bench: Workbench) -> None:
    plain: dict[str, Any] = {"fusion": None, "weights": None, "alpha": None, "recency": None, "top_k": 10}
    settings = [{**plain, "preset": preset, "rerank": "ms-marco"} for preset in ("auto", "files")]
    page = bench.open(ns="files")
    answer = page.evaluate(RANKED, ["files", "how does the router.md work in office 3", settings])
    assert [(one["difference"], one["apart"], one["lines"]) for one in answer["found"]] == [("", 0, True)] * 2
    read = page.evaluate(
        "async (setting) => { const { Question } = await import('/ranking.js');"
        " const ranked = await new Question('files', 'what does the router do?', {}).checked(setting);"
        " return ranked.fused.lines(ranked.ids[0]).map((line) => line.source); }",
        settings[0],
    )
    assert "rerank" in read


def test_a_move_of_a_slider_draws_the_new_order_at_once(bench: Workbench, capsys: pytest.CaptureFixture[str]) -> None:
    page = bench.open(q=QUESTIONS[0][1], fusion="weighted", weights="50,50,50,50", top_k=100)
    orders, times = [ids(page)], []
    for value in range(0, 100, 10):
        times.append(slide(page, "weight-keyword", value))
        orders.append(ids(page))
    assert len({tuple(order) for order in orders}) > 5
    bench.settled()
    assert ids(page) == orders[-1]
    page.wait_for_selector(".check.same")
    with capsys.disabled():
        print(f"\n  slider to layout of 100 cards: {min(times):.0f} to {max(times):.0f} ms")  # noqa: T201


def test_the_table_of_retrievers_in_the_page_is_that_of_python(bench: Workbench) -> None:
    page = bench.open()
    told = page.evaluate("import('/fusion.js').then(m => ({all: m.RETRIEVERS, naming: m.NAMING, per: m.PER_SOURCE}))")
    assert told["all"] == [
        {
            "name": spec.name,
            "score": spec.score,
            "scale": spec.scale,
            "expansion": spec.expansion,
            "expandsWeighted": spec.expands_weighted,
        }
        for spec in RETRIEVERS.values()
    ]
    assert set(told["naming"]) == FILE_NAME_PRESETS
    assert told["per"] == {name: preset.per_source for name, preset in PRESETS.items() if preset.per_source}
    assert page.evaluate("import('/state.js').then(m => m.PRESETS)") == list(PRESETS)
    assert all(map(is_rerank, page.evaluate("import('/state.js').then(m => m.RERANKERS)")))
    assert page.evaluate("import('/fusion.js').then(m => m.RERANK_SHARE)") == SHARE


def test_the_sum_of_the_page_is_rounded_as_fsum(bench: Workbench) -> None:
    import math

    chance = random.Random(1)
    rows = [[chance.uniform(-1, 1) * 10 ** chance.randint(-12, 12) for _ in range(6)] for _ in range(300)]
    page = bench.open()
    sums = page.evaluate("(rows) => import('/fusion.js').then(m => rows.map((row) => m.fsum(row)))", rows)
    assert sums == [math.fsum(row) for row in rows]
    grids = page.evaluate(
        "(rows) => import('/fusion.js').then(m => rows.map((x) => m.gridFor(x)))", [0, 0.25, 1, 1.7, 3e-9]
    )
    assert grids == [math.ldexp(1.0, math.frexp(x)[1]) for x in (0, 0.25, 1, 1.7, 3e-9)]


def test_an_answer_for_an_earlier_position_does_not_replace_the_order(bench: Workbench) -> None:
    page = bench.open(q=QUESTIONS[0][1], fusion="weighted", weights="50,50,50,50", top_k=100)
    bench.settled()
    held: list[Route] = []
    page.route(SEARCHES, lambda route: route.continue_() if held else held.append(route))
    with page.expect_request(SEARCHES):
        slide(page, "weight-keyword", 0)
    slide(page, "weight-keyword", 90)
    order = ids(page)
    page.evaluate(
        "window.shown = []; new MutationObserver(() => window.shown.push("
        "[...document.querySelectorAll('#results > li')].map((card) => Number(card.dataset.id))))"
        ".observe(document.querySelector('#results'), { childList: true })"
    )
    with page.expect_response(SEARCHES):
        held[0].continue_()
    bench.settled()
    assert all(shown == order for shown in page.evaluate("window.shown"))
    assert ids(page) == order

"""Safety of the page: it runs no stored content, stays in its namespace, and hides tokens."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from http_server import serving
from test_web_search import QUERY, ids
from web_stores import HOSTILE
from workbench import working

from fourfold.serve.http.app import WEB, page_files

pytestmark = pytest.mark.spec("C10")


MINE, ALL = "mine-0123456789abcdef", "all-0123456789abcdef"
PARSING = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function"
    r"|srcdoc|setAttribute\(['\"](style|on)|https?://(?!www\.w3\.org/2000/svg)"
)


# ---------------------------------------------------------------- stored content


def test_stored_markup_is_shown_as_text(bench):
    page = bench.open(ns="hostile", q="hostile title", top_k=20)
    titles = page.locator(".card h3").all_inner_texts()
    for text in HOSTILE:
        assert any(text in title for title in page.locator(".card h3").all_text_contents()), text
    assert len(titles) == len(HOSTILE) + 1
    for place in range(len(titles)):
        page.locator(".card h3 button").nth(place).click()
        page.wait_for_selector("#item[open] pre.text")
        for tab in ("Chunks", "Graph", "Sources", "Why"):
            page.locator("#item").get_by_role("tab", name=tab).click()
        page.wait_for_selector("#item .stages")
        page.keyboard.press("Escape")
        page.wait_for_selector("#item", state="hidden")
    assert page.title() == "Fourfold"
    assert page.locator("main script, main img, main a, dialog img, dialog a, dialog script").count() == 0
    assert page.locator(".card bdi").first.evaluate("each => getComputedStyle(each).unicodeBidi") == "isolate"
    page.get_by_role("button", name="Compare").click()
    page.wait_for_selector(".pair")
    page.click("#copy-button")
    assert page.title() == "Fourfold"


MARKDOWN = {
    "plain": (
        "A plain zebra, 2 * 3 * 4, snake_case_zebra and x**2",
        "A plain zebra, 2 * 3 * 4, snake_case_zebra and x**2",
    ),
    "blocks": (
        "# The zebra\n\n- one\n- two\n\n> said the zebra",
        "<strong>The zebra</strong><br>\n\n<br>• one\n<br>• two\n\nsaid the zebra",
    ),
    "inline": (
        "The **bold** *zebra* in `code` and _more_",
        "The bold <em>zebra</em> in <code>code</code> and <em>more</em>",
    ),
    "links": (
        "[a zebra](http://other.example/(x)), ![a picture](p.png) and [[Page|wiki]]",
        "a zebra, a picture and wiki",
    ),
    "script": (
        "[zebra](javascript:document.title=1) <script>document.title=2</script>",
        "zebra &lt;script&gt;document.title=2&lt;/script&gt;",
    ),
    "handler": (
        "*<img src=x onerror=document.title=3>* zebra `</code><b>`",
        "<em>&lt;img src=x onerror=document.title=3&gt;</em> zebra <code>&lt;/code&gt;&lt;b&gt;</code>",
    ),
    "attribute": (
        '[zebra" onclick="x](u" onclick="y) ![z](data:text/html,<b>x</b>)',
        '[zebra" onclick="x](u" onclick="y) z',
    ),
    "open": (
        "[zebra `never **closed *at _all <a href=//x.example",
        "[zebra `never **closed *at _all &lt;a href=//x.example",
    ),
}


def test_markdown_in_snippets_is_shown_without_links_pictures_or_html(bench):
    with bench.server.client() as client:
        items = [{"key": key, "title": key, "text": text} for key, (text, _) in MARKDOWN.items()]
        client.post("/v1/namespaces/markdown/items:batch", json={"items": items, "wait": True}).raise_for_status()
    page = bench.open(ns="markdown", q="zebra", top_k=20, weights="0,100,0,0", fusion="rrf")
    for key, (text, shown) in MARKDOWN.items():
        snippet = page.locator(".card", has=page.locator("h3", has_text=key)).locator(".snippet")
        html = snippet.inner_html()
        assert html.replace("<mark>", "").replace("</mark>", "") == shown
        assert "zebra" in snippet.locator("mark").all_inner_texts() or "**" in text, key
    assert page.title() == "Fourfold"
    assert page.locator("main a, main img, main script").count() == 0
    page = bench.open(ns="markdown")
    assert page.locator("#start .snippet em", has_text="zebra").count() == 1
    assert page.locator("#start .snippet strong", has_text="bold").count() == 1


def test_a_megabyte_of_text_is_shown_in_parts(bench):
    page = bench.open(ns="hostile", q="very long words")
    page.locator(".card h3 button").first.click()
    page.wait_for_selector("#item[open] pre.text")
    size = "() => document.querySelector('#item pre.text').textContent.length"
    assert page.evaluate(size) == 20_000
    page.get_by_role("button", name=re.compile("Show all 1,040,0.. characters")).click()
    assert page.evaluate(size) > 1_000_000


def test_a_hostile_link_is_only_an_invalid_query(bench):
    bench.refused = True
    hostile = {
        "q": HOSTILE[0],
        "ns": "<b>",
        "item": "../../x",
        "tab": "<i>",
        "weights": "1e999,0,0,0",
        "preset": "evil",
        "tag": HOSTILE[1],
    }
    page = bench.open(**hostile, top_k="-5", alpha="NaN", view="none", where="'")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.title() == "Fourfold"
    assert page.locator("main b, main i i, dialog i").count() == 0


def test_the_files_of_the_page_parse_no_markup_and_name_no_other_site():
    for file in WEB.iterdir():
        text = file.read_text(encoding="utf-8")
        found = [] if file.suffix == ".svg" else PARSING.findall(text)
        assert not found, (file.name, found)
        assert len(text.splitlines()) <= 300, file.name
    page = (WEB / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\son\w+=|style=|<script(?![^>]*src=)", page)


def test_the_page_has_a_strict_policy_and_its_files_are_packaged(server):
    with server.client() as client:
        for path in page_files():
            answer = client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
            assert "unsafe" not in policy
    kinds = {file.suffix for file in WEB.iterdir()}
    assert kinds == {".html", ".css", ".js", ".svg"}
    built = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert 'packages = ["src/fourfold"]' in built  # every file below it is part of the wheel


# ---------------------------------------------------------------- tokens


@pytest.fixture(scope="module")
def guarded(browser, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("guarded"), FOURFOLD_HTTP_TOKENS=f"mine:read:{MINE},*:{ALL}") as running:
        with running.client(ALL) as client:
            for namespace in ("mine", "other"):
                form = {"text": f"the secret of {namespace}", "title": namespace, "tags": [f"tag-{namespace}"]}
                client.post(f"/v1/namespaces/{namespace}/items", json=form)
        yield running


@pytest.fixture
def locked(browser, guarded):
    with working(browser, guarded) as opened:
        opened.refused = True
        yield opened


def unlock(bench, token):
    page = bench.page
    page.wait_for_selector("#token[open]")
    page.fill("#token-input", token)
    page.get_by_role("button", name="Use it").click()
    return page


def test_a_token_is_asked_for_and_kept_in_this_tab_only(locked):
    page = locked.open(q="secret", ns="mine")
    unlock(locked, "wrong")
    unlock(locked, MINE)
    page.wait_for_selector(".card")
    locked.settled()
    assert MINE not in page.url
    assert page.evaluate("JSON.stringify([localStorage, document.cookie, sessionStorage])").count(MINE) == 1
    assert page.evaluate("JSON.stringify([localStorage, document.cookie])").count(MINE) == 0
    page.reload()
    page.wait_for_selector(".card")
    page.click("#copy-button")
    assert MINE not in page.locator("#copies").inner_text()
    page.keyboard.press("Escape")
    page.click("#token-button")
    page.get_by_role("button", name="Forget").click()
    page.wait_for_selector("#token[open]")
    assert page.evaluate("sessionStorage.length") == 0


def test_a_restricted_token_sees_its_namespace_only(locked):
    page = locked.open(q="secret")
    unlock(locked, MINE)
    page.wait_for_selector(".card")
    assert page.locator("#namespace option").all_inner_texts() == ["mine"]
    assert page.locator(".card h3").all_inner_texts() == ["mine"]
    page = locked.open(q="secret", ns="other")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.locator(".card").count() == 0
    with locked.server.client(ALL) as client:
        other = client.get("/v1/namespaces/other/items").json()["items"][0]["id"]
    for view in (
        {"ns": "other", "view": "compare"},
        {"ns": "other", "item": other},
        {"ns": "mine", "item": other, "tab": "why"},
    ):
        content = locked.open(q="secret of other", **view).content()
        assert "tag-other" not in content
        assert "the secret of other" not in content


def test_writing_with_a_read_only_token_shows_an_error(locked):
    page = locked.open(q="secret", ns="mine")
    unlock(locked, MINE)
    page.wait_for_selector(".card")
    locked.settled()
    page.get_by_role("button", name=re.compile("^Relevant: ")).click()
    page.wait_for_selector("#problem:not([hidden])")
    page.locator(".card h3 button").click()
    page.wait_for_selector("#item[open] pre.text")
    page.get_by_role("button", name="Delete").click()
    page.wait_for_selector("#item", state="hidden")
    assert page.locator(".toast").count() == 0
    assert page.locator("#problem").inner_text()
    assert locked.sent("DELETE", ".*") == 0


def test_a_missing_embedder_is_named_as_degraded(locked):
    page = locked.open(q="secret", ns="mine")
    unlock(locked, ALL)
    page.wait_for_selector("#warnings .warning")
    assert "semantic: no embedder is set" in page.locator("#warnings").inner_text()


# ---------------------------------------------------------------- readable for everyone


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_fits_a_narrow_screen_in_both_themes(browser, server, scheme):
    with working(browser, server, color_scheme=scheme) as bench:
        bench.page.set_viewport_size({"width": 380, "height": 800})
        for view in (
            {"view": "results"},
            {"view": "compare", "b.fusion": "rrf"},
            {"view": "evaluate"},
            {"item": "key:rabenhorst", "tab": "graph"},
        ):
            page = bench.open(q=QUERY, **view)
            page.locator("aside details").evaluate_all("panels => panels.forEach((panel) => { panel.open = true; })")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 380, (view, wide)
        shade = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert (shade == "rgb(16, 19, 23)") == (scheme == "dark")


BROKEN = """() => [...document.querySelectorAll('th, td')].flatMap((cell) => {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    const broken = [];
    for (let text = walker.nextNode(); text; text = walker.nextNode())
        for (const word of text.data.matchAll(/[^\\s-]{1,20}/g)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map((line) => line.top)).size > 1) broken.push(word[0]);
        }
    return broken;
})"""


def test_no_table_breaks_words_on_a_narrow_screen(bench):
    bench.page.set_viewport_size({"width": 400, "height": 800})
    page = bench.open(q=QUERY)
    page.locator(".bars").nth(1).click()
    page.locator("#stages summary").click()
    assert page.locator("td").count() > 20
    assert page.evaluate(BROKEN) == []
    page = bench.open(view="evaluate", **{"b.preset": "wiki"})
    page.get_by_role("button", name="Measure A and B").click()
    page.locator("figure summary").click()
    assert page.locator("td").count() > 100
    assert page.evaluate(BROKEN) == []
    page = bench.open(item="key:rabenhorst", tab="graph")
    page.locator("#item summary").click()
    assert page.locator("#item td").count() > 20
    assert page.evaluate(BROKEN) == []


CONTRASTS = """() => {
    const probe = document.body.appendChild(document.createElement('i'));
    const shade = (name) => {
        probe.style.color = `var(${name})`;
        const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map((part) => {
            const share = Number(part) / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(shade(a), shade(b)) + 0.05) / (Math.min(shade(a), shade(b)) + 0.05);
    const parts = ['semantic', 'keyword', 'graph', 'walk', 'tags', 'shared', 'rerank', 'file-name', 'strong-line'];
    const texts = ['text', 'muted', 'accent', 'good', 'bad'];
    return {
        parts: Math.min(...parts.map((name) => contrast(`--${name}`, '--surface'))),
        texts: Math.min(...texts.map((name) => contrast(`--${name}`, '--surface'))),
        below: Math.min(...texts.map((name) => contrast(`--${name}`, '--page'))),
        warning: contrast('--warn', '--warn-surface'),
        button: contrast('--on-accent', '--accent'),
        mark: contrast('--text', '--mark'),
    };
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_enough_contrast(browser, server, scheme):
    with working(browser, server, color_scheme=scheme) as bench:
        found = bench.open().evaluate(CONTRASTS)
        assert found.pop("parts") >= 3
        assert min(found.values()) >= 4.5, found


UNNAMED = """() => [...document.querySelectorAll('button, input, select, textarea, [role=button]')].filter((each) => {
    const labels = [...(each.labels ?? [])].map((label) => label.textContent).join('');
    return !(each.getAttribute('aria-label') || labels || each.textContent.trim());
}).map((each) => each.outerHTML)"""


def test_every_control_has_a_name_and_headings_are_in_order(bench):
    page = bench.open(q=QUERY, item="key:rabenhorst", tab="graph")
    page.wait_for_selector(".graph-drawing")
    assert page.evaluate(UNNAMED) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Why not this one?").click()
    assert page.evaluate(UNNAMED) == []
    levels = page.evaluate(
        "[...document.querySelectorAll('main h1, main h2, main h3')].map((each) => Number(each.tagName[1]))"
    )
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.locator("[aria-live=polite]").count() >= 2


def test_the_theme_is_chosen_and_kept(bench):
    page = bench.open(q="invoice")
    for expected in ("light", "dark"):
        page.click("#theme-button")
        assert page.evaluate("document.documentElement.dataset.theme") == expected
    page.reload()
    page.wait_for_selector(".card")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(16, 19, 23)"
    assert ids(page)

"""Every code block of the documentation runs and prints its output; pages, links, figures and guarantees are true."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from docs_pages import EXAMPLES, PAGES, ROOT, blocks
from http_server import serving

import fourfold
from fourfold import config
from fourfold.cli.commands import COMMANDS
from fourfold.cli.demo import QUESTIONS
from fourfold.cli.main import app
from fourfold.ranking.plan import PRESETS

SCRIPTS = sorted(EXAMPLES.glob("*.py"))


class Embeddings(BaseHTTPRequestHandler):
    """OpenAI-compatible endpoint that returns small vectors."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = [{"index": index, "embedding": [1.0, len(text)]} for index, text in enumerate(asked["input"])]
        body = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), Embeddings)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("EMBEDDINGS_URL", f"http://127.0.0.1:{server.server_port}/v1")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.spec("S1.11")
@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_prints_its_documented_output(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    said = re.findall(r"# -> (.*)", script.read_text("utf-8"))
    assert said
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.spec("S1.11")
@pytest.mark.parametrize(("language", "suffix"), [("python", ".py"), ("jsonl", ".jsonl"), ("tsv", ".tsv")])
def test_every_code_block_is_an_example_file(language: str, suffix: str) -> None:
    shown = {block.text for block in blocks(language)}
    files = {path.name: path.read_text("utf-8") for path in EXAMPLES.rglob(f"*{suffix}")}
    assert shown <= set(files.values())
    assert [name for name, text in files.items() if text not in shown] == []


@pytest.mark.parametrize("block", blocks("yaml"), ids=lambda block: block.page)
def test_documented_settings_are_valid(block: Any, tmp_path: Path) -> None:
    file = tmp_path / "fourfold.yaml"
    file.write_text(block.text, "utf-8")
    origins = config.load({}, {}, file).origins.values()
    assert sum(origin.startswith("file") for origin in origins) >= len(block.text.splitlines()) // 2


def commands_on_pages() -> list[str]:
    lines = [line for block in blocks("sh") for line in block.text.splitlines()]
    inline = [found for page in PAGES for found in re.findall(r"`(fourfold [a-z][^`]*)`", page.read_text("utf-8"))]
    return sorted({line.partition(" | ")[0] for line in [*lines, *inline] if line.startswith("fourfold ")})


@pytest.mark.parametrize("line", commands_on_pages())
def test_documented_commands_exist(line: str) -> None:
    words = shlex.split(line)[1:]
    command: Any = app
    known = {name for option in command.params for name in option.opts}
    name = next(word for word in words if word in COMMANDS)
    command = command.get_command(None, name)
    following = words[words.index(name) + 1 :]
    while following and following[0] in getattr(command, "places", ()):
        command, *following = command.get_command(None, following[0]), *following[1:]
    known |= {name for option in command.params for name in option.opts}
    assert {word for word in words if word.startswith("-")} <= known


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_first_calls_of_the_http_api_work(tmp_path: Path) -> None:
    text = next(block.text for block in blocks("sh") if block.page == "http.md")
    with serving(tmp_path / "store", FOURFOLD_EMBEDDER="builtin") as server:
        lines = text.replace("http://127.0.0.1:8765", server.url).splitlines()
        runs = [subprocess.run([*shlex.split(line), "-s"], capture_output=True, check=True) for line in lines]
        stored, response, status = (json.loads(run.stdout) for run in runs)
    assert [result["id"] for result in response["results"]] == [stored["id"]]
    assert (status["namespaces"]["default"]["items"], status["namespaces"]["default"]["pending_vectors"]) == (1, 0)


def test_readme_is_short_and_compares_tools() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert len(readme.splitlines()) <= 150
    for tool in ("mem0", "basic-memory", "qmd", "LanceDB", "Chroma"):
        assert re.search(rf"^\| \[{tool}\]\(https://", readme, re.MULTILINE), tool
    for heading in ("Install", "What it is good at", "Comparison with other tools", "Limits", "Where to go next"):
        assert f"\n## {heading}\n" in readme


@pytest.mark.parametrize("name", ["2.1", "3.5", "8.6", "16.4", "2.6", "4.5", "0.051", "0.056", "0.041", "15,273"])
def test_readme_figures_appear_on_the_linked_pages(name: str) -> None:
    names = ("benchmarks.md", "reliability.md")
    pages = [(ROOT / "docs" / page).read_text("utf-8") for page in names]
    assert name in (ROOT / "README.md").read_text("utf-8")
    assert any(re.search(rf"(?<![\d.]){re.escape(name)}(?![\d])", page) for page in pages), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_a_target(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if target.startswith("https://"):
            continue  # tests do not use the network
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_page_is_short_and_begins_with_what_the_reader_can_do(page: Path) -> None:
    title, blank, first, *rest = page.read_text("utf-8").splitlines()
    assert title.startswith("# ")
    assert not blank
    assert first.startswith("After reading this page")
    assert len(rest) < 300


# ---------------------------------------------------------------- the recorded first run


FIVE_MINUTES = 300


def test_the_recorded_run_is_that_of_the_readme_and_of_the_demo() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "first_run.py"))
    lines = script["RECORD"].read_text(encoding="utf-8").splitlines()
    assert max(len(line) for line in lines[1:]) <= script["COLUMNS"]
    typed = [line.removeprefix(script["PROMPT"]) for line in lines if line.startswith(script["PROMPT"])]
    assert [line for line in typed if line in script["STEPS"]] == list(script["STEPS"])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    said = [step.replace("--quiet ", "").removesuffix(" --serve") for step in script["STEPS"][1:]]
    assert all(f"\n{step}    # " in readme for step in said)
    asked = "".join(lines)
    assert all(question.text in asked and question.point in asked for question in QUESTIONS)
    assert script["SERVING"].search(asked.replace("PORT", "1"))
    opened = re.fullmatch(r"\[(\d+):(\d\d)\] the page is open", lines[-1])
    minutes, seconds = opened.groups()
    assert 60 * int(minutes) + int(seconds) < FIVE_MINUTES


# ---------------------------------------------------------------- reliability


PAGE = (ROOT / "docs" / "reliability.md").read_text("utf-8")
ROWS = {int(row[0]): row[1:] for row in re.findall(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)}


def names_of_tests() -> set[str]:
    sources = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"def (test_\w+)", source)}


def test_every_named_test_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 80
    assert named <= names_of_tests()


def test_every_guarantee_has_a_test_or_is_marked_as_not_covered() -> None:
    assert sorted(ROWS) == list(range(1, 31))
    for _, shown_by, result in ROWS.values():
        assert "`test_" in shown_by or "not covered" in result


def test_page_contains_no_placeholder() -> None:
    capitals = re.sub(r"`[^`]*`|SQLite|SIGBUS|FAISS", "", PAGE)
    assert not re.findall(r"\b[A-Z]{5,}\b", capitals)


# ---------------------------------------------------------------- recorded figures


RESULTS = json.loads((ROOT / "benchmarks" / "quality.json").read_text("utf-8"))


@pytest.mark.spec("S5.7")
def test_tables_match_the_recorded_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    tables = runpy.run_path(str(ROOT / "benchmarks" / "quality.py"))["tables"](RESULTS)
    assert all(tables.values())
    for mark, table in tables.items():
        assert f"<!-- {mark} -->\n{table}<!-- end -->" in page, f"run benchmarks/quality.py ({mark})"


BARS = RESULTS["bars"]


@pytest.mark.spec("S1.10", "S2.7", "S4.6", "S5.7", "S5.8", "C1")
def test_recorded_figures_reach_the_required_values():
    presets = BARS["presets"]
    assert presets.keys() == PRESETS.keys()
    assert presets["memories"]["hit@10"] > 0.85
    for milliseconds, limit in (
        (BARS["p95_100_items"], 1000), (BARS["graph_p95"], 200), (BARS["wiki_p50"], presets["wiki"]["p95"]),
        (presets["wiki"]["p95"], 100), (presets["memories"]["p95"], 120),
        (BARS["graph_p95"], presets["insights"]["p95"]), (presets["insights"]["p95"], 1000),
    ):  # fmt: skip
        assert 0 < milliseconds < limit


# ---------------------------------------------------------------- the site


SITE = runpy.run_path(str(ROOT / "scripts" / "docs_site.py"))
LINKS = runpy.run_path(str(ROOT / "scripts" / "check_links.py"))


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("README.md", "[a](docs/mcp.md#over-http)", "[a](mcp.md#over-http)"),
        ("README.md", "![a](docs/growth.png)", "![a](growth.png)"),
        ("docs/mcp.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/mcp.md", "[a](../CONTRIBUTING.md#rules)", "[a](contributing.md#rules)"),
        ("docs/mcp.md", "[a](../src/fourfold/limits.py)", "[a](repository/src/fourfold/limits.py)"),
        ("docs/mcp.md", "[a](examples/vault.py)", "[a](repository/docs/examples/vault.py)"),
        ("docs/mcp.md", "[a](http.md) [b](#here)", "[a](http.md) [b](#here)"),
        ("docs/mcp.md", "[c](https://a.example/x.md)", "[c](https://a.example/x.md)"),
        ("docs/mcp.md", "`[a](../README.md)`", "`[a](../README.md)`"),
        ("docs/mcp.md", "```\n[a](../README.md)\n```\n", "```\n[a](../README.md)\n```\n"),
    ],
)
def test_links_lead_to_pages_and_copies_of_the_site(page: str, text: str, expected: str) -> None:
    assert SITE["rewritten"](page, text) == expected


def test_every_linked_file_exists_and_the_reference_has_every_public_name() -> None:
    assert all(source.exists() for source in SITE["linked_files"]().values())
    assert SITE["public_names"]() == list(fourfold.__all__)
    named = re.findall(r"^::: fourfold\.(\w+)$", SITE["api_page"](), re.MULTILINE)
    assert sorted(named) == sorted(fourfold.__all__)


def test_the_navigation_names_pages_that_exist() -> None:
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = set(re.findall(r"([\w-]+\.md)", nav))
    made = {*SITE["ROOT_PAGES"].values(), "api.md"}
    assert made <= named
    assert [name for name in named - made if not (ROOT / "docs" / name).exists()] == []


def test_broken_links_are_found_with_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LINKS["broken"].__globals__, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n## Two words, and `code`\n\n## One\n[ok](#two-words-and-code) [ok](#one-1) [ok](page.md#one)\n"
        "`[no link](none.md)`\n```\n[no link](none.md)\n# no heading\n```\n[bad](none.md) [bad](#no-heading)\n"
    )
    assert list(LINKS["broken"](page)) == [
        "page.md:12: there is no none.md",
        "page.md:12: this page has no heading 'no-heading'",
    ]

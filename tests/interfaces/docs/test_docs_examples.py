"""Every code block of the documentation is an example file, and every example runs and prints its documented output."""

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

from fourfold import config
from fourfold.cli.commands import COMMANDS
from fourfold.cli.main import app

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
def test_example_prints_its_documented_output(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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

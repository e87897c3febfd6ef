"""The documentation site: links that work in the repository work there, too, and every page is reached."""

import re
import runpy
from pathlib import Path

import pytest

import fourfold

ROOT = Path(__file__).parents[3]
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

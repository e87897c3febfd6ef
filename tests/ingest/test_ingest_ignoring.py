"""Rules of .gitignore and .fourfoldignore; compared with pathspec, which follows git."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from files_support import names, write
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from fourfold.ingest.ignore import Rules
from fourfold.memory import Memory

pytestmark = pytest.mark.spec("S3.1")


@pytest.fixture
def memory() -> Iterator[Memory]:
    """A temporary store; these tests concern code before the store."""
    with Memory.open(":memory:", embedder="none", background=False) as opened:
        yield opened


LINES = [
    "*.log", "/top.txt", "build/", "/build/", "docs/*.txt", "docs/**/x.txt", "**/deep", "**", "*", "foo*bar",
    "# comment", "", "   ", "\\#hash", "\\!bang", "!keep.log", "[ab].txt", "[!ab].txt", "[^ab].txt", "file?.txt",
    "trailing   ", "kept\\ ", "a/b", "a/b/", "**/a/b", "a/**/b", "x**y", "\\*.txt", "*.t[xy]t", "/", "//", "a//b",
]  # fmt: skip
PATHS = [
    "x.log", "d/x.log", "top.txt", "d/top.txt", "build/", "d/build/", "build", "docs/a.txt", "docs/d/a.txt",
    "docs/x.txt", "docs/a/b/x.txt", "deep", "q/deep/", "a/", "a/b", "a/b/", "a/c/d.txt", "d/a/b", "foobar", "foo1bar",
    "#hash", "!bang", "keep.log", "a.txt", "c.txt", "file1.txt", "file10.txt", "trailing", "kept ", "kept", "xy", "x1y",
    "*.txt", "z.tyt", "a/c/b", "a/c/d/b",
]  # fmt: skip


def judged(line: str, path: str) -> bool:
    """Matches of pathspec, which also include files in matching folders; a walk never enters these."""
    whole = path.rstrip("/").split("/")
    spec = GitIgnoreSpec.from_lines([line])
    above = any(spec.match_file("/".join(whole[:depth]) + "/") for depth in range(1, len(whole)))
    return bool(spec.match_file(path)) and not above


@pytest.mark.parametrize("line", LINES)
def test_a_rule_matches_like_git(line: str) -> None:
    whole = [path for path in PATHS if not _inside(line, path)]
    assert {path for path in whole if Rules([line]).ignores(path)} == {path for path in whole if judged(line, path)}


def _inside(line: str, path: str) -> bool:
    spec = GitIgnoreSpec.from_lines([line])
    parts = path.rstrip("/").split("/")
    return any(spec.match_file("/".join(parts[:depth]) + "/") for depth in range(1, len(parts)))


def test_a_rule_for_the_content_of_a_folder_does_not_match_the_folder() -> None:
    """So that a rule can make an exception below it, as in git; pathspec also matches the folder."""
    rules = Rules(["a/**", "!a/keep.txt"])
    assert [rules.ignores(path) for path in ("a/", "a/x", "a/b/", "a/keep.txt", "b/a/x")] == [
        None, True, True, False, None,
    ]  # fmt: skip
    assert Rules(["!", "/", "#x"]).ignores("!") is None


PIECES = st.sampled_from(["a", "b", "ab", "*", "**", "?", "/", ".txt", "[ab]", "[!a]"])
PLACES = st.lists(st.sampled_from(["a", "b", "ab", "a.txt", "b.txt", "aab"]), min_size=1, max_size=4)


@given(st.lists(PIECES, min_size=1, max_size=5).map("".join), PLACES.map("/".join), st.booleans())
def test_random_rules_match_like_git(line: str, path: str, folder: bool) -> None:
    path = f"{path}/" if folder else path
    if "[!a]" in line and "/" in path:
        return  # to pathspec a slash is a character that is not an a; not to git, nor to us
    if "//" not in line and not line.endswith("/**") and "***" not in line and not _inside(line, path):
        assert bool(Rules([line]).ignores(path)) == judged(line, path)


def test_the_last_matching_rule_wins() -> None:
    rules = Rules(["*.txt", "!keep*.txt", "keep2.txt", "!other"])
    assert [rules.ignores(name) for name in ("a.txt", "keep1.txt", "keep2.txt", "other", "b.md")] == [
        True, False, True, False, None,
    ]  # fmt: skip


@given(st.text(max_size=40), st.text(alphabet="ab/.*\\[]!é", min_size=1, max_size=20))
def test_any_line_can_be_parsed_as_a_rule(line: str, path: str) -> None:
    Rules([line]).ignores(path)


def test_ignored_files_and_folders_are_skipped(memory: Memory, tree: Path) -> None:
    write(
        tree,
        {
            ".gitignore": "*.log\nbuild/\n",
            ".fourfoldignore": "!kept.log\n/private/\n!.github/\n",
            "a.txt": "x",
            "a.log": "x",
            "kept.log": "x",
            "build/out.txt": "x",
            "private/p.txt": "x",
            "sub/private/q.txt": "x",
            "sub/.gitignore": "!b.log\n*.tmp\n",
            "sub/b.log": "x",
            "sub/c.tmp": "x",
            "c.tmp": "x",
            ".hidden/h.txt": "x",
            ".github/g.txt": "x",
            "node_modules/m.txt": "x",
            "code.min.js": "x",
        },
    )
    report = memory.index_folders([tree])
    assert names(memory) == {"a.txt", "kept.log", "q.txt", "b.log", "c.tmp", "g.txt"}
    assert report.skipped["ignored by rules or by default"].count >= 8


def test_a_new_rule_removes_its_files_and_removing_it_restores_them(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "x", "b.md": "x"})
    memory.index_folders([tree])
    write(tree, {".fourfoldignore": "*.txt"})
    assert memory.index_folders([tree]).removed == 1
    assert names(memory) == {"b.md"}
    (tree / ".fourfoldignore").unlink()
    assert memory.index_folders([tree]).new == 1

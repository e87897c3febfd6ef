"""Nothing outside the root is read, nothing blocks a run, and what is to be ignored is ignored."""

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from files_support import index, items, names, write
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from fourfold import Memory
from fourfold.errors import InvalidArgument, NotFound
from fourfold.ingest import sync, walk
from fourfold.ingest.ignore import Rules
from fourfold.ingest.walk import Folder, NotRegular, RootFolder

pytestmark = pytest.mark.spec("S3.1")


# ---------------------------------------------------------------- paths and links


@pytest.fixture
def memory() -> Iterator[Memory]:
    """A temporary store; these tests concern code before the store."""
    with Memory.open(":memory:", embedder="none", background=False) as opened:
        yield opened


posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and links are made as POSIX has them")
SECRET = "the canary sings"
Trick = Callable[[Path, Path], object]
"""Functions that put something into a tree (first) next to a folder (second) with a secret."""


def _bomb() -> str:
    steps = [
        f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]" for last, name in zip("abcdefg", "bcdefgh", strict=True)
    ]
    return "\n".join(["---", "a: &a [x, x]", *steps, "---", "text"])


WRITTEN: dict[str, dict[str, str | bytes]] = {
    "name of 255 bytes": {"n" * 251 + ".txt": "x"},
    "name of 255 bytes of UTF-8": {"ä" * 125 + "a.txt": "x"},
    "path of more than 1024 bytes": {"/".join(["d" * 200] * 6) + "/a.txt": "x"},
    "name with a line break": {"a\nb.txt": "x"},
    "name with terminal sequences": {"\x1b[31mred\x1b]0;t\x07.txt": "x"},
    "name that reads backwards": {"\u202etxt.exe.txt": "x"},
    "name of dots": {"...txt": "x", "..a.txt": "x"},
    "name with backslashes": {"..\\..\\outside\\secret.txt": "x"},
    "name that looks like a drive": {"C:": "x"},
    "name that looks like a device": {"CON": "x", "nul.txt": "x"},
    "name that looks like an option": {"--help": "x", "-rf": "x"},
    "name with percent signs": {"%2e%2e%2foutside%2fsecret.txt": "x"},
    "name with glob characters": {"[a-z]*?.txt": "x"},
    "name of spaces": {" ": "x", " a.txt ": "x"},
    "folder that is no UTF-8": {os.fsdecode(b"\xff\xfe") + "/a.txt": "x"},
    "two spellings of one name": {"e\u0301.txt": "x", "\u00e9.txt": "y"},
    "a name and its escaped form": {os.fsdecode(b"\xe9.txt"): "x", "\\xe9.txt": "y"},
    "names that differ in case": {"a.txt": "x", "A.TXT": "y"},
    "rules that point outside": {".gitignore": "../outside/*\n/../..\n!../outside/\n"},
    "rules without end": {".gitignore": "*a" * 300 + "\n" + "*a" * 9 + "b\n", "a" * 200 + ".txt": "x"},
    "rules that are no text": {".gitignore": os.urandom(2000)},
    "link in Markdown": {"a.md": "![[../outside/secret.txt]] [x](../outside/secret.txt)"},
    "include in HTML": {
        "a.html": "<iframe src='file:../outside/secret.txt'></iframe><object data='../outside/secret.txt'>"
    },
    "front matter that is a bomb": {"a.md": _bomb()},
    "coding that is no encoding": {"a.py": b"# coding: zip\n\xff\xff"},
    "coding that runs on": {"a.py": b"# coding: idna\n\xff" + b"x" * 1000},
    "charset that is a codec": {"a.html": b"<meta charset=rot13>\xff"},
    "many brackets": {"a.py": "(" * 50_000, "a.json": "[" * 100_000},
    "many links": {"a.md": "[" * 50_000 + "](" * 50_000},
    "many headings": {"a.md": "# x\n" * 5_000},
    "deeply nested HTML": {"a.html": "<div>" * 50_000 + "x"},
    "folders within folders": {"d/" * 150 + "a.txt": "x"},
    "one long line": {"a.txt": "x" * 600_000},
}
TRICKS: dict[str, Trick] = {
    "link to a file outside": lambda tree, out: (tree / "a.txt").symlink_to(out / "secret.txt"),
    "relative link to a file outside": lambda tree, out: (tree / "a.txt").symlink_to("../outside/secret.txt"),
    "link to a folder outside": lambda tree, out: (tree / "a").symlink_to(out),
    "relative link to a folder outside": lambda tree, out: (tree / "a").symlink_to("../outside"),
    "link to the root of the system": lambda tree, out: (tree / "a").symlink_to("/"),
    "link to the folder above": lambda tree, out: (tree / "a").symlink_to(".."),
    "link to itself": lambda tree, out: (tree / "a").symlink_to("a"),
    "two links to each other": lambda tree, out: _links(tree, a="b", b="a"),
    "link to the root itself": lambda tree, out: (tree / "a").symlink_to(tree),
    "link to nothing": lambda tree, out: (tree / "a.txt").symlink_to("nowhere"),
    "chain of links": lambda tree, out: _links(tree, **{"x.txt": out / "secret.txt", "y.txt": "x.txt"}),
    "link in a folder": lambda tree, out: _links(tree, **{"in/a.txt": out / "secret.txt"}),
    "link named like a rule file": lambda tree, out: (tree / ".gitignore").symlink_to(out / "secret.txt"),
    "link to a memory of this process": lambda tree, out: (tree / "a.txt").symlink_to("/proc/self/environ"),
    "link to a descriptor": lambda tree, out: (tree / "a.txt").symlink_to("/proc/self/fd/0"),
    "pipe": lambda tree, out: os.mkfifo(tree / "a.txt"),
    "pipe named like a rule file": lambda tree, out: os.mkfifo(tree / ".gitignore"),
    "pipe named like a rule file of ours": lambda tree, out: os.mkfifo(tree / ".fourfoldignore"),
    "link to a pipe": lambda tree, out: (os.mkfifo(out / "pipe"), _links(tree, **{"a.txt": out / "pipe"})),
    "link to zeros without end": lambda tree, out: (tree / "a.txt").symlink_to("/dev/zero"),
    "link to a terminal": lambda tree, out: (tree / "a.txt").symlink_to("/dev/tty"),
    "socket": lambda tree, out: _socket(tree),
    "folder named like a file": lambda tree, out: (tree / "a.txt").mkdir(),
    "folder named like a rule file": lambda tree, out: (tree / ".gitignore").mkdir(),
    "name that is no UTF-8": lambda tree, out: (tree / os.fsdecode(b"caf\xe9.txt")).write_text("x"),
    "entity in XML": lambda tree, out: write(
        tree, {"a.xml": f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{out}/secret.txt">]><x>&e;</x>'}
    ),
    "front matter with tags of Python": lambda tree, out: write(
        tree, {"a.md": f"---\nx: !!python/object/apply:os.system ['cp {out}/secret.txt {tree}/copied.txt']\n---\nx"}
    ),
    **{name: lambda tree, out, files=files: write(tree, files) for name, files in WRITTEN.items()},
}


def _links(tree: Path, **links: str | Path) -> None:
    for name, target in links.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).symlink_to(target)


def _socket(tree: Path) -> None:
    here = Path.cwd()
    os.chdir(tree)  # its path may be too long for a socket
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("a.txt")
    finally:
        os.chdir(here)


@posix
@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_neither_reads_outside_the_root_nor_blocks(memory, tree, tmp_path, trick, monkeypatch):
    assert len(TRICKS) >= 60
    outside = tmp_path / "outside"
    write(outside, {"secret.txt": SECRET})
    write(tree, {"fine.txt": "all is well"})
    TRICKS[trick](tree, outside)
    opened: list[int] = []
    real = walk.read_up_to

    def noting(descriptor: int, most: int) -> bytes:
        opened.append(os.fstat(descriptor).st_ino)
        return real(descriptor, most)

    monkeypatch.setattr(walk, "read_up_to", noting)
    monkeypatch.setattr(sync, "read_up_to", noting)
    report = memory.index_folders([tree])
    found = items(memory)
    inside = {path.lstat().st_ino for path in Path(tree).rglob("*")}
    assert set(opened) <= inside
    assert all(SECRET not in item.text for item in found.values())
    assert found["fine.txt", 0].text == "all is well"
    assert not (tree / "copied.txt").exists()
    again = memory.index_folders([tree])
    assert (again.opened, again.touched) == (0, False)
    assert report.files >= 1


@posix
@pytest.mark.parametrize("name", ["/nowhere/at/all", "tree/../nowhere", "a\0b"])
def test_invalid_roots_are_rejected(memory: Memory, name: str) -> None:
    with pytest.raises((NotFound, InvalidArgument)):
        memory.index_folders([name])


@posix
def test_a_folder_swapped_for_a_link_after_the_walk_is_not_entered(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {"a.txt": SECRET})
    write(tree, {"in/a.txt": "mine", "in/deep/a.txt": "mine"})
    (entry, deep) = walk.walk(walk.Target(tree.resolve())).entries()
    (tree / "in").rename(tree / "was")
    (tree / "in").symlink_to(outside)
    opener = RootFolder(tree.resolve())
    for place in (entry.place, deep.place):
        with pytest.raises(OSError), opener.open(place):
            pass
    opener.close()


@posix
def test_a_file_swapped_for_something_else_after_the_walk_is_not_read(tree: Path, tmp_path: Path) -> None:
    write(tmp_path / "outside", {"a.txt": SECRET})
    write(tree, {"a.txt": "mine", "b.txt": "mine", "c.txt": "mine"})
    walk.walk(walk.Target(tree.resolve()))
    for name in ("a.txt", "b.txt", "c.txt"):
        (tree / name).unlink()
    (tree / "a.txt").symlink_to(tmp_path / "outside/a.txt")
    os.mkfifo(tree / "b.txt")
    (tree / "c.txt").mkdir()
    opener = RootFolder(tree.resolve())
    for name in ("a.txt", "b.txt", "c.txt"):
        with pytest.raises(OSError), opener.open(name):
            pass
    with pytest.raises(NotRegular), opener.open("b.txt"):
        pass
    opener.close()


@posix
def test_without_descriptors_a_link_is_detected(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code for Windows, as far as it runs here."""
    monkeypatch.setattr(walk, "_BY_DESCRIPTOR", False)
    monkeypatch.setattr(walk, "_FILE_FLAGS", os.O_RDONLY)
    write(tmp_path / "outside", {"a.txt": SECRET})
    write(tree, {"in/a.txt": "x"})
    (tree / "link").symlink_to(tmp_path / "outside")
    (tree / "link.txt").symlink_to(tmp_path / "outside/a.txt")
    root = tree.resolve()
    assert [entry.place for entry in walk.walk(walk.Target(root)).entries()] == ["in/a.txt"]
    with Folder.at(root) as folder:
        with pytest.raises(NotRegular):
            folder.folder("link")
        with pytest.raises(NotRegular), folder.open("link.txt"):
            pass
        with folder.folder("in") as inner, inner.open("a.txt") as descriptor:
            assert os.read(descriptor, 10) == b"x"


@posix
def test_deep_and_long_paths_are_skipped_and_named(tree: Path) -> None:
    write(tree, {"d/" * 150 + "a.txt": "x", "/".join(["e" * 200] * 6) + "/a.txt": "x"})
    reasons = [reason for reason, _ in walk.walk(walk.Target(tree.resolve())).skipped]
    assert sorted(reasons) == sorted([walk.DEEP, walk.LONG])


@posix
def test_file_names_in_any_spelling_are_read(memory: Memory, tree: Path) -> None:
    odd = {
        os.fsdecode(b"caf\xe9.txt"): "one", f"{os.fsdecode(b'dir-xe9')}/a.txt": "two",
        f"{os.fsdecode(bytes([255, 254]))}/a.txt": "three", "e\u0301/e\u0301.txt": "four", "\u00e4/b.txt": "five",
    }  # fmt: skip
    report = index(memory, tree, odd)
    assert (report.new, report.skipped) == (len(odd), {})
    assert sorted(item.text for item in memory.list()) == sorted(odd.values())


SPACED = {" ": "one", "name ": "two", "name\u2003": "three", "a b.md": "four", "folder /x.md ": "five", "name": "six"}


@posix
def test_names_that_end_with_white_space_are_stored_as_every_store_takes_them(tree: Path, tmp_path: Path) -> None:
    """`check` called such a store damaged, no store imported its export, and their items stayed when they were gone."""
    export = tmp_path / "export.jsonl"
    with Memory.open(tmp_path / "store", embedder="none", background=False) as memory:
        assert index(memory, tree, SPACED).new == len(SPACED)
        assert memory.check() == []
        assert names(memory) == {"\\x20", "name\\x20", "name\\xe2\\x80\\x83", "a b.md", "x.md\\x20", "name"}
        assert memory.index_folders([tree]).unchanged == len(SPACED)
        assert memory.index_folders([tree / "name "]).unchanged == 1
        memory.export(export)
        (tree / "name ").unlink()
        assert memory.index_folders([tree]).removed == 1
        assert memory.count() == len(SPACED) - 1
    with Memory.open(tmp_path / "other", embedder="none", background=False) as other:
        other.import_file(export)
        assert other.count() == len(SPACED)


# ---------------------------------------------------------------- rules of .gitignore, compared with pathspec


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
    return bool(GitIgnoreSpec.from_lines([line]).match_file(path)) and not _inside(line, path)


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
    report = index(
        memory,
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
    assert names(memory) == {"a.txt", "kept.log", "q.txt", "b.log", "c.tmp", "g.txt"}
    assert report.skipped["ignored by rules or by default"].count >= 8


def test_a_new_rule_removes_its_files_and_removing_it_restores_them(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.txt": "x", "b.md": "x"})
    write(tree, {".fourfoldignore": "*.txt"})
    assert memory.index_folders([tree]).removed == 1
    assert names(memory) == {"b.md"}
    (tree / ".fourfoldignore").unlink()
    assert memory.index_folders([tree]).new == 1

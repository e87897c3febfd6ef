"""Nothing outside the root is read, and nothing blocks a run, whatever a folder contains."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from files_support import items, write

from fourfold.errors import InvalidArgument, NotFound
from fourfold.ingest import sync, walk
from fourfold.ingest.walk import Folder, NotRegular, RootFolder
from fourfold.memory import Memory

pytestmark = [
    pytest.mark.spec("S3.1"),
    pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and links are made as POSIX has them"),
]


@pytest.fixture
def memory() -> Iterator[Memory]:
    """A temporary store; these tests concern code before the store."""
    with Memory.open(":memory:", embedder="none", background=False) as opened:
        yield opened


SECRET = "the canary sings"
Trick = Callable[[Path, Path], object]
"""Functions that put something into a tree (first) next to a folder (second) with a secret."""

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
    "name of 255 bytes": lambda tree, out: write(tree, {"n" * 251 + ".txt": "x"}),
    "name of 255 bytes of UTF-8": lambda tree, out: write(tree, {"ä" * 125 + "a.txt": "x"}),
    "path of more than 1024 bytes": lambda tree, out: write(tree, {"/".join(["d" * 200] * 6) + "/a.txt": "x"}),
    "name with a line break": lambda tree, out: write(tree, {"a\nb.txt": "x"}),
    "name with terminal sequences": lambda tree, out: write(tree, {"\x1b[31mred\x1b]0;t\x07.txt": "x"}),
    "name that reads backwards": lambda tree, out: write(tree, {"\u202etxt.exe.txt": "x"}),
    "name of dots": lambda tree, out: write(tree, {"...txt": "x", "..a.txt": "x"}),
    "name with backslashes": lambda tree, out: write(tree, {"..\\..\\outside\\secret.txt": "x"}),
    "name that looks like a drive": lambda tree, out: write(tree, {"C:": "x"}),
    "name that looks like a device": lambda tree, out: write(tree, {"CON": "x", "nul.txt": "x"}),
    "name that looks like an option": lambda tree, out: write(tree, {"--help": "x", "-rf": "x"}),
    "name with percent signs": lambda tree, out: write(tree, {"%2e%2e%2foutside%2fsecret.txt": "x"}),
    "name with glob characters": lambda tree, out: write(tree, {"[a-z]*?.txt": "x"}),
    "name of spaces": lambda tree, out: write(tree, {" ": "x", " a.txt ": "x"}),
    "name that is no UTF-8": lambda tree, out: (tree / os.fsdecode(b"caf\xe9.txt")).write_text("x"),
    "folder that is no UTF-8": lambda tree, out: write(tree, {os.fsdecode(b"\xff\xfe") + "/a.txt": "x"}),
    "two spellings of one name": lambda tree, out: write(tree, {"e\u0301.txt": "x", "\u00e9.txt": "y"}),
    "a name and its escaped form": lambda tree, out: write(tree, {os.fsdecode(b"\xe9.txt"): "x", "\\xe9.txt": "y"}),
    "names that differ in case": lambda tree, out: write(tree, {"a.txt": "x", "A.TXT": "y"}),
    "rules that point outside": lambda tree, out: write(tree, {".gitignore": "../outside/*\n/../..\n!../outside/\n"}),
    "rules without end": lambda tree, out: write(
        tree, {".gitignore": "*a" * 300 + "\n" + "*a" * 9 + "b\n", "a" * 200 + ".txt": "x"}
    ),
    "rules that are no text": lambda tree, out: write(tree, {".gitignore": os.urandom(2000)}),
    "link in Markdown": lambda tree, out: write(
        tree, {"a.md": "![[../outside/secret.txt]] [x](../outside/secret.txt)"}
    ),
    "include in HTML": lambda tree, out: write(
        tree, {"a.html": "<iframe src='file:../outside/secret.txt'></iframe><object data='../outside/secret.txt'>"}
    ),
    "entity in XML": lambda tree, out: write(
        tree, {"a.xml": f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{out}/secret.txt">]><x>&e;</x>'}
    ),
    "front matter with tags of Python": lambda tree, out: write(
        tree, {"a.md": f"---\nx: !!python/object/apply:os.system ['cp {out}/secret.txt {tree}/copied.txt']\n---\nx"}
    ),
    "front matter that is a bomb": lambda tree, out: write(tree, {"a.md": _bomb()}),
    "coding that is no encoding": lambda tree, out: write(tree, {"a.py": b"# coding: zip\n\xff\xff"}),
    "coding that runs on": lambda tree, out: write(tree, {"a.py": b"# coding: idna\n\xff" + b"x" * 1000}),
    "charset that is a codec": lambda tree, out: write(tree, {"a.html": b"<meta charset=rot13>\xff"}),
    "many brackets": lambda tree, out: write(tree, {"a.py": "(" * 50_000, "a.json": "[" * 100_000}),
    "many links": lambda tree, out: write(tree, {"a.md": "[" * 50_000 + "](" * 50_000}),
    "many headings": lambda tree, out: write(tree, {"a.md": "# x\n" * 5_000}),
    "deeply nested HTML": lambda tree, out: write(tree, {"a.html": "<div>" * 50_000 + "x"}),
    "folders within folders": lambda tree, out: write(tree, {"d/" * 150 + "a.txt": "x"}),
    "one long line": lambda tree, out: write(tree, {"a.txt": "x" * 600_000}),
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


def _bomb() -> str:
    steps = [
        f"{name}: &{name} [{', '.join([f'*{last}'] * 9)}]" for last, name in zip("abcdefg", "bcdefgh", strict=True)
    ]
    return "\n".join(["---", "a: &a [x, x]", *steps, "---", "text"])


def test_at_least_sixty_tricks_are_tested() -> None:
    assert len(TRICKS) >= 60


@pytest.mark.parametrize("trick", TRICKS)
def test_a_trick_neither_reads_outside_the_root_nor_blocks(
    memory: Memory, tree: Path, tmp_path: Path, trick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("name", ["/nowhere/at/all", "tree/../nowhere", "a\0b"])
def test_invalid_roots_are_rejected(memory: Memory, name: str) -> None:
    with pytest.raises((NotFound, InvalidArgument)):
        memory.index_folders([name])


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


@pytest.mark.parametrize("place", ["../outside/a.txt", "in/../../outside/a.txt", "/etc/passwd"])
def test_paths_from_a_walk_never_leave_the_root(tree: Path, place: str) -> None:
    """A walk never returns a path with `..` or a leading slash, so none is ever opened."""
    write(tree, {"in/a.txt": "x"})
    assert place not in {entry.place for entry in walk.walk(walk.Target(tree.resolve())).entries()}


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


def test_deep_and_long_paths_are_skipped_and_named(tree: Path) -> None:
    write(tree, {"d/" * 150 + "a.txt": "x", "/".join(["e" * 200] * 6) + "/a.txt": "x"})
    reasons = [reason for reason, _ in walk.walk(walk.Target(tree.resolve())).skipped]
    assert sorted(reasons) == sorted([walk.DEEP, walk.LONG])


def test_file_names_in_any_spelling_are_read(memory: Memory, tree: Path) -> None:
    odd = {
        os.fsdecode(b"caf\xe9.txt"): "one",
        f"{os.fsdecode(b'dir-xe9')}/a.txt": "two",
        f"{os.fsdecode(bytes([255, 254]))}/a.txt": "three",
        "e\u0301/e\u0301.txt": "four",
        "\u00e4/b.txt": "five",
    }
    write(tree, odd)
    report = memory.index_folders([tree])
    assert (report.new, report.skipped) == (len(odd), {})
    assert sorted(item.text for item in memory.list()) == sorted(odd.values())

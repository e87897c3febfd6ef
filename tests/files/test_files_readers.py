"""What becomes of Markdown, HTML, PDF, code and text: sections, titles, lines, tags, names."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from files_support import items, made_pdf, write
from hypothesis import given
from hypothesis import strategies as st

from fourfold import limits
from fourfold.ingest.chunk import CHUNK, chunks
from fourfold.ingest.decoding import decoded
from fourfold.ingest.document import Section, Unreadable, numbered
from fourfold.ingest.kinds import kind_of
from fourfold.ingest.readers import code, html, markdown, pdf
from fourfold.ingest.reading import items as read_items
from fourfold.memory import Memory

pytestmark = pytest.mark.spec("S3.1")


def shape(sections: list[Section]) -> list[tuple[tuple[str, ...], int, int]]:
    return [(part.headings, part.lines[0].number, part.lines[-1].number) for part in sections]


# ---------------------------------------------------------------- Markdown


def test_markdown_is_cut_at_headings() -> None:
    text = "intro\n\n# One\ntext\n```\n# no heading\n```\n## Two ##\nmore\n# Three\n"
    assert shape(markdown.read(text).sections) == [
        ((), 1, 2),
        (("One",), 3, 7),
        (("One", "Two"), 8, 9),
        (("Three",), 10, 11),
    ]


def test_underlined_headings_are_headings() -> None:
    assert shape(markdown.read("Title\n=====\n\ntext\n\nPart\n----\nmore").sections) == [
        (("Title",), 1, 5),
        (("Title", "Part"), 6, 8),
    ]
    assert shape(markdown.read("- item\n---\ntext\n\n| a |\n---").sections) == [((), 1, 6)]


def test_front_matter_gives_title_tags_aliases_and_metadata() -> None:
    front = (
        "---\ntitle: The Plan\ntags: [a, '#b']\naliases: Old Name, Other\nyear: 2024\ndate: 2024-05-01\nn: .nan\n---\n"
    )
    document = markdown.read(front + "# Other title\nSee #garden and `#no` and [x](#anchor).\n")
    assert document.title == "The Plan"
    assert document.tags == ("a", "b", "garden")
    assert document.aliases == ("Old Name", "Other")
    assert dict(document.metadata) == {"year": 2024, "date": "2024-05-01", "n": "nan"}
    assert document.sections[0].lines[0].number == 9


@pytest.mark.parametrize(
    "front", ["---\n[: wrong\n---\n", "---\na: &x [1]\nb: *x\n---\n", "---\njust text\n---\n", "---\n"]
)
def test_what_is_no_front_matter_is_text(front: str) -> None:
    document = markdown.read(front + "text")
    assert document.tags == ()
    assert document.sections[0].lines[0].number == 1


def test_titles_come_from_a_first_heading_of_first_level() -> None:
    assert markdown.read("# One *two* [three](x.md) `four`\n").title == "One *two* three four"
    assert markdown.read("intro\n\n# One\n").title == "One"
    assert markdown.read("## Part\n\n# One\n").title == ""


# ---------------------------------------------------------------- HTML


def test_html_becomes_markdown_with_the_lines_of_its_source() -> None:
    page = (
        "<html><head><title>A &amp; B</title><style>x</style></head>\n<body><nav>menu</nav>\n<h1>One</h1>\n"
        "<p>See <a href='two.html'>the other</a> page.\n<script>bad()</script>\n<h2>Two</h2>\n<ul><li>x<li>y</ul>\n"
        "<pre>a\n  b</pre>"
    )
    document = html.read(page)
    assert document.title == "A & B"
    assert shape(document.sections)[0][0] == ("One",)
    said = [line.text for part in document.sections for line in part.lines if line.text]
    assert said == ["# One", "See [the other](two.html) page.", "## Two", "- x", "- y", "```", "a", "  b", "```"]
    assert [part.lines[0].number for part in document.sections] == [3, 6]


@given(st.text(alphabet="<>/apre h1&;#x\"'=!-\n[]()", max_size=200))
def test_anything_is_html(text: str) -> None:
    html.read(text)


# ---------------------------------------------------------------- code


def test_python_is_cut_at_functions_and_classes() -> None:
    text = (
        'import os\n\n\n# why\n@deco\ndef one():\n    pass\n\n\nclass Two:\n    """doc"""\n\n    def three(self): ...\n'
    )
    assert shape(code.read(text, "x.py").sections) == [((), 1, 3), (("one",), 4, 7), (("Two",), 10, 13)]


def test_a_long_class_is_cut_at_its_methods() -> None:
    methods = "".join(f"    def m{n}(self):\n        return {'x' * 500!r}\n\n" for n in range(4))
    sections = code.read(f"class Big:\n    y = 1\n\n{methods}", "x.py").sections
    assert [part.headings for part in sections] == [("Big",), *(("Big", f"m{n}") for n in range(4))]
    assert sections[1].lines[0].number == 4


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("a.js", "export function add(a) {}\nclass Big { one() {} }\nconst f = (x) => x;\n", ["add", "Big", "f"]),
        ("a.ts", "interface Shape { x: number }\nfunction go(): void {}\n", ["Shape", "go"]),
        ("a.go", "package main\n\ntype T struct{}\n\nfunc (t *T) Run() {}\n", ["T", "Run"]),
        ("a.rs", "struct A;\nimpl A { fn go(&self) {} }\n", ["A", "A"]),
        ("a.java", "class Foo { int bar() { return 1; } }\n", ["Foo"]),
        ("a.c", "#include <x.h>\nint main(int c) { return 0; }\n", ["main"]),
        ("a.cpp", "namespace n { class K { int x; }; }\n", ["n"]),
    ],
)
def test_other_languages_are_parsed(name: str, text: str, named: list[str]) -> None:
    sections = code.read(text, name).sections
    assert [part.headings[-1] for part in sections if part.headings] == named


@pytest.mark.parametrize("name", ["broken.py", "x.rb", "x.yaml"])
def test_code_that_nothing_parses_is_cut_like_text(name: str) -> None:
    text = "def broken(:\n  pass\n"
    assert shape(code.read(text, name).sections) == [((), 1, 3)]


# ---------------------------------------------------------------- chunks


@given(st.lists(st.text(alphabet="ab \n", max_size=400), max_size=12), st.integers(1, 30))
def test_chunks_hold_every_word_once_and_in_order(parts: list[str], width: int) -> None:
    text = "\n".join(part * width for part in parts)
    made = list(chunks([Section((), numbered(text))]))
    assert "".join("".join(chunk.text for chunk in made).split()) == "".join(text.split())
    assert all(len(chunk.text) <= CHUNK for chunk in made)
    lines = text.split("\n")
    for chunk in made:
        assert lines[chunk.first - 1].strip()
        assert chunk.first <= chunk.last
    assert [chunk.first for chunk in made] == sorted(chunk.first for chunk in made)


def test_paragraphs_stay_whole_where_they_can() -> None:
    paragraphs = ["word " * 80 + f"end{number}." for number in range(8)]
    made = list(chunks([Section((), numbered("\n\n".join(paragraphs)))]))
    assert len(made) == 4
    assert all(chunk.text.count("end") == 2 and chunk.text.endswith(".") for chunk in made)


# ---------------------------------------------------------------- encodings


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Grüße".encode(), "Grüße"),
        ("Grüße".encode("utf-8-sig"), "Grüße"),
        ("Grüße".encode("utf-16"), "Grüße"),
        ("Grüße".encode("utf-32"), "Grüße"),
        ("Viele Grüße aus Köln, schöne Straße".encode("cp1252"), "Viele Grüße aus Köln, schöne Straße"),
        (b"one\r\ntwo\rthree", "one\ntwo\nthree"),
    ],
)
def test_bytes_become_text(data: bytes, text: str) -> None:
    assert decoded(data, "text") == text


def test_other_encodings_are_guessed_or_said() -> None:
    russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
    assert decoded(russian.encode("cp1251"), "text") == russian
    said = b"<meta charset='shift_jis'>" + "日本語の文書です".encode("shift_jis")
    assert (decoded(said, "html") or "").endswith("日本語の文書です")
    assert (decoded(b"# -*- coding: koi8-r -*-\n# " + "привет".encode("koi8-r"), "code") or "").endswith("привет")


@pytest.mark.parametrize(
    "data", [b"\x00\x01\x02", bytes(range(256)) * 10, b"PK\x03\x04\x14\x00", b"\x7fELF\x02\x01\x01\x00"]
)
def test_binary_is_no_text(data: bytes) -> None:
    assert decoded(data, "text") is None


@given(st.binary(max_size=300), st.sampled_from(["text", "html", "code", "markdown"]))
def test_any_bytes_are_text_or_not(data: bytes, kind: str) -> None:
    text = decoded(data, kind)  # type: ignore[arg-type]
    assert text is None or not set(text) & {"\0", "\r"}


@given(st.binary(max_size=400), st.sampled_from(["a.md", "a.html", "a.py", "a.txt", "a.ts", "a.rs"]))
def test_any_file_is_items_or_a_reason(data: bytes, name: str) -> None:
    try:
        found = read_items(f"/x/{name}", data, 0)
    except Unreadable:
        return
    assert [item.chunk_index for item in found] == list(range(len(found)))
    assert {item.kind for item in found} == {kind_of(name)}


# ---------------------------------------------------------------- PDF


async def test_pdf_is_cut_at_pages(memory: Memory, tree: Path) -> None:
    write(tree, {"report.pdf": made_pdf("Bees make honey", "Wasps do not"), "broken.pdf": b"%PDF-1.4 nonsense"})
    report = await memory.index_folders([tree])
    found = await items(memory)
    assert [(item.text, item.metadata["page"], item.title) for _, item in sorted(found.items())] == [
        ("Bees make honey", 1, "report"),
        ("Wasps do not", 2, "report › page 2"),
    ]
    assert report.skipped["PDF that cannot be read"].examples == [(tree / "broken.pdf").as_posix()]


def test_a_pdf_bomb_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 KB that unpack to 200 MB in one page."""
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b"BT (x) Tj ET " * 80_000) for _ in range(200)) + packer.flush()
    monkeypatch.setattr(limits, "PDF_SECONDS", 20.0)
    with pytest.raises(Unreadable, match=r"too much memory|too long|cannot be read|without text"):
        pdf.read(made_pdf("x", stream=bomb))


def test_a_pdf_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PDF_SECONDS", 0.01)
    with pytest.raises(Unreadable, match="too long"):
        pdf.read(made_pdf("x"))


async def test_without_the_extra_a_pdf_is_named(memory: Memory, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, {"a.pdf": made_pdf("Bees")})
    with monkeypatch.context() as without:
        without.setattr(pdf, "can_read", lambda: False)
        report = await memory.index_folders([tree])
        assert report.skipped[pdf.NO_EXTRA].count == 1
    assert (await memory.index_folders([tree])).new == 1

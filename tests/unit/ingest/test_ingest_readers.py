"""Readers of every format: sections, titles, lines, tags, names, also of broken files."""

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest
from files_support import index, items, made_pdf, write
from hypothesis import example, given
from hypothesis import strategies as st

from fourfold import Memory, limits
from fourfold.ingest import formats
from fourfold.ingest.document import CHUNK_TOKENS, Document, Section, Unreadable, chunks, numbered, tokens
from fourfold.ingest.formats import FORMATS, decoded, format_of, read, read_chunks
from fourfold.ingest.reader_process import ReaderProcess, Request
from fourfold.ingest.readers import code, html, markdown, packed
from fourfold.ingest.sync import checked_files, file_items

pytestmark = pytest.mark.spec("S3.1")


def shape(sections: list[Section]) -> list[tuple[tuple[str, ...], int, int]]:
    return [(part.headings, part.lines[0].number, part.lines[-1].number) for part in sections]


# ---------------------------------------------------------------- Markdown


def test_markdown_is_split_at_headings() -> None:
    text = "intro\n\n# One\ntext\n```\n# no heading\n```\n## Two ##\nmore\n# Three\n"
    assert shape(markdown.read(text, "a.md").sections) == [
        ((), 1, 2),
        (("One",), 3, 7),
        (("One", "Two"), 8, 9),
        (("Three",), 10, 11),
    ]


def test_underlined_headings_are_recognised() -> None:
    assert shape(markdown.read("Title\n=====\n\ntext\n\nPart\n----\nmore", "a.md").sections) == [
        (("Title",), 1, 5),
        (("Title", "Part"), 6, 8),
    ]
    assert shape(markdown.read("- item\n---\ntext\n\n| a |\n---", "a.md").sections) == [((), 1, 6)]


def test_front_matter_gives_title_tags_aliases_and_metadata() -> None:
    front = (
        "---\ntitle: The Plan\ntags: [a, '#b']\naliases: Old Name, Other\nyear: 2024\ndate: 2024-05-01\nn: .nan\n---\n"
    )
    document = markdown.read(front + "# Other title\nSee #garden and `#no` and [x](#anchor).\n", "a.md")
    assert document.title == "The Plan"
    assert document.tags == ("a", "b")
    assert [use.tag for use in document.sections[0].tags] == ["garden"]
    assert document.aliases == ("Old Name", "Other")
    assert dict(document.metadata) == {"year": 2024, "date": "2024-05-01", "n": "nan"}
    assert document.sections[0].lines[0].number == 9


@pytest.mark.parametrize(
    "front", ["---\n[: wrong\n---\n", "---\na: &x [1]\nb: *x\n---\n", "---\njust text\n---\n", "---\n"]
)
def test_invalid_front_matter_is_text(front: str) -> None:
    document = markdown.read(front + "text", "a.md")
    assert document.tags == ()
    assert document.sections[0].lines[0].number == 1


@pytest.mark.parametrize(
    "value",
    ["!!bool foo", '!!int ""', "!!timestamp foo", "!!float x", "!!binary ä", "!!set [a]", "[" * 8000, "2024-13-45",
     "9" * 5000, "? [a]\n: b", "&x [*x]", "!!python/object:os.system x", "a\x01b", "{a: b: c}", "'" + "\n" * 50],
)  # fmt: skip
def test_broken_front_matter_is_noted_and_the_text_is_indexed(value: str) -> None:
    document = markdown.read(f"---\ntags: [a]\nx: {value}\n---\n# Title\n\ntext\n", "a.md")
    assert document.note.startswith("indexed without its front matter (")
    assert document.tags == ()
    assert document.sections[-1].headings == ("Title",)


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "1" + ":59" * 3000, "12345678901234567890123"])
def test_numbers_too_large_to_store_are_kept_as_written(number: str) -> None:
    assert markdown.read(f"---\nn: {number}\n---\ntext", "a.md").metadata == {"n": number}


@pytest.mark.parametrize(
    ("line", "tags"),
    [
        ("call Bob #todo", ["todo"]), ("#todo call Bob", ["todo"]),
        ("#project #Ready/soon, #2024-plans.", ["project", "Ready/soon", "2024-plans"]),
        ("- item (see below) #größe!", ["größe"]), ("    - deeper item #milk", ["milk"]),
        ("> quoted #idea", ["idea"]), ("see http://x.org/#fragment and [x](#anchor) and [y](a.md#part)", []),
        ("colours #fff, #fff000, #FFAA00CC and #abcd", []), ("fixes #123, #4-5 and gh#7", []),
        ("`a #no b` and ``c #no `d`` and <b style='color: #no'>x</b>", []), ("an unpaired ` mark #yes", ["yes"]),
        ("[ref]: #anchor", []), ("    code #no", []), ("\tcode #no", []), ("#include <stdio.h>", []),
        ("Array#map and #map() and #a.b and #{x} and '#id' and \"#x\"", []), ("C# and F# and ##x", []),
    ],
)  # fmt: skip
def test_hashtags_are_recognised(line: str, tags: list[str]) -> None:
    document = markdown.read(f"# Title\n\n{line}\n", "a.md")
    assert [use.tag for section in document.sections for use in section.tags] == tags


def test_headings_without_a_blank_are_not_tags() -> None:
    document = markdown.read("#install\n\ntext #tag\n\n##Usage\n\n#api\n\n#one #two\n", "a.md")
    assert [use.tag for section in document.sections for use in section.tags] == ["tag", "one", "two"]


def test_a_chunk_has_its_own_tags_and_those_of_the_front_matter(memory: Memory, tree: Path) -> None:
    text = f"---\ntags: [all]\n---\n# One\n\n{'words ' * 150}#first\n\n# Two\n\n{'words ' * 150}#second\n"
    index(memory, tree, {"a.md": text})
    found = items(memory)
    assert [sorted(found["a.md", number].tags) for number in range(2)] == [["all", "first"], ["all", "second"]]


def test_a_readme_is_named_after_its_folder() -> None:
    def named(path: str, text: str) -> tuple[str, object]:
        (item,) = file_items(path, read_chunks(path.rpartition("/")[2], text.encode()), 0)
        return item.title, item.metadata.get("aliases")

    assert named("/srv/heron/README.md", "words") == ("heron", None)
    assert named("/srv/heron/readme.txt", "words") == ("heron", None)
    assert named("/srv/heron/Readme.md", "# README\n\nwords") == ("heron", None)
    assert named("/srv/heron/README.md", "# The Heron\n\nwords") == ("The Heron", ["heron"])
    assert named("/srv/heron/notes.md", "words") == ("notes", None)


def test_the_title_is_a_first_heading_of_level_one() -> None:
    assert markdown.read("# One *two* [three](x.md) `four`\n", "a.md").title == "One *two* three four"
    assert markdown.read("intro\n\n# One\n", "a.md").title == "One"
    assert markdown.read("## Part\n\n# One\n", "a.md").title == ""


# ---------------------------------------------------------------- HTML


def test_html_becomes_markdown_with_source_line_numbers() -> None:
    page = (
        "<html><head><title>A &amp; B</title><style>x</style></head>\n<body><nav>menu</nav>\n<h1>One</h1>\n"
        "<p>See <a href='two.html'>the other</a> page.\n<script>bad()</script>\n<h2>Two</h2>\n<ul><li>x<li>y</ul>\n"
        "<pre>a\n  b</pre>"
    )
    document = html.read(page, "a.html")
    assert document.title == "A & B"
    assert shape(document.sections)[0][0] == ("One",)
    said = [line.text for part in document.sections for line in part.lines if line.text]
    assert said == ["# One", "See [the other](two.html) page.", "## Two", "- x", "- y", "```", "a", "  b", "```"]
    assert [part.lines[0].number for part in document.sections] == [3, 6]


SITE = """
<html><head><title>Caching {dash} Example 3 documentation</title></head><body>
<div role="banner"><h1>Example 3</h1></div>
<div class="related" role="navigation"><ul><li><a href="index.html">index</a></ul></div>
<div class="nav">previous, next</div>
<div class="body">
<h1>Caching<a class="headerlink" href="#caching" title="Permalink">¶</a></h1>
<p>See <a href="#keys">the keys</a>.</p>
<dl><dt>cache.get(key)<a href="#cache.get">¶</a></dt><dd><p>The value.</p></dd>
<dt>cache.set()<dt>cache.add()<dd>Stores.</dl>
</div>
<div role="contentinfo">Copyright</div>
</body></html>
"""


@pytest.mark.parametrize("dash", ["—", "|", "-", "·"])
def test_what_all_pages_of_a_site_repeat_is_left_out(dash: str) -> None:
    document = html.read(SITE.format(dash=dash), "a.html")
    assert document.title == "Caching"
    assert "\n".join(line.text for section in document.sections for line in section.lines).strip() == (
        "# Caching\n\nSee the keys.\n\ncache.get(key)\nThe value.\n\ncache.set()\ncache.add()\nStores."
    )


def test_a_title_that_only_begins_like_its_heading_is_kept() -> None:
    assert html.read("<title>Caching in depth</title><h1>Caching</h1>x", "a.html").title == "Caching in depth"
    assert html.read("<title>News | Site</title><h1>Other</h1>x", "a.html").title == "News | Site"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("<p>menu</p><main><div>one</div><p>two</p></main><p>footer</p>", ["one", "two"]),
        ("<div>menu</div><div role=main><div>one</div></div><div>footer</div>", ["one"]),
        ("<main>one</main>between<main>two</main>", ["one", "two"]),
        ("<p>one</p><main></main>", ["one"]),
        ("menu<main>one<div>two", ["one", "two"]),
    ],
)
def test_only_the_main_content_of_a_page_is_read(body: str, lines: list[str]) -> None:
    document = html.read(body, "a.html")
    assert [line.text for section in document.sections for line in section.lines if line.text] == lines


@given(st.text(alphabet="<>/apre h1&;#x\"'=!-\n[]()", max_size=200))
def test_any_text_can_be_read_as_html(text: str) -> None:
    html.read(text, "a.html")


# ---------------------------------------------------------------- code


def test_python_is_split_at_functions_and_classes() -> None:
    text = (
        'import os\n\n\n# why\n@deco\ndef one():\n    pass\n\n\nclass Two:\n    """doc"""\n\n    def three(self): ...\n'
    )
    assert shape(code.read(text, "x.py").sections) == [((), 1, 3), (("one",), 4, 7), (("Two",), 10, 13)]


def test_a_long_class_is_split_at_its_methods() -> None:
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
def test_code_without_a_parser_is_split_like_text(name: str) -> None:
    text = "def broken(:\n  pass\n"
    assert shape(code.read(text, name).sections) == [((), 1, 3)]


# ---------------------------------------------------------------- chunks


@given(st.lists(st.text(alphabet="ab \n", max_size=400), max_size=12), st.integers(1, 30))
@example(["b", "\n", "a a a a a ", "a a", "a a a a a\n"], 20)  # empty lines are no tokens
def test_chunks_contain_every_word_once_in_order(parts: list[str], width: int) -> None:
    text = "\n".join(part * width for part in parts)
    made = list(chunks([Section((), numbered(text))]))
    assert "".join("".join(chunk.text for chunk in made).split()) == "".join(text.split())
    assert all(tokens(chunk.text) <= CHUNK_TOKENS for chunk in made)
    lines = text.split("\n")
    for chunk in made:
        assert lines[chunk.first - 1].strip()
        assert chunk.first <= chunk.last
    assert [chunk.first for chunk in made] == sorted(chunk.first for chunk in made)


def test_paragraphs_stay_whole_if_possible() -> None:
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
def test_bytes_are_decoded(data: bytes, text: str) -> None:
    assert decoded(data, "text") == text


def test_other_encodings_are_guessed_or_declared() -> None:
    russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
    assert decoded(russian.encode("cp1251"), "text") == russian
    said = b"<meta charset='shift_jis'>" + "日本語の文書です".encode("shift_jis")
    assert (decoded(said, "html") or "").endswith("日本語の文書です")
    assert (decoded(b"# -*- coding: koi8-r -*-\n# " + "привет".encode("koi8-r"), "code") or "").endswith("привет")


@pytest.mark.parametrize(
    "data", [b"\x00\x01\x02", bytes(range(256)) * 10, b"PK\x03\x04\x14\x00", b"\x7fELF\x02\x01\x01\x00"]
)
def test_binary_data_is_not_text(data: bytes) -> None:
    assert decoded(data, "text") is None


@given(st.binary(max_size=300), st.sampled_from(["text", "html", "code", "markdown"]))
def test_any_bytes_can_be_decoded_or_rejected(data: bytes, kind: str) -> None:
    text = decoded(data, kind)  # type: ignore[arg-type]
    assert text is None or not set(text) & {"\0", "\r"}


@given(st.binary(max_size=400), st.sampled_from(["a.md", "a.html", "a.py", "a.txt", "a.ts", "a.rs"]))
def test_any_file_gives_items_or_a_reason(data: bytes, name: str) -> None:
    try:
        (found,) = checked_files([file_items(f"/x/{name}", read_chunks(name, data), 0)])
    except Unreadable:
        return
    assert not isinstance(found, Unreadable)
    assert [item.chunk_index for item in found] == list(range(len(found)))
    assert {item.kind for item in found} == {format_of(name).kind}


# ---------------------------------------------------------------- PDF


def test_pdf_is_split_at_pages(memory: Memory, tree: Path) -> None:
    report = index(
        memory, tree, {"report.pdf": made_pdf("Bees make honey", "Wasps do not"), "broken.pdf": b"%PDF-1.4 nonsense"}
    )
    found = items(memory)
    assert [(item.text, item.metadata["page"], item.title) for _, item in sorted(found.items())] == [
        ("Bees make honey", 1, "report"),
        ("Wasps do not", 2, "report › page 2"),
    ]
    assert report.skipped["cannot be parsed (PdfStreamError)"].examples == [(tree / "broken.pdf").as_posix()]


@pytest.fixture
def reader() -> Iterator[ReaderProcess]:
    with closing(ReaderProcess()) as process:
        yield process


def test_a_pdf_bomb_is_skipped(reader: ReaderProcess) -> None:
    """200 KB that unpack to 200 MB on one page."""
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b"BT (x) Tj ET " * 80_000) for _ in range(200)) + packer.flush()
    (result,) = reader.read([Request("bomb.pdf", made_pdf("x", stream=bomb))])
    assert isinstance(result, Unreadable)


def test_a_pdf_whose_time_is_over_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "cpu_seconds_for", lambda size: 0.0)
    pages = [f"page {number}" for number in range(20)]
    document = packed.read_pdf(made_pdf(*pages), "long.pdf")
    assert document.note == "PDF read in part: the remaining pages take too long"
    assert 0 < len(document.sections) < len(pages)


def test_without_the_extra_a_pdf_is_skipped_and_named(memory, tree, monkeypatch):
    write(tree, {"a.pdf": made_pdf("Bees")})
    with monkeypatch.context() as without:
        without.setattr(formats, "_is_installed", lambda _: False)
        report = memory.index_folders([tree])
        assert report.skipped["PDF needs an extra: pip install 'fourfold[files]'"].count == 1
    assert memory.index_folders([tree]).new == 1


# ---------------------------------------------------------------- further formats


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def made_docx(body: str, title: str = "") -> bytes:
    styles = (
        '<w:styles xmlns:w="w"><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style></w:styles>'
    )
    core = f'<cp:coreProperties xmlns:cp="c" xmlns:dc="d"><dc:title>{title}</dc:title></cp:coreProperties>'
    document = f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>'
    return zipped({"word/document.xml": document, "word/styles.xml": styles, "docProps/core.xml": core})


def paragraph(text: str, style: str = "") -> str:
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{chosen}<w:r><w:t>{text}</w:t></w:r></w:p>"


def made_epub(*chapters: str) -> bytes:
    manifest = "".join(f'<item id="c{n}" href="text/c%20{n}.xhtml"/>' for n in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in reversed(range(len(chapters))))
    return zipped(
        {
            "META-INF/container.xml": '<container><rootfile full-path="OEBPS/book.opf"/></container>',
            "OEBPS/book.opf": '<package xmlns:dc="d"><metadata><dc:title>The Heron</dc:title></metadata>'
            f"<manifest>{manifest}</manifest><spine>{spine}</spine></package>",
            **{f"OEBPS/text/c {n}.xhtml": chapter for n, chapter in enumerate(chapters)},
        }
    )


def said(document: Document) -> list[tuple[tuple[str, ...], str]]:
    return [(part.headings, " ".join(line.text for line in part.lines if line.text)) for part in document.sections]


# ---------------------------------------------------------------- reStructuredText


def test_rst_heading_levels_follow_the_order_of_their_styles() -> None:
    text = "=====\nTitle\n=====\n\nintro\n\nPart\n----\n\ntext\n\nDeep ``x``\n~~~~~~~~~~\n\nmore\n\nNext\n----\n\nend\n"
    document = read("a.rst", text.encode())
    assert document.title == "Title"
    headings = [("Title",), ("Title", "Part"), ("Title", "Part", "Deep x"), ("Title", "Next")]
    assert [part.headings for part in document.sections] == headings
    assert [part.lines[0].number for part in document.sections] == [1, 7, 12, 17]


def test_rst_rules_and_tables_are_not_headings() -> None:
    text = "text\n\n----\n\n=====  =====\na      b\n=====  =====\n\n  quoted\n  ------\n"
    assert [part.headings for part in read("a.rst", text.encode()).sections] == [()]


# ---------------------------------------------------------------- notebooks


def test_a_notebook_is_read_as_cells_without_images() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Bees\n", "\n", "They hum. #insects"]},
        {
            "cell_type": "code",
            "source": "# not a heading\nprint(6 * 7)",
            "outputs": [
                {"output_type": "stream", "text": ["42\n"]},
                {"data": {"image/png": "iVBORw0KGgo" * 1000, "text/plain": ["<Figure>"]}},
            ],
        },
        {"cell_type": "markdown", "source": "## Wasps"},
    ]
    document = read("a.ipynb", json.dumps({"cells": cells, "nbformat": 4}).encode())
    assert document.title == "Bees"
    assert [part.headings for part in document.sections] == [("Bees",), ("Bees", "Wasps")]
    text = said(document)[0][1]
    assert "print(6 * 7)" in text
    assert "42" in text
    assert "iVBOR" not in text
    (first, *_) = file_items("/x/a.ipynb", read_chunks("a.ipynb", json.dumps({"cells": cells}).encode()), 0)
    assert (first.kind, first.metadata["cell"], first.metadata["end_cell"]) == ("notebook", 1, 3)


# ---------------------------------------------------------------- DOCX and EPUB


def test_docx_has_headings_paragraphs_lists_and_tables() -> None:
    row = "<w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>"
    body = (
        paragraph("Herons", "berschrift1")
        + paragraph("They fish &amp; wait.")
        + paragraph("Food", "berschrift2")
        + "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>frogs</w:t></w:r></w:p>"
        + f"<w:tbl>{row.format(paragraph('gate'), paragraph('5'))}</w:tbl>"
    )
    document = read("a.docx", made_docx(body))
    assert document.title == "Herons"
    assert said(document) == [
        (("Herons",), "# Herons They fish & wait."),
        (("Herons", "Food"), "## Food - frogs gate | 5"),
    ]
    assert read("a.docx", made_docx(body, "Named")).title == "Named"
    (item,) = file_items("/x/a.docx", read_chunks("a.docx", made_docx(body)), 0)
    assert (item.kind, item.metadata["paragraph"]) == ("docx", 1)


def test_epub_is_read_in_reading_order() -> None:
    document = read("a.epub", made_epub("<h1>One</h1><p>first</p>", "<html><body><h1>Two</h1>second</body></html>"))
    assert document.title == "The Heron"
    assert said(document) == [(("Two",), "# Two second"), (("One",), "# One first")]
    assert [part.metadata for part in document.sections] == [{"chapter": 1}, {"chapter": 2}]


@pytest.mark.spec("C17")
@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.docx", b"PK\x03\x04 nonsense", "not a ZIP archive"),
        ("a.docx", zipped({"word/other.xml": "<a/>"}), "without word/document.xml"),
        ("a.docx", zipped({"word/document.xml": "<a><b>"}), "malformed XML"),
        (
            "a.docx",
            zipped({"word/document.xml": '<!DOCTYPE a [<!ENTITY x "lol">]><a>&x;</a>'}),
            "document type or entities",
        ),
        ("a.docx", zipped({"word/document.xml": b"<a>" + b" " * (70 << 20)}), "unpacks to too many bytes"),
        ("a.epub", zipped({"META-INF/container.xml": "<container/>"}), "without a package"),
        ("a.epub", made_epub(), "without text"),
        ("a.ipynb", b'{"worksheets": []}', "without cells"),
    ],
)
def test_a_broken_archive_is_skipped_with_a_reason(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read(name, data)


@pytest.mark.spec("C17")
def test_an_archive_with_too_much_text_is_skipped() -> None:
    data = made_docx(paragraph("the heron at the gate " * (limits.FILE_BYTES // 20)))
    assert len(data) < limits.FILE_BYTES // 100
    with pytest.raises(Unreadable, match="more text than a file may have"):
        read_chunks("a.docx", data)


# ---------------------------------------------------------------- tables and chats


@pytest.mark.spec("C17")
def test_a_table_with_too_much_repeated_text_is_read_as_text() -> None:
    data = b"n" * 1000 + b",b\n" + b"1,2\n" * (limits.FILE_BYTES // 1000)
    made = read_chunks("a.csv", data).chunks
    assert sum(len(chunk.text) for chunk in made) <= len(data)
    assert made[-1].text.endswith("1,2\n1,2")


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.csv", 'name,city\n\n"Bo, Jr.","New\nYork"\n', [(3, "name: Bo, Jr.; city: New York")]),
        ("a.csv", 'a,b\n"' + "never closed\n" * 100_000, [(1, "a,b"), (2, '"never closed')]),
        ("a.csv", "name;city\nAda;London\n", [(2, "name: Ada; city: London")]),
        ("a.tsv", "1\t2\n3\t4\n", [(1, "1; 2"), (2, "3; 4")]),
        ("a.csv", "name,city\nAda,,extra\n", [(2, "name: Ada; extra")]),
        ("a.csv", "name,city\n", [(1, "name; city")]),
    ],
)  # fmt: skip
def test_rows_contain_the_names_of_their_columns(name: str, text: str, lines: list[tuple[int, str]]) -> None:
    (section,) = read(name, text.encode()).sections
    assert [tuple(line) for line in section.lines][:2] == lines


def test_a_chat_is_read_as_messages() -> None:
    rows = [
        {"role": "user", "content": "Where is the heron?"},
        {"role": "assistant", "content": [{"type": "text", "text": "At gate 5."}, {"type": "image", "data": "AAAA"}]},
        {"messages": [{"role": "user", "content": "Thanks"}]},
        {"role": "tool", "content": None},
    ]
    data = "\n".join([*map(json.dumps, rows), "not json"]).encode()
    made = file_items("/x/chat.jsonl", read_chunks("chat.jsonl", data), 0)
    assert {item.kind for item in made} == {"chat"}
    assert "\n".join(item.text for item in made) == "user: Where is the heron?\nassistant: At gate 5.\nuser: Thanks"


def test_other_json_lines_are_read_as_text() -> None:
    (item,) = file_items("/x/rows.jsonl", read_chunks("rows.jsonl", b'{"a": 1}\n{"a": 2}\n'), 0)
    assert (item.kind, item.text) == ("text", '{"a": 1}\n{"a": 2}')


@given(st.binary(max_size=300), st.sampled_from([format_.suffixes.split()[0] for format_ in FORMATS]))
def test_any_bytes_give_chunks_or_an_exception(data: bytes, suffix: str) -> None:
    """Only exceptions, which the child process reports as a reason; nothing exits or hangs."""
    try:
        read_chunks(f"a.{suffix}", data)
    except Exception:  # noqa: BLE001  the child names any of them as the reason
        return

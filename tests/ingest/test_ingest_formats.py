"""Readers of reStructuredText, notebooks, DOCX, EPUB, tables and chats, also for broken files."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

import pytest
from files_support import items, write
from hypothesis import given
from hypothesis import strategies as st

from fourfold import limits
from fourfold.ingest.document import Document, Unreadable
from fourfold.ingest.formats import FORMATS, read, read_chunks
from fourfold.ingest.sync import file_items
from fourfold.memory import Memory

pytestmark = pytest.mark.spec("S3.1")


def packed(parts: Mapping[str, str | bytes]) -> bytes:
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
    return packed({"word/document.xml": document, "word/styles.xml": styles, "docProps/core.xml": core})


def paragraph(text: str, style: str = "") -> str:
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{chosen}<w:r><w:t>{text}</w:t></w:r></w:p>"


def made_epub(*chapters: str) -> bytes:
    manifest = "".join(f'<item id="c{n}" href="text/c%20{n}.xhtml"/>' for n in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in reversed(range(len(chapters))))
    return packed(
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
    assert [part.headings for part in document.sections] == [
        ("Title",),
        ("Title", "Part"),
        ("Title", "Part", "Deep x"),
        ("Title", "Next"),
    ]
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
        ("a.docx", packed({"word/other.xml": "<a/>"}), "without word/document.xml"),
        ("a.docx", packed({"word/document.xml": "<a><b>"}), "malformed XML"),
        (
            "a.docx",
            packed({"word/document.xml": '<!DOCTYPE a [<!ENTITY x "lol">]><a>&x;</a>'}),
            "document type or entities",
        ),
        ("a.docx", packed({"word/document.xml": b"<a>" + b" " * (70 << 20)}), "unpacks to too many bytes"),
        ("a.epub", packed({"META-INF/container.xml": "<container/>"}), "without a package"),
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


def test_every_format_of_the_base_install_is_indexed(memory: Memory, tree: Path) -> None:
    write(
        tree,
        {
            "a.rst": "Bees\n====\n\ntext\n",
            "b.ipynb": json.dumps({"cells": [{"cell_type": "markdown", "source": "Bees"}]}),
            "c.docx": made_docx(paragraph("Bees")),
            "d.epub": made_epub("<p>Bees</p>"),
            "e.csv": "name,city\nBees,Rome\n",
            "f.jsonl": '{"role": "user", "content": "Bees"}\n',
        },
    )
    report = memory.index_folders([tree])
    assert (report.new, report.skipped) == (6, {})
    kinds = {item.kind for item in items(memory).values()}
    assert kinds == {"rst", "notebook", "docx", "epub", "table", "chat"}


@given(st.binary(max_size=300), st.sampled_from([format_.suffixes.split()[0] for format_ in FORMATS]))
def test_any_bytes_give_chunks_or_an_exception(data: bytes, suffix: str) -> None:
    """Only exceptions, which the child process reports as a reason; nothing exits or hangs."""
    try:
        read_chunks(f"a.{suffix}", data)
    except Exception:  # noqa: BLE001  the child names any of them as the reason
        return

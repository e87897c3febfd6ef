"""Reading collections: valid files, and errors that name file and line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fourfold.errors import InvalidItem, InvalidQuery, NotFound, RequestError
from fourfold.evaluation.collection import Collection, read_collection

GARDEN = Path(__file__).with_name("garden")

pytestmark = pytest.mark.spec("S5.7")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GARDEN, tmp_path / "garden"))


def read_with(folder: Path, name: str, *lines: Any) -> Collection:
    """The collection with these lines appended to one file."""
    with (folder / name).open("a", encoding="utf-8") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return read_collection(folder)


def test_a_collection_is_read_whole() -> None:
    garden = read_collection(GARDEN)
    assert (garden.name, len(garden.items), len(garden.questions)) == ("garden", 20, 18)
    assert garden.judgements["q05"] == {"bees": 2, "firstaid": 1}
    assert garden.judgements["q02"] == {"mower": 1}, "a score of 0 is not relevant"
    assert [question.id for question in garden.questions if question.unanswerable] == ["u01", "u02"]
    assert garden.items[0].tags == ("soil", "east")
    assert ("soil", "compost") in garden.links
    assert garden.edges[0] == ("Mrs Quint", "lends", "The long ladder", 1.0)


def test_a_plain_collection_has_titles_and_texts_only() -> None:
    garden = read_collection(GARDEN, plain=True)
    assert {item.tags for item in garden.items} == {()}
    assert (garden.links, garden.edges) == ((), ())
    assert len(garden.items) == 20


def test_tags_are_lists_or_words_between_commas(folder: Path) -> None:
    row = {"_id": "n", "text": "new", "tags": ["own"], "metadata": {"tags": ["a"], "keywords": "b c, d,, A"}}
    assert read_with(folder, "corpus.jsonl", row).items[-1].tags == ("own", "a", "b c", "d")


def test_links_to_unknown_items_are_left_out(folder: Path) -> None:
    row = {"_id": "n", "text": "new", "metadata": {"links": ["soil", "n", "unknown", "void", "soil"]}}
    found = read_with(folder, "corpus.jsonl", row, {"_id": "void", "title": "", "text": " "})
    assert [link for link in found.links if link[0] == "n"] == [("n", "soil")]
    assert found.empty == 1
    assert "void" not in {item.key for item in found.items}


def test_questions_without_a_relevant_item_are_not_asked(folder: Path) -> None:
    found = read_with(folder, "queries.jsonl", {"_id": "q99", "text": "nobody has judged this"})
    assert "q99" not in {question.id for question in found.questions}


def test_numbers_may_be_ids_and_a_header_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": 7, "text": "seven"}\n', "utf-8")
    (tmp_path / "queries.jsonl").write_text('{"_id": 1, "text": "which?"}\n', "utf-8")
    (tmp_path / "qrels.tsv").write_text("1\t7\t1\n", "utf-8")
    assert read_collection(tmp_path).judgements == {"1": {"7": 1}}


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("corpus.jsonl", "{", "corpus.jsonl:21: not JSON"),
        ("corpus.jsonl", "[]", "corpus.jsonl:21: not an object"),
        ("corpus.jsonl", {"text": "x"}, "corpus.jsonl:21: _id is missing"),
        ("corpus.jsonl", {"_id": "soil", "text": "x"}, "corpus.jsonl:21: the _id 'soil' occurs twice"),
        ("corpus.jsonl", {"_id": "x", "text": 5}, "corpus.jsonl:21: text is not a string"),
        (
            "corpus.jsonl",
            {"_id": "x", "text": "x", "metadata": {"tags": 5}},
            "corpus.jsonl:21: metadata.tags is not a list",
        ),
        ("queries.jsonl", {"_id": "x", "text": "  "}, "queries.jsonl:19: the query is empty"),
        ("queries.jsonl", {"_id": "q01", "text": "x"}, "queries.jsonl:19: the _id 'q01' occurs twice"),
        ("queries.jsonl", {"_id": "x", "text": "x", "metadata": 5}, "queries.jsonl:19: metadata is not an object"),
        (
            "queries.jsonl",
            {"_id": "x", "text": "x", "metadata": {"session_no": "3"}},
            "queries.jsonl:19: metadata.session_no is '3'",
        ),
        ("qrels.tsv", "q01 soil 1", "qrels.tsv:23: 1 columns"),
        ("qrels.tsv", "q01\tsoil\tyes", "qrels.tsv:23: the score 'yes'"),
        ("qrels.tsv", "q77\tsoil\t1", "qrels.tsv:23: unknown question 'q77'"),
        ("qrels.tsv", "q01\tsand\t1", "qrels.tsv:23: unknown document 'sand'"),
        ("edges.jsonl", {"from": "a", "to": "b"}, "edges.jsonl:4: relation is missing"),
        ("edges.jsonl", {"from": "a", "relation": "r", "to": "b", "weight": 2}, "edges.jsonl:4: the weight"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(folder: Path, file: str, line: Any, said: str) -> None:
    with pytest.raises(RequestError) as error:
        read_with(folder, file, line)
    assert said in error.value.message
    assert error.value.remedy


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(InvalidItem, match=file):
        read_collection(folder)


def test_a_missing_folder_and_nothing_judged(folder: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        read_collection(folder / "none")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq01\tsoil\t0\n", "utf-8")
    with pytest.raises(InvalidQuery, match="no question"):
        read_collection(folder)

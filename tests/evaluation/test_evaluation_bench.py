"""The items that a question can see: scopes, sessions, tags, links, the user's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fourfold import Settings
from fourfold.evaluation.bench import Variant, open_bench
from fourfold.evaluation.collection import read_collection

pytestmark = pytest.mark.spec("S5.7")

KEYWORD = Variant("keyword", {"only": ("keyword",)})


def write(folder: Path, documents: list[dict[str, Any]], queries: list[dict[str, Any]], qrels: list[str]) -> Path:
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels]), "utf-8")
    return folder


def keys(folder: Path, variant: Variant, *, plain: bool = False) -> dict[str, list[str]]:
    collection = read_collection(folder, plain=plain)
    with open_bench(collection, Settings(embedder="none"), folder / "cache") as bench:
        bench.fill()
        return {answer.question.id: list(answer.keys) for answer in bench.run(variant)}


def test_a_scope_sees_its_own_items_of_earlier_sessions(tmp_path: Path) -> None:
    documents = [
        {"_id": f"{who}{number}", "text": f"note {number} on tea", "metadata": {"scope": who, "session_no": number}}
        for who in ("ann", "bob")
        for number in (1, 2, 10)
    ]
    queries = [
        {"_id": "q1", "text": "tea", "metadata": {"scope": "ann", "session_no": 10}},
        {"_id": "q2", "text": "tea", "metadata": {"scope": "bob"}},
        {"_id": "q3", "text": "tea", "metadata": {"scope": "nobody"}},
    ]
    found = keys(write(tmp_path, documents, queries, ["q1\tann1\t1", "q2\tbob2\t1", "q3\tbob2\t1"]), KEYWORD)
    assert set(found["q1"]) == {"ann1", "ann2"}, "sessions compare as numbers, and a session is not earlier than itself"
    assert set(found["q2"]) == {"bob1", "bob2", "bob10"}
    assert found["q3"] == []


def test_recency_does_not_prefer_the_end_of_a_file_without_times(tmp_path: Path) -> None:
    documents = [{"_id": str(number), "text": f"filler {number}"} for number in range(1100)]
    documents[0]["text"] = documents[-1]["text"] = "green tea"
    folder = write(tmp_path, documents, [{"_id": "q", "text": "green tea"}], ["q\t0\t1"])
    memories = Variant("memories", {"preset": "memories"})
    assert keys(folder, memories)["q"][:2] == keys(folder, Variant("auto"))["q"][:2] == ["0", "1099"]


def test_without_scoped_questions_all_items_are_together(tmp_path: Path) -> None:
    documents = [{"_id": who, "text": "tea", "metadata": {"scope": who}} for who in ("ann", "bob")]
    found = keys(write(tmp_path, documents, [{"_id": "q", "text": "tea"}], ["q\tann\t1"]), KEYWORD)
    assert set(found["q"]) == {"ann", "bob"}


DOCUMENTS = [
    {
        "_id": "1",
        "title": "Alpha",
        "text": "the first",
        "metadata": {"links": ["2", "3"], "keywords": "greek, letters"},
    },
    {"_id": "2", "title": "Same", "text": "the second"},
    {"_id": "3", "title": "Same", "text": "the third"},
    {"_id": "4", "text": "another without a title", "metadata": {"links": ["1"], "tags": ["letters"]}},
]
QUERIES = [{"_id": "g", "text": "Alpha"}, {"_id": "t", "text": "greek letters"}, {"_id": "d", "text": "document 2"}]


def test_links_lead_from_item_to_item_whatever_their_titles(tmp_path: Path) -> None:
    folder = write(tmp_path, DOCUMENTS, QUERIES, ["g\t1\t1", "t\t1\t1", "d\t2\t1"])
    graph = Variant("graph", {"only": ("graph",)})
    found = keys(folder, graph)
    assert found["g"][0] == "1"
    assert set(found["g"]) == {"1", "2", "3", "4"}, "both items with the same title, and the untitled one"
    assert found["d"] == [], "generated names do not match by chance"
    assert set(keys(folder, graph, plain=True)["g"]) == {"1"}


def test_keywords_and_tags_are_tags(tmp_path: Path) -> None:
    folder = write(tmp_path, DOCUMENTS, QUERIES, ["g\t1\t1", "t\t1\t1", "d\t2\t1"])
    tags = Variant("tags", {"only": ("tags",)})
    assert keys(folder, tags)["t"] == ["1", "4"]
    assert keys(folder, tags, plain=True)["t"] == []

"""Searching files: methods, fusion per call, one result per chunk, file names, path filters."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from engine_support import WordEmbedder
from files_support import items, write

from fourfold.memory import Memory
from fourfold.model import Filters
from fourfold.ranking.fusion import FILE_NAME
from fourfold.text.entities import file_names, named_files
from fourfold.wire import response_json

FILES = {
    "docs/routing.md": "# Routing\n\nThe router sends each packet along the cheapest way.",
    "docs/setup.md": "# Setup\n\nInstall the router, then plug in the cable.",
    "notes/setup.md": "# Notes\n\nNothing about cables here.",
    "honey bees.txt": "Die Bienen sammeln Honig auf der Wiese und bringen ihn nach Hause.",
    "Makefile": "all:\n\techo cables",
    "src/packet.py": 'def send(packet):\n    """Sends a packet along the router."""\n',
}


@pytest.fixture
def filled(tmp_path: Path, tree: Path) -> Memory:
    write(tree, FILES)
    memory = Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False)
    memory.index_folders([tree])
    memory.embed_pending()
    return memory


def found(response: object) -> list[str]:
    return [result["file_path"].partition("/tree/")[2] for result in response_json(response)["results"]]  # type: ignore[arg-type]


@pytest.mark.spec("S3.2")
@pytest.mark.spec("S3.4")
@pytest.mark.spec("S3.5")
def test_three_methods_give_one_result_for_a_chunk(filled: Memory) -> None:
    with filled as memory:
        words = response_json(memory.search("router packet", preset="files", only=["keyword"]))
        assert words["method"] == "keyword"
        assert "**router**" in words["results"][0]["snippet"]
        near = response_json(memory.search("router packet", preset="files", only=["semantic"]))
        assert near["method"] == "semantic"
        assert near["results"][0]["semantic_similarity"] > 0.1
        both = response_json(memory.search("router packet", preset="files"))
        assert both["method"] == "hybrid"
        ids = [result["id"] for result in both["results"]]
        assert len(set(ids)) == len(ids)
        first = both["results"][0]
        assert first["fts_rank"]
        assert first["semantic_rank"]
        assert "**" in first["snippet"]
        assert first["semantic_similarity"] is not None
        assert both["hints"]["overlap"] >= 1
        assert (first["chunk_index"], first["file_path"].endswith(".md")) == (0, True)


@pytest.mark.spec("S3.3")
def test_fusion_is_chosen_per_call(filled: Memory) -> None:
    with filled as memory:
        for fusion in ("rrf", "weighted", "auto"):
            response = response_json(memory.search("router packet", preset="files", fusion=fusion))
            assert response["fusion_strategy"] == fusion
            assert response["results"]


def test_words_are_marked_in_the_language_of_the_file(filled: Memory) -> None:
    with filled as memory:
        response = response_json(memory.search("Biene auf Wiesen", preset="files"))
        assert response["results"][0]["language"] == "de"
        assert "Die **Bienen** sammeln Honig auf der **Wiese** und" in response["results"][0]["snippet"]


@pytest.mark.spec("S3.6")
@pytest.mark.parametrize("preset", ["files", "auto"])
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("router cable packet honey bees.txt", "honey bees.txt"),
        ("what does `packet.py` do with the router?", "src/packet.py"),
        ("cables in Makefile", "Makefile"),
        ("router: docs/setup.md", "docs/setup.md"),
        ("router: notes/SETUP.md", "notes/setup.md"),
    ],
)
def test_a_file_named_exactly_ranks_first(filled: Memory, preset: str, query: str, first: str) -> None:
    with filled as memory:
        response = memory.search(query, preset=preset, explain=True)
        assert found(response)[0] == first
        best = response.results[0]
        assert [line.source for line in best.contributions].count(FILE_NAME) == 1
        assert best.score == math.fsum(line.value for line in best.contributions)
        assert best.explanation is not None
        assert FILE_NAME in best.explanation.details[-1].description
        assert all(FILE_NAME not in {line.source for line in other.contributions} for other in response.results[1:])


@pytest.mark.spec("S3.6")
def test_a_name_without_folders_means_every_file_that_has_it(filled: Memory) -> None:
    with filled as memory:
        assert set(found(memory.search("setup.md cable router packet", preset="files"))[:2]) == {
            "docs/setup.md",
            "notes/setup.md",
        }
        assert found(memory.search("makefile", preset="files", filters=Filters(path="docs/*"))) != ["Makefile"]


@pytest.mark.spec("S3.6")
def test_a_plain_word_is_not_a_file_name(filled: Memory) -> None:
    with filled as memory:
        for query in ("makefile of the router", "routing", "packet"):
            response = memory.search(query, preset="files")
            assert all(line.source != FILE_NAME for result in response.results for line in result.contributions)
        filtered = memory.search("docs/setup.md", preset="files", filters=Filters(path="notes/*"))
        assert "docs/setup.md" not in found(filtered)


@pytest.mark.parametrize(
    ("glob", "matching"),
    [
        ("docs/*.md", {"docs/routing.md", "docs/setup.md"}),
        ("setup.md", {"docs/setup.md", "notes/setup.md"}),
        ("**/*.py", {"src/packet.py"}),
        ("*.txt", {"honey bees.txt"}),
        ("/docs/*", set()),
        ("tree/*", {"honey bees.txt", "Makefile"}),
    ],
)
def test_path_filters_need_no_root(memory: Memory, tree: Path, glob: str, matching: set[str]) -> None:
    write(tree, FILES)
    memory.index_folders([tree])
    listed = memory.list(Filters(path=glob))
    assert {(item.path or "").partition("/tree/")[2] for item in listed} == matching
    assert items(memory)


def test_file_names_are_recognised_in_queries() -> None:
    assert file_names("see docs/a.md, and 'b c.txt'.")["a.md"] == "docs/a.md"
    assert file_names("see docs/a.md, and 'b c.txt'.")["b c.txt"] == "b c.txt"
    assert named_files({"a.md": "x/a.md"}, [(1, "/r/x/a.md"), (2, "/r/yx/a.md"), (3, "/r/x/a.md")]) == {
        "/r/x/a.md": [1, 3]
    }
    assert list(file_names("\0\ud800a.md")) == ["a.md"]
    assert file_names("\0\ud800") == {}
    assert len(file_names("word.md " * 1000)) < 700


@pytest.mark.spec("S3.6", "B3")
def test_a_search_for_a_skipped_file_says_why_it_is_not_indexed(filled: Memory, tree: Path) -> None:
    with filled as memory:
        (tree / "plan.md").write_bytes(bytes(range(256)) * 9)
        memory.index_folders([tree])
        notes = memory.search("what does plan.md say").notes
        assert notes == (f"{(tree / 'plan.md').as_posix()} is not indexed: no text in a known encoding",)
        assert memory.search("what does setup.md say").notes == ()
        write(tree, {"plan.md": "We will lay cables"})
        memory.index_folders([tree])
        assert memory.search("what does plan.md say").notes == ()

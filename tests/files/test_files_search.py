"""Searching in files: methods, fusion per call, one result a chunk, names of files, path filters (S3.2 to S3.6)."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from engine_support import WordEmbedder
from files_support import items, write

from fourfold.memory import Memory
from fourfold.model import Filters
from fourfold.search.file_names import SOURCE, candidates, chosen
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
async def filled(tmp_path: Path, tree: Path) -> Memory:
    write(tree, FILES)
    memory = await Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False)
    await memory.index_folders([tree])
    await memory.embed_pending()
    return memory


def found(response: object) -> list[str]:
    return [result["file_path"].partition("/tree/")[2] for result in response_json(response)["results"]]  # type: ignore[arg-type]


@pytest.mark.spec("S3.2")
@pytest.mark.spec("S3.4")
@pytest.mark.spec("S3.5")
async def test_three_methods_and_one_result_a_chunk(filled: Memory) -> None:
    async with filled as memory:
        words = response_json(await memory.search("router packet", preset="files", only=["keyword"]))
        assert words["method"] == "keyword"
        assert "**router**" in words["results"][0]["snippet"]
        near = response_json(await memory.search("router packet", preset="files", only=["semantic"]))
        assert near["method"] == "semantic"
        assert near["results"][0]["semantic_similarity"] > 0.1
        both = response_json(await memory.search("router packet", preset="files"))
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
async def test_fusion_is_chosen_per_call(filled: Memory) -> None:
    async with filled as memory:
        for fusion in ("rrf", "weighted", "auto"):
            response = response_json(await memory.search("router packet", preset="files", fusion=fusion))
            assert response["fusion_strategy"] == fusion
            assert response["results"]


async def test_words_are_marked_in_the_language_of_the_file(filled: Memory) -> None:
    async with filled as memory:
        response = response_json(await memory.search("Biene auf Wiesen", preset="files"))
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
async def test_the_exact_name_of_a_file_puts_it_first(filled: Memory, preset: str, query: str, first: str) -> None:
    async with filled as memory:
        response = await memory.search(query, preset=preset, explain=True)
        assert found(response)[0] == first
        best = response.results[0]
        assert [line.source for line in best.contributions].count(SOURCE) == 1
        assert best.score == math.fsum(line.value for line in best.contributions)
        assert best.explanation is not None
        assert SOURCE in best.explanation.details[-1].description
        assert all(SOURCE not in {line.source for line in other.contributions} for other in response.results[1:])


@pytest.mark.spec("S3.6")
async def test_a_name_without_folders_means_every_file_that_has_it(filled: Memory) -> None:
    async with filled as memory:
        assert set(found(await memory.search("setup.md cable router packet", preset="files"))[:2]) == {
            "docs/setup.md",
            "notes/setup.md",
        }
        assert found(await memory.search("makefile", preset="files", filters=Filters(path="docs/*"))) != ["Makefile"]


@pytest.mark.spec("S3.6")
async def test_a_word_is_no_file_name(filled: Memory) -> None:
    async with filled as memory:
        for query in ("makefile of the router", "routing", "packet"):
            response = await memory.search(query, preset="files")
            assert all(line.source != SOURCE for result in response.results for line in result.contributions)
        filtered = await memory.search("docs/setup.md", preset="files", filters=Filters(path="notes/*"))
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
async def test_path_filters_need_no_root(memory: Memory, tree: Path, glob: str, matching: set[str]) -> None:
    write(tree, FILES)
    await memory.index_folders([tree])
    listed = await memory.list(Filters(path=glob))
    assert {(item.path or "").partition("/tree/")[2] for item in listed} == matching
    assert await items(memory)


def test_names_in_queries() -> None:
    assert candidates("see docs/a.md, and 'b c.txt'.")["a.md"] == "docs/a.md"
    assert candidates("see docs/a.md, and 'b c.txt'.")["b c.txt"] == "b c.txt"
    assert chosen({"a.md": "x/a.md"}, [(1, "/r/x/a.md"), (2, "/r/yx/a.md"), (3, "/r/x/a.md")]) == {"/r/x/a.md": [1, 3]}
    assert list(candidates("\0\ud800a.md")) == ["a.md"]
    assert len(candidates("word.md " * 1000)) < 700

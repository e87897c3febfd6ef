"""Searches of indexed files: their names, path filters, and the graph of their links."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_support import WordEmbedder
from files_support import index, items, write

from fourfold import Filters, Memory
from fourfold.ranking.fusion import FILE_NAME
from fourfold.text.entities import file_names, named_files
from fourfold.wire import response_json

# ---------------------------------------------------------------- names and filters


FILES = {
    "docs/routing.md": "# Routing\n\nThe router sends each packet along the cheapest way.",
    "docs/setup.md": "# Setup\n\nInstall the router, then plug in the cable.",
    "notes/setup.md": "# Notes\n\nNothing about cables here.",
    "honey bees.txt": "Die Bienen sammeln Honig auf der Wiese und bringen ihn nach Hause.",
    "Makefile": "all:\n\techo cables",
    "src/packet.py": 'def send(packet):\n    """Sends a packet along the router."""\n',
}


@pytest.fixture
def filled(tmp_path: Path, tree: Path) -> Iterator[Memory]:
    write(tree, FILES)
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as memory:
        memory.index_folders([tree])
        memory.embed_pending()
        yield memory


def found(response: object) -> list[str]:
    return [result["file_path"].partition("/tree/")[2] for result in response_json(response)["results"]]  # type: ignore[arg-type]


def test_words_are_marked_in_the_language_of_the_file(filled: Memory) -> None:
    response = response_json(filled.search("Biene auf Wiesen", preset="files"))
    assert response["results"][0]["language"] == "de"
    assert "Die **Bienen** sammeln Honig auf der **Wiese** und" in response["results"][0]["snippet"]


@pytest.mark.spec("S3.6")
@pytest.mark.parametrize("preset", ["files", "auto"])
@pytest.mark.parametrize(("query", "first"), [
    ("router cable packet honey bees.txt", "honey bees.txt"),
    ("what does `packet.py` do with the router?", "src/packet.py"), ("cables in Makefile", "Makefile"),
    ("router: docs/setup.md", "docs/setup.md"), ("router: notes/SETUP.md", "notes/setup.md"),
])  # fmt: skip
def test_a_file_named_exactly_ranks_first(filled: Memory, preset: str, query: str, first: str) -> None:
    response = filled.search(query, preset=preset, explain=True)
    assert found(response)[0] == first
    best = response.results[0]
    assert [line.source for line in best.contributions].count(FILE_NAME) == 1
    assert best.score == math.fsum(line.value for line in best.contributions)
    assert FILE_NAME in best.explanation.details[-1].description
    assert all(FILE_NAME not in {line.source for line in other.contributions} for other in response.results[1:])


@pytest.mark.spec("S3.6")
def test_a_name_without_folders_means_every_file_that_has_it(filled: Memory) -> None:
    assert set(found(filled.search("setup.md cable router packet", preset="files"))[:2]) == {
        "docs/setup.md",
        "notes/setup.md",
    }
    assert found(filled.search("makefile", preset="files", filters=Filters(path="docs/*"))) != ["Makefile"]


@pytest.mark.spec("S3.6")
def test_a_plain_word_is_not_a_file_name(filled: Memory) -> None:
    for query in ("makefile of the router", "routing", "packet"):
        response = filled.search(query, preset="files")
        assert all(line.source != FILE_NAME for result in response.results for line in result.contributions)
    filtered = filled.search("docs/setup.md", preset="files", filters=Filters(path="notes/*"))
    assert "docs/setup.md" not in found(filtered)


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
    (tree / "plan.md").write_bytes(bytes(range(256)) * 9)
    filled.index_folders([tree])
    notes = filled.search("what does plan.md say").notes
    assert notes == (f"{(tree / 'plan.md').as_posix()} is not indexed: no text in a known encoding",)
    assert filled.search("what does setup.md say").notes == ()
    index(filled, tree, {"plan.md": "We will lay cables"})
    assert filled.search("what does plan.md say").notes == ()


# ---------------------------------------------------------------- links


VAULT = {
    "Garden.md": "---\naliases: [The Plot]\ntags: [outside]\n---\nBeans grow beside [[Tool Shed]], [[pump-manual]].",
    "Tool Shed.md": "# Where the tools are\n\nRakes hang on the left.",
    "deep/pump-manual.md": "# Pump manual\n\nOil it twice. See [the tools](../Tool%20Shed.md).",
    "diary.md": "Sat in The Plot all day.",
    "site/index.html": "<title>Start</title><h1>Welcome</h1><p>Read <a href='water.html'>more</a>.</p>",
    "site/water.html": "<title>Rain barrels</title><h2>Filters</h2><p>Clean the filters.</p>",
    "alone.md": "Nobody knows this page.",
}


def linked(memory: Memory, name: str) -> set[str]:
    """The files that the graph leads to from a name."""
    response = memory.search(f'"{name}"', only=["graph"], top_k=50)
    return {Path(result.item.path or "").name for result in response.results}


@pytest.mark.spec("B11")
@pytest.mark.parametrize(("name", "files"), [
    ("Tool Shed", {"Tool Shed.md", "Garden.md", "pump-manual.md"}), ("Where the tools are", {"Tool Shed.md"}),
    ("pump-manual", {"pump-manual.md", "Garden.md"}), ("The Plot", {"Garden.md", "diary.md"}),
    ("water", {"water.html", "index.html"}), ("Rain barrels", {"water.html"}), ("Filters", {"water.html"}),
])  # fmt: skip
def test_a_name_leads_to_its_page_and_to_pages_that_link_to_it(memory, tree, name, files):
    index(memory, tree, VAULT)
    memory.index()
    assert linked(memory, name) == files


@pytest.mark.spec("B11")
def test_links_are_removed_and_restored_with_their_file(memory: Memory, tree: Path) -> None:
    index(memory, tree, VAULT)
    (tree / "Garden.md").unlink()
    memory.index_folders([tree])
    assert linked(memory, "The Plot") == set()
    assert linked(memory, "Tool Shed") == {"Tool Shed.md", "pump-manual.md"}
    index(memory, tree, {"Allotment.md": VAULT["Garden.md"]})
    assert linked(memory, "The Plot") == {"Allotment.md", "diary.md"}
    (tree / "Tool Shed.md").rename(tree / "Hut.md")
    memory.index_folders([tree])
    assert linked(memory, "Hut") == {"Hut.md"}
    assert items(memory)["Hut.md", 0].title == "Where the tools are"

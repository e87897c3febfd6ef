"""Links, aliases, headings and titles of a vault or site make a graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from files_support import items, write

from fourfold.memory import Memory

pytestmark = pytest.mark.spec("B11")

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


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("Tool Shed", {"Tool Shed.md", "Garden.md", "pump-manual.md"}),
        ("Where the tools are", {"Tool Shed.md"}),
        ("pump-manual", {"pump-manual.md", "Garden.md"}),
        ("The Plot", {"Garden.md", "diary.md"}),
        ("water", {"water.html", "index.html"}),
        ("Rain barrels", {"water.html"}),
        ("Filters", {"water.html"}),
    ],
)
def test_a_name_leads_to_its_page_and_to_pages_that_link_to_it(
    memory: Memory, tree: Path, name: str, files: set[str]
) -> None:
    write(tree, VAULT)
    memory.index_folders([tree])
    memory.index()
    assert linked(memory, name) == files


def test_links_are_removed_and_restored_with_their_file(memory: Memory, tree: Path) -> None:
    write(tree, VAULT)
    memory.index_folders([tree])
    (tree / "Garden.md").unlink()
    memory.index_folders([tree])
    assert linked(memory, "The Plot") == set()
    assert linked(memory, "Tool Shed") == {"Tool Shed.md", "pump-manual.md"}
    write(tree, {"Allotment.md": VAULT["Garden.md"]})
    memory.index_folders([tree])
    assert linked(memory, "The Plot") == {"Allotment.md", "diary.md"}
    (tree / "Tool Shed.md").rename(tree / "Hut.md")
    memory.index_folders([tree])
    assert linked(memory, "Hut") == {"Hut.md"}
    assert items(memory)["Hut.md", 0].title == "Where the tools are"


def test_tags_of_the_front_matter_are_stored(memory: Memory, tree: Path) -> None:
    write(tree, VAULT)
    memory.index_folders([tree])
    assert memory.tags() == [("outside", 1)]

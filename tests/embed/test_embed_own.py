"""Custom embedders: name, dimension and embed are enough; the base class has the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fourfold import BaseEmbedder, Memory
from fourfold.errors import InvalidArgument, SpaceMismatch


class Small:
    """A minimal embedder, whose rows are plain lists that are not normalized."""

    def __init__(self, name: str = "small", rows: Any = None) -> None:
        self.name = name
        self.dimension = 2
        self._rows = rows

    def embed(self, texts: Sequence[str]) -> Any:
        return [[3.0, float(len(text))] for text in texts] if self._rows is None else self._rows


class Loaded(BaseEmbedder):
    name, dimension = "loaded", 2

    def __init__(self) -> None:
        self.calls: list[str] = []

    def load(self) -> None:
        self.calls.append("load")

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append("embed")
        return [[1.0, 2.0] for _ in texts]

    def truncates(self, text: str) -> bool:
        return len(text) > 10

    def close(self) -> None:
        self.calls.append("close")


@pytest.mark.spec("B8")
def test_three_members_are_enough(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder=Small()) as memory:
        memory.add("four", wait=True)
        (result,) = memory.search("five", only=["semantic"]).results
        assert result.contributions[0].raw == pytest.approx(1.0)
        assert memory.status()["embedder"] == "small/2"
    with Memory.open(tmp_path / "store", embedder=Small("another")) as memory, pytest.raises(SpaceMismatch):
        memory.add("six", wait=True)
        memory.embed_pending()


def test_the_base_class_loads_first_says_what_it_cuts_and_is_closed(tmp_path: Path) -> None:
    embedder = Loaded()
    with Memory.open(tmp_path / "store", embedder=embedder, background=False) as memory:
        memory.add("text", wait=True)
        notes = memory.search("a long query " * 30).notes
    assert embedder.calls[0] == "load"
    assert embedder.calls[-1] == "close"
    assert notes == ("the model read only the beginning of the query",)


@pytest.mark.parametrize("rows", ["text", [[1.0]], [[1.0, 2.0, 3.0]], [[float("nan"), 1.0]], None, object()])
def test_invalid_rows_leave_the_item_pending_and_searches_report_it(tmp_path: Path, rows: Any) -> None:
    embedder = Small(rows=rows if rows is not None else [])
    with Memory.open(tmp_path / "store", embedder=embedder, background=False) as memory:
        memory.add("four", wait=True)
        response = memory.search("four")
        assert [result.item.text for result in response.results] == ["four"]
        assert "semantic" in {failure.retriever for failure in response.degraded}


@pytest.mark.parametrize("wrong", [5, object(), Small, [Small()]])
def test_an_object_that_is_not_an_embedder_is_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="embedder"):
        Memory.open(tmp_path / "store", embedder=wrong)


def test_a_base_embedder_without_embed_says_so(tmp_path: Path) -> None:
    class Nothing(BaseEmbedder):
        name, dimension = "nothing", 2

    with Memory.open(tmp_path / "store", embedder=Nothing(), background=False) as memory:
        memory.add("four", wait=True)
        assert "Nothing has no `embed`" in str(memory.search("four").degraded)

"""Long items: several vectors, the part in results and explanations, snippets, limits, interruptions, renewal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest
from engine_support import StubbornEmbedder, WordEmbedder

from fourfold.errors import EmbedderUnavailable
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.retrieval import Result
from fourfold.wire import result_json

pytestmark = pytest.mark.spec("C13")

FILLER = [f"Paragraph {day} describes the weather of day {day} in some detail, wind and rain." for day in range(60)]
SECRET = "The submarine cable surfaces near Valparaiso."
LONG = "\n".join([*FILLER[:30], SECRET, *FILLER[30:]])


@pytest.fixture
def memory(tmp_path: Path):
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(dimension=512), background=False) as opened:
        opened.add_many([NewItem(LONG, "Log", key="long"), NewItem("Dinner is at eight.", key="short")], wait=True)
        yield opened


def found(memory: Memory, query: str, **options: Any) -> Result:
    response = memory.search(query, explain=True, **options)
    assert not response.degraded
    return next(result for result in response.results if result.key == "long")


def test_a_long_item_is_found_by_a_part_that_the_result_names(memory: Memory) -> None:
    result = found(memory, "submarine cable Valparaiso", only=["semantic"])
    part = result.part
    assert part is not None
    assert SECRET in LONG[part.start : part.end]
    assert 1 < part.number < part.count
    assert part.unread == 0
    named = f"of part {part.number} of {part.count} (characters {part.start:,} to {part.end:,});"
    assert named in str(result.explanation)
    why = memory.why(result.id, "submarine cable Valparaiso")
    assert named in str(why.result and why.result.explanation)
    assert result_json(result)["part"] == {
        "number": part.number, "count": part.count, "start": part.start, "end": part.end, "unread": 0,
    }  # fmt: skip
    first = memory.search("dinner at eight").results[0]
    assert (first.key, first.part) == ("short", None)
    assert "part" not in result_json(first)
    assert memory.check() == []


def test_the_snippet_comes_from_the_part_if_vectors_decide(memory: Memory) -> None:
    result = found(memory, "submarine cable Valparaiso", only=["semantic"])
    assert "Valparaiso" in result.snippet
    part = result.part
    assert part is not None
    unmatched = Result(
        result.item, 1.0, 1.0, "something else entirely", result.contributions, part=part
    )  # fmt: skip
    beginning = unmatched.snippet.strip("…").split("\n")[0]
    assert beginning in LONG[part.start : part.end]
    assert unmatched.snippet.startswith("…")
    whole = Result(result.item, 1.0, 1.0, "something else entirely", result.contributions)
    assert whole.snippet.startswith("Paragraph 0")


def test_the_snippet_follows_the_words_where_they_count_more(memory: Memory) -> None:
    result = found(memory, "submarine cable Valparaiso", only=["keyword"])
    assert "Valparaiso" in result.snippet
    assert result.part is None, "without vectors there is no best part"


def test_text_beyond_the_limit_is_reported_in_a_note(tmp_path: Path) -> None:
    text = "\n".join(f"Line {number} of the endless protocol about item {number}." for number in range(3000))
    with Memory.open(tmp_path, embedder=WordEmbedder(), background=False) as memory:
        memory.add(text, wait=True)
        response = memory.search("endless protocol")
        (note,) = (note for note in response.notes if "characters" in note)
        part = response.results[0].part
        assert part is not None
        assert part.count == 64
        assert f"read the first {len(text) - part.unread:,} characters" in note
        assert f"the last {part.unread:,}" in note
        assert memory.status()["namespaces"]["default"]["windows"] == 63  # type: ignore[index]
        assert memory.check() == []


def test_an_interruption_leaves_no_item_with_some_of_its_windows(tmp_path: Path) -> None:
    """Every item has all of its windows or none, wherever the embedder fails."""
    texts = [f"{LONG}\n{number}" for number in range(40)]
    for calls in range(1, 4):
        folder = tmp_path / str(calls)
        embedder = StubbornEmbedder(calls, lambda: EmbedderUnavailable("killed", "again"))
        with Memory.open(folder, embedder=embedder, background=False) as memory:
            memory.add_many([NewItem(text) for text in texts])
            with pytest.raises(EmbedderUnavailable):
                memory.embed_pending()
            with memory.store.snapshot("default") as snapshot:
                size = snapshot.size
            assert 0 < size.vectors < len(texts)
            assert size.windows == size.vectors * (size.windows // size.vectors)
            assert memory.check() == []
        with Memory.open(folder, embedder=WordEmbedder(), background=False) as memory:
            assert memory.embed_pending() == len(texts) - size.vectors
            assert memory.check() == []


def test_a_given_vector_stays_the_only_one(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with Memory.open(tmp_path, embedder=embedder, background=False) as memory:
        item = memory.add(NewItem(LONG, vector=embedder.vector("submarine")), wait=True)
        with memory.store.snapshot("default") as snapshot:
            assert (snapshot.size.vectors, snapshot.size.windows) == (1, 0)
        result = memory.search("submarine").results[0]
        assert (result.id, result.part) == (item.id, None)


def test_damaged_windows_are_reported_and_rebuilt(memory: Memory, tmp_path: Path) -> None:
    file = str(tmp_path / "store" / "fourfold.db")
    damages = {
        "UPDATE vectors SET spans = substr(spans, 9) WHERE spans IS NOT NULL": "dimension",
        "UPDATE vectors SET spans = NULL WHERE spans IS NOT NULL": "dimension",
        "UPDATE vectors SET spans = zeroblob(length(spans)) WHERE spans IS NOT NULL": "not a start and an end",
        "UPDATE namespaces SET windows = 0": "windows",
        "UPDATE items SET text = text || ' and more', title = '' WHERE key = 'long'": "leave out",
        "UPDATE items SET text = substr(text, 1, 900) WHERE key = 'long'": "beyond its text",
    }
    for sql, told in damages.items():
        db = apsw.Connection(file)
        db.execute(sql)
        db.close()
        problems = memory.check()
        assert any(told in problem for problem in problems), (sql, problems)
        memory.repair()
        memory.embed_pending()
        assert memory.check() == []
        assert memory.search("submarine cable").results

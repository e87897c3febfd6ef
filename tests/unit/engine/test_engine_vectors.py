"""Long items with several vectors, and the renewal of vectors that an earlier model made."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest
from engine_support import WordEmbedder, eventually, texts

from fourfold import Memory, NewItem, Result
from fourfold.errors import EmbedderUnavailable, SearchFailed, SpaceMismatch
from fourfold.wire import result_json

# ---------------------------------------------------------------- long items


FILLER = [f"Paragraph {day} describes the weather of day {day} in some detail, wind and rain." for day in range(60)]
SECRET = "The submarine cable surfaces near Valparaiso."
LONG = "\n".join([*FILLER[:30], SECRET, *FILLER[30:]])


@pytest.fixture
def log(tmp_path: Path):
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(dimension=512), background=False) as opened:
        opened.add_many([NewItem(LONG, "Log", key="long"), NewItem("Dinner is at eight.", key="short")], wait=True)
        yield opened


def found(log: Memory, query: str, **options: Any) -> Result:
    response = log.search(query, explain=True, **options)
    assert not response.degraded
    return next(result for result in response.results if result.key == "long")


@pytest.mark.spec("C13")
def test_a_long_item_is_found_by_a_part_that_the_result_names(log: Memory) -> None:
    result = found(log, "submarine cable Valparaiso", only=["semantic"])
    part = result.part
    assert SECRET in LONG[part.start : part.end]
    assert 1 < part.number < part.count
    assert part.unread == 0
    named = f"of part {part.number} of {part.count} (characters {part.start:,} to {part.end:,});"
    assert named in str(result.explanation)
    why = log.why(result.id, "submarine cable Valparaiso")
    assert named in str(why.result and why.result.explanation)
    assert result_json(result)["part"] == {
        "number": part.number, "count": part.count, "start": part.start, "end": part.end, "unread": 0,
    }  # fmt: skip
    first = log.search("dinner at eight").results[0]
    assert (first.key, first.part) == ("short", None)
    assert "part" not in result_json(first)
    assert log.check() == []


@pytest.mark.spec("C13")
def test_the_snippet_comes_from_the_part_if_vectors_decide(log: Memory) -> None:
    result = found(log, "submarine cable Valparaiso", only=["semantic"])
    assert "Valparaiso" in result.snippet
    part = result.part
    unmatched = Result(
        result.item, 1.0, 1.0, "something else entirely", result.contributions, part=part
    )  # fmt: skip
    beginning = unmatched.snippet.strip("…").split("\n")[0]
    assert beginning in LONG[part.start : part.end]
    assert unmatched.snippet.startswith("…")
    whole = Result(result.item, 1.0, 1.0, "something else entirely", result.contributions)
    assert whole.snippet.startswith("Paragraph 0")


@pytest.mark.spec("C13")
def test_the_snippet_follows_the_words_where_they_count_more(log: Memory) -> None:
    result = found(log, "submarine cable Valparaiso", only=["keyword"])
    assert "Valparaiso" in result.snippet
    assert result.part is None, "without vectors there is no best part"


@pytest.mark.spec("C13")
def test_text_beyond_the_limit_is_reported_in_a_note(tmp_path: Path) -> None:
    text = "\n".join(f"Line {number} of the endless protocol about item {number}." for number in range(3000))
    with Memory.open(tmp_path, embedder=WordEmbedder(), background=False) as log:
        log.add(text, wait=True)
        response = log.search("endless protocol")
        (note,) = (note for note in response.notes if "characters" in note)
        part = response.results[0].part
        assert part.count == 64
        assert f"read the first {len(text) - part.unread:,} characters" in note
        assert f"the last {part.unread:,}" in note
        assert log.status()["namespaces"]["default"]["windows"] == 63  # type: ignore[index]
        assert log.check() == []


@pytest.mark.spec("C13")
def test_a_given_vector_stays_the_only_one(tmp_path: Path) -> None:
    embedder = WordEmbedder()
    with Memory.open(tmp_path, embedder=embedder, background=False) as log:
        item = log.add(NewItem(LONG, vector=embedder.vector("submarine")), wait=True)
        with log.store.snapshot("default") as snapshot:
            assert (snapshot.size.vectors, snapshot.size.windows) == (1, 0)
        result = log.search("submarine").results[0]
        assert (result.id, result.part) == (item.id, None)


@pytest.mark.spec("C13")
def test_damaged_windows_are_reported_and_rebuilt(log: Memory, tmp_path: Path) -> None:
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
        problems = log.check()
        assert any(told in problem for problem in problems), (sql, problems)
        log.repair()
        log.embed_pending()
        assert log.check() == []
        assert log.search("submarine cable").results


# ---------------------------------------------------------------- vectors of an earlier model


COUNT = 100
NOTES = [f"Note {number}: the key to the office is with the neighbour" for number in range(COUNT)]


class Later(WordEmbedder):
    """The next version of the model; a call can be made to fail or to wait."""

    replaces = ("words/",)

    def __init__(self, calls: int = 1_000) -> None:
        super().__init__("later")
        self.left = calls
        self.may_run = threading.Event()
        self.may_run.set()

    def embed(self, texts: Sequence[str]) -> Any:
        if len(texts) > 1:
            self.may_run.wait()
        if not self.left:
            raise EmbedderUnavailable("interrupted", "try again")
        self.left -= 1
        return super().embed(texts)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as memory:
        memory.add_many([NewItem(text) for text in NOTES], wait=True)
    return tmp_path / "store"


def fingerprint(memory: Memory) -> str:
    with memory.store.snapshot("default") as snapshot:
        return snapshot.space.fingerprint


def pending(memory: Memory) -> int:
    with memory.store.snapshot("default") as snapshot:
        return snapshot.size.pending


@pytest.mark.spec("B8")
def test_a_reader_answers_by_words_says_why_and_changes_nothing(earlier: Path) -> None:
    with Memory.open(earlier, embedder=Later(), background=False) as memory:
        response = memory.search("key to the office 7")
        assert texts(response)[0] == NOTES[7]
        assert [(each.retriever, each.pending) for each in response.degraded] == [("semantic", COUNT)]
        assert "100 of 100 items" in response.degraded[0].reason
        assert "fourfold embed" in response.degraded[0].reason
        assert "semantic" not in response.counts
        assert memory.why(1, "key to the office").rank is not None
        with pytest.raises(SearchFailed, match="fourfold embed"):
            memory.search("key", only=["semantic"])
        assert (fingerprint(memory), memory.queues()) == ("words/32", ["default"])


@pytest.mark.spec("B8")
def test_a_long_lived_process_renews_in_the_background_and_answers_meanwhile(earlier: Path) -> None:
    model = Later()
    model.may_run.clear()
    with ExitStack() as opened:
        opened.callback(model.may_run.set)
        memory = opened.enter_context(Memory.open(earlier, embedder=model))
        eventually(lambda: fingerprint(memory) == model.fingerprint)
        response = memory.search("key to the office 7")
        assert texts(response)[0] == NOTES[7]
        assert response.degraded[0].reason == "100 of 100 items wait for their vectors"
        model.may_run.set()
        eventually(lambda: pending(memory) == 0)
        assert memory.search("key").degraded == ()
        assert memory.queues() == []
        assert memory.check() == []


@pytest.mark.spec("B8")
def test_an_interrupted_renewal_resumes_and_mixes_nothing(earlier: Path) -> None:
    with Memory.open(earlier, embedder=Later(calls=2), background=False) as memory:
        with pytest.raises(EmbedderUnavailable):
            memory.embed_pending()
        assert 0 < pending(memory) < COUNT
        left = pending(memory)
        assert fingerprint(memory) == "later/32"
    with Memory.open(earlier, embedder=Later(), background=False) as memory:
        assert f"{left} of {COUNT} items wait" in memory.search("key").degraded[0].reason
        seen: list[tuple[int, int]] = []
        assert memory.embed_pending(lambda done, total: seen.append((done, total))) == left
        assert seen[-1] == (left, left)
        assert memory.check() == []


@pytest.mark.spec("B8")
def test_a_model_that_cannot_load_leaves_the_earlier_vectors(earlier: Path) -> None:
    class Missing(Later):
        def load(self) -> None:
            raise EmbedderUnavailable("the file is missing", "install it again")

    with Memory.open(earlier, embedder=Missing(), background=False) as memory:
        assert memory.add("a new note", wait=True).id
        assert texts(memory.search("new note"))[0] == "a new note"
        with pytest.raises(EmbedderUnavailable):
            memory.embed_pending()
        assert fingerprint(memory) == "words/32"


@pytest.mark.spec("B8")
def test_an_item_that_is_stored_at_once_has_a_vector_of_the_new_version(earlier: Path) -> None:
    model = Later()
    with Memory.open(earlier, embedder=model, background=False) as memory:
        memory.add("a new note", wait=True)
        assert (fingerprint(memory), pending(memory)) == (model.fingerprint, COUNT)
        memory.add(NewItem("a given vector", vector=model.vector("given").tolist()))
        assert pending(memory) == COUNT


@pytest.mark.spec("B8")
def test_a_given_vector_renews_the_others(earlier: Path) -> None:
    model = Later()
    with Memory.open(earlier, embedder=model, background=False) as memory:
        memory.add(NewItem("a given vector", vector=model.vector("given").tolist()))
        assert (fingerprint(memory), pending(memory)) == (model.fingerprint, COUNT)


@pytest.mark.spec("B8")
def test_an_earlier_version_that_has_the_store_open_neither_mixes_nor_reverts(earlier: Path) -> None:
    with Memory.open(earlier, embedder=WordEmbedder(), background=False) as old:
        old.add("stored by the earlier version")
        with Memory.open(earlier, embedder=Later(), background=False) as new:
            assert new.embed_pending() == COUNT + 1
        for use in (old.embed_pending, lambda: old.search("key")):
            with pytest.raises(SpaceMismatch):
                use()
        assert (fingerprint(old), pending(old)) == ("later/32", 0)

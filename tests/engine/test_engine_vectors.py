"""Vectors: the queue, an embedder that fails, one space a namespace, making them anew."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from engine_support import DIMENSION, Opener, StubbornEmbedder, WordEmbedder, eventually, ids, notes, row_counts, texts

from fourfold.errors import EmbedderUnavailable, InvalidVector, SpaceMismatch
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem


def unavailable() -> Exception:
    return EmbedderUnavailable("the endpoint does not answer", "Check the network")


def bug() -> Exception:
    return RuntimeError("index out of range")


def stored_vectors(folder: Path) -> dict[int, Any]:
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        return {item: np.frombuffer(blob, np.float32) for item, blob in db.execute("SELECT item, vector FROM vectors")}
    finally:
        db.close()


# ---------------------------------------------------------------- the queue


@pytest.mark.spec("B3")
async def test_the_response_says_how_many_items_wait_for_their_vectors(opened: Opener) -> None:
    writer = await opened(embedder="none")
    await writer.add_many(notes(12))
    reader = await opened(background=False)
    response = await reader.search("heron", top_k=100)
    ((name, pending, reason),) = [(each.retriever, each.pending, each.reason) for each in response.degraded]
    assert (name, pending) == ("semantic", 12)
    assert "12 items wait" in reason
    assert response.results  # keyword answers
    assert await reader.embed_pending() == 12
    assert (await reader.search("heron")).degraded == ()


@pytest.mark.spec("B3")
async def test_vectors_follow_by_themselves(memory: Memory) -> None:
    await memory.add_many(notes(5))

    async def none_waits() -> bool:
        return not (await memory.store.size("default")).pending

    await eventually(none_waits)
    assert (await memory.search("heron")).degraded == ()


@pytest.mark.spec("B3", "S2.6")
@pytest.mark.parametrize("error", [unavailable, bug])
async def test_an_embedder_that_fails_leaves_the_search_to_the_others(opened: Opener, error: Any) -> None:
    memory = await opened(embedder=StubbornEmbedder(0, error))
    await memory.add_many(notes(3))
    response = await memory.search("heron")
    assert "heron" in texts(response)[0]
    assert "semantic" in [each.retriever for each in response.degraded]
    assert any(str(error()) in each.reason for each in response.degraded)
    await memory.add("a last one", wait=True)  # stored, and waiting
    response = await memory.search("last one")
    assert texts(response)[0] == "a last one"
    assert any("vectors are not being made" in note for note in response.notes)
    memory._vectorizer.embedder.left = 100  # type: ignore[union-attr]
    await memory.embed_pending()
    assert (await memory.search("last one")).notes == ()


class Broken(WordEmbedder):
    """Its model cannot be read."""

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        raise unavailable()

    @fingerprint.setter
    def fingerprint(self, value: str) -> None: ...

    def load(self) -> None:
        raise unavailable()


@pytest.mark.spec("B3", "S2.6")
async def test_a_model_that_cannot_be_read_leaves_the_search_to_the_others(opened: Opener) -> None:
    await (await opened()).add_many(notes(3), wait=True)
    memory = await opened(embedder=Broken())
    response = await memory.search("heron")
    assert "heron" in texts(response)[0]
    assert [each.retriever for each in response.degraded] == ["semantic"]


class Odd(WordEmbedder):
    """Gives what the test says for items, and proper vectors for queries."""

    def __init__(self, rows: Any) -> None:
        super().__init__()
        self._rows = rows

    def embed(self, texts: Sequence[str]) -> Any:
        return super().embed(texts) if texts == ["heron"] else self._rows(super().embed(texts))


NONSENSE: dict[str, Any] = {
    "NaN": lambda rows: rows * np.nan,
    "infinite": lambda rows: np.full_like(rows, np.inf),
    "too few": lambda rows: rows[:-1],
    "too many": lambda rows: np.concatenate([rows, rows]),
    "narrow": lambda rows: rows[:, :-1],
    "flat": lambda rows: rows.ravel(),
    "words": lambda rows: [["a"] * DIMENSION] * len(rows),
    "nothing": lambda rows: None,
    "ragged": lambda rows: [[1.0], [1.0, 2.0]],
}


@pytest.mark.spec("B3", "B8")
@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_of_an_embedder_is_never_stored(opened: Opener, tmp_path: Path, name: str) -> None:
    memory = await opened(embedder=Odd(NONSENSE[name]))
    await memory.add_many(notes(2), wait=True)
    with pytest.raises(EmbedderUnavailable, match="the embedder gave"):
        await memory.embed_pending()
    assert stored_vectors(tmp_path / "store") == {}
    assert texts(await memory.search("heron"))


@pytest.mark.spec("S1.1")
@pytest.mark.parametrize(
    "change", [lambda rows: rows.astype(np.float64), lambda rows: rows * 7, lambda rows: rows.tolist()]
)
async def test_vectors_are_stored_as_unit_vectors_however_they_come(
    opened: Opener, tmp_path: Path, change: Any
) -> None:
    memory = await opened(embedder=Odd(change))
    await memory.add_many(notes(4), wait=True)
    for vector in stored_vectors(tmp_path / "store").values():
        assert vector.shape == (DIMENSION,)
        assert float(vector @ vector) == pytest.approx(1.0, abs=1e-5)


async def test_closing_in_the_middle_of_the_queue_loses_nothing(opened: Opener, tmp_path: Path) -> None:
    blocked, release = threading.Event(), threading.Event()

    class Slow(WordEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            blocked.set()
            release.wait(60)
            return super().embed(texts)

    memory = await opened(embedder=Slow())
    await memory.add_many(notes(3))
    await asyncio.to_thread(blocked.wait, 60)
    closing = asyncio.create_task(memory.close())
    release.set()
    await closing
    again = await opened()
    assert await again.count() == 3
    await again.embed_pending()
    assert len(stored_vectors(tmp_path / "store")) == 3


async def test_an_error_in_the_background_does_not_keep_a_memory_from_closing(opened: Opener) -> None:
    memory = await opened(embedder=StubbornEmbedder(0, bug))
    await memory.add("heron")
    await asyncio.sleep(0)
    await memory.close()
    assert await (await opened()).count() == 1


class Picky(WordEmbedder):
    """Refuses batches with a certain word in them, as endpoints do with texts that are too long."""

    def embed(self, texts: Sequence[str]) -> Any:
        if any("poison" in text for text in texts):
            raise unavailable()
        return super().embed(texts)


@pytest.mark.spec("B3")
async def test_a_text_that_the_embedder_refuses_keeps_no_other_from_its_vector(opened: Opener) -> None:
    memory = await opened(embedder=Picky(), background=False)
    poison = [NewItem("a poison pill"), NewItem("more poison", key="p")]
    await memory.add_many([*notes(20), poison[0], *notes(40, "later"), poison[1]])
    assert await memory.embed_pending() == 60
    response = await memory.search("heron")
    assert [(each.retriever, each.pending) for each in response.degraded] == [("semantic", 2)]
    status = await memory.status()
    assert status["namespaces"]["default"]["refused_by_embedder"] == 2  # type: ignore[index,call-overload]
    assert memory.troubles() == {}
    await memory.update("key:p", ItemPatch(text="more medicine"))
    assert await memory.embed_pending() == 1
    kinder = await opened(background=False)
    assert await kinder.embed_pending() == 1
    assert await kinder.check() == []


async def test_a_failure_that_passes_refuses_nothing(opened: Opener) -> None:
    class Hiccup(WordEmbedder):
        failed = False

        def embed(self, texts: Sequence[str]) -> Any:
            if not self.failed:
                self.failed = True
                raise unavailable()
            return super().embed(texts)

    memory = await opened(embedder=Hiccup(), background=False)
    await memory.add("a heron")
    assert await memory.embed_pending() == 1


async def test_an_embedder_that_takes_nothing_refuses_nothing(opened: Opener) -> None:
    memory = await opened(embedder=StubbornEmbedder(0, unavailable), background=False)
    await memory.add_many(notes(40))
    with pytest.raises(EmbedderUnavailable):
        await memory.embed_pending()
    assert len(await memory.store.waiting("default", 99)) == 40


# ---------------------------------------------------------------- B8


@pytest.mark.spec("B8")
async def test_another_model_is_refused_with_the_command_that_re_embeds(opened: Opener, tmp_path: Path) -> None:
    await (await opened()).add_many(notes(3), wait=True)
    before = row_counts(tmp_path / "store")
    other = await opened(embedder=WordEmbedder("other"))
    for call in (
        lambda: other.search("heron"),
        lambda: other.add("heron", wait=True),
        lambda: other.add(NewItem("heron", vector=[1.0] * DIMENSION)),
        lambda: other.why(1, "heron"),
    ):
        with pytest.raises(SpaceMismatch) as raised:
            await call()
        assert "words/32" in raised.value.message
        assert "other/32" in raised.value.message
        assert "fourfold reembed" in raised.value.remedy
    assert row_counts(tmp_path / "store") == before
    assert (await other.search("heron", only=["keyword"])).results  # what needs no vectors works


@pytest.mark.spec("B8")
@pytest.mark.parametrize("error", [unavailable, bug])
async def test_re_embedding_goes_on_where_it_was_and_the_store_answers_meanwhile(
    opened: Opener, tmp_path: Path, error: Any
) -> None:
    await (await opened()).add_many(notes(200), wait=True)
    dying = await opened(embedder=StubbornEmbedder(3, error, "other"), background=False)
    with pytest.raises(EmbedderUnavailable):
        await dying.reembed()
    made = set(stored_vectors(tmp_path / "store"))
    assert 0 < len(made) < 200
    response = await (await opened(embedder="none")).search("the otter met the lynx")
    assert response.results
    finisher = WordEmbedder("other")
    memory = await opened(embedder=finisher, background=False)
    response = await memory.search("the otter met the lynx")
    assert response.degraded[0].pending == 200 - len(made)
    assert response.results
    finisher.texts.clear()
    seen: list[tuple[int, int]] = []
    assert await memory.reembed(lambda done, total: seen.append((done, total))) == 200 - len(made)
    assert len(finisher.texts) == 200 - len(made)  # only what was missing
    assert seen[-1] == (200 - len(made), 200 - len(made))
    assert (await memory.search("the otter met the lynx")).degraded == ()


@pytest.mark.spec("B8")
async def test_no_vector_of_the_old_model_survives(opened: Opener, tmp_path: Path) -> None:
    """Another dimension would break every product, and another model's numbers mean nothing beside the new ones."""
    old = await opened()
    await old.add_many(notes(60), wait=True)
    await old.index()
    wider = WordEmbedder("wide", 48)
    memory = await opened(embedder=wider)
    await memory.reembed()
    for item, vector in stored_vectors(tmp_path / "store").items():
        (stored,) = await memory.get([item])
        assert vector.tolist() == wider.vector(stored.text).tolist()
    response = await memory.search("note 17: the otter met the badger at gate 4", only=["semantic"])
    assert texts(response)[0] == "note 17: the otter met the badger at gate 4"
    assert response.degraded == ()
    with pytest.raises(SpaceMismatch):
        await old.search("heron")  # it was open all the time


@pytest.mark.spec("B8")
async def test_without_embedder_the_first_given_vector_fixes_the_space(opened: Opener) -> None:
    memory = await opened(embedder="none")
    await memory.add(NewItem("one", vector=[1.0, 0.0, 0.0]))
    with pytest.raises(InvalidVector, match="3"):
        await memory.add(NewItem("two", vector=[1.0, 0.0]))
    with pytest.raises(InvalidVector):
        await memory.add_many([NewItem("x", vector=[0.0, 1.0, 0.0]), NewItem("y", vector=[0.0, 1.0])])
    assert await memory.count() == 1
    with pytest.raises(SpaceMismatch):
        await (await opened()).search("anything")


@pytest.mark.spec("B8")
async def test_each_namespace_has_a_space_of_its_own(opened: Opener) -> None:
    await (await opened()).add("heron", wait=True)
    other = await opened(namespace="wide", embedder=WordEmbedder("wide", 64))
    await other.add("otter", wait=True)
    assert texts(await other.search("otter")) == ["otter"]
    assert texts(await (await opened()).search("heron")) == ["heron"]
    assert len(ids(await other.search("heron", only=["semantic"]))) == 1

"""One process at a time keeps the indexes up; the others search, take over what it published, and miss nothing."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from engine_support import Opener, WordEmbedder, eventually, ids, notes, texts

from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.stores.memory.store import MemoryStore
from fourfold.stores.sqlite import files, indexes, publish, vector_base
from fourfold.stores.sqlite.database import Job
from fourfold.stores.sqlite.lease import Hold


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications at every opportunity, FAISS from a few rows, and a log that forgets quickly."""
    monkeypatch.setattr("fourfold.upkeep._QUIET_SECONDS", 0)
    monkeypatch.setattr("fourfold.upkeep._WATCH_SECONDS", 0.01)
    monkeypatch.setattr(indexes, "PUBLISH_AT", 10)
    monkeypatch.setattr(indexes, "_LOG_KEPT", 20)
    monkeypatch.setattr(indexes, "_LOOK_SECONDS", 0)
    for module in (publish, vector_base):
        monkeypatch.setattr(module, "EXACT_ROWS", 100)


def inside(memory: Memory) -> Any:
    """The indexes of its store."""
    return memory.store._indexes  # type: ignore[attr-defined]


def generations(folder: Path, kind: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"index/1/{kind}/g*"))


def log_length(folder: Path) -> int:
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        return int(db.execute("SELECT count(*) FROM changes").get)
    finally:
        db.close()


@pytest.mark.spec("B7")
async def test_one_has_the_lease_and_the_other_works_on_without_it(opened: Opener) -> None:
    one, other = await opened(background=False), await opened(background=False)
    await one.add_many(notes(20))
    async with one.store.lease("default") as mine, one.store.lease("default") as again:
        assert (mine, again) == (True, True)
        async with other.store.lease("default") as theirs:
            assert not theirs
        assert not await other.store.maintain("default", wholly=True)
        assert ids(await other.search("heron", only=["keyword"]))
        await other.add("The heron came back", wait=True)
    assert await other.store.maintain("default", wholly=True)
    async with other.store.lease("default") as theirs:
        assert theirs
    assert await other.embed_pending() == 20


@pytest.mark.spec("B7")
async def test_a_generation_goes_when_nobody_reads_it(opened: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    writer, reader = await opened(background=False), await opened(background=False)
    await writer.add_many(notes(20), wait=True)
    await writer.index()
    assert (await reader.search("heron")).degraded == ()
    for number in range(3):
        await writer.add(f"one more heron {number}", wait=True)
        await writer.index()
        assert {kind: generations(folder, kind) for kind in ("text", "vectors")} == {
            "text": ["g1", f"g{number + 2}"],
            "vectors": ["g1", f"g{number + 2}"],
        }
        found = await reader.search("heron", only=["keyword"], top_k=100)
        assert texts(found).count(f"one more heron {number}") == 1
    await reader.close()
    await writer.add("the last heron", wait=True)
    await writer.index()
    assert (generations(folder, "text"), generations(folder, "vectors")) == (["g5"], ["g5"])


@pytest.mark.spec("B6", "B7")
async def test_a_process_that_only_searches_takes_over_what_others_publish(opened: Opener, soon: None) -> None:
    reader, writer = await opened(background=False), await opened()
    await writer.add_many(notes(5), wait=True)
    await reader.search("heron")
    await writer.add_many(notes(200, "later"), wait=True)

    async def taken_over() -> bool:
        response = await reader.search("heron", top_k=100)
        assert response.degraded == ()
        states = [inside(reader)._texts[1].state, inside(reader)._vectors[1].state]
        return all(len(state.published) >= 190 for state in states)

    await eventually(taken_over)
    assert len(ids(await reader.search("the heron met", only=["keyword"], top_k=100))) == 100
    assert await reader.check() == []


@pytest.mark.spec("B6")
async def test_the_log_is_forgotten_behind_what_is_published_and_nobody_misses_a_change(
    opened: Opener, tmp_path: Path, soon: None
) -> None:
    reader, writer = await opened(background=False), await opened(background=False)
    await writer.add_many(notes(30), wait=True)
    await reader.search("heron")
    for part in range(8):
        stored = await writer.add_many(notes(30, f"part{part}"), wait=True)
        await writer.forget([stored[3].id])
        await writer.index()
    assert log_length(tmp_path / "store") < 200  # of 8 * 61 + 60
    for memory in (reader, await opened(background=False)):
        assert texts(await memory.search("part7", only=["keyword"], top_k=100)).count("part7 3") == 0
        assert len(ids(await memory.search("the gate", only=["semantic"], top_k=100))) == 100
        assert await memory.check() == []
        assert await memory.count() == 30 + 8 * 29


@pytest.mark.spec("B9")
@pytest.mark.parametrize("overtaken", [0, 60])
async def test_an_index_that_is_ahead_of_a_database_that_was_put_back_is_not_believed(
    opened: Opener, tmp_path: Path, overtaken: int
) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(20), wait=True)
    await memory.close()
    database = (tmp_path / "store" / "fourfold.db").read_bytes()
    memory = await opened(background=False)
    await memory.add_many(notes(20, "later"), wait=True)
    await memory.forget([1, 2])
    await memory.index()
    await memory.close()
    (tmp_path / "store" / "fourfold.db").write_bytes(database)
    memory = await opened(background=False)
    await memory.add_many(notes(overtaken, "fresh"), wait=True)
    count = 20 + overtaken
    assert len(ids(await memory.search("the heron met", only=["keyword"], top_k=100))) == count
    assert len(ids(await memory.search("the heron met", only=["semantic"], top_k=100))) == count
    assert ["ahead of the database" in problem for problem in await memory.check()] == [True, True]
    await memory.index()
    assert await memory.check() == []


@pytest.mark.spec("B9")
async def test_a_damaged_row_of_a_long_column_is_noticed_when_it_is_read(
    opened: Opener, tmp_path: Path, soon: None
) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(300), wait=True)
    await memory.index()
    await memory.close()
    damaged = generations(tmp_path / "store", "vectors")
    column = tmp_path / "store/index/1/vectors" / damaged[-1] / "vectors"
    vectors = np.fromfile(column, np.float32)
    vectors[::7] *= -1
    column.write_bytes(vectors.tobytes())
    again, embedder = await opened(background=False), WordEmbedder()
    for query in ("note 17", "the heron", "at gate 4"):
        found = await again.search(query, only=["semantic"], top_k=100)
        assert found.degraded == ()
        assert len(found.results) == 100
        for result in found.results:
            true = float(embedder.vector(result.item.text) @ embedder.vector(query))
            assert result.contributions[0].raw == pytest.approx(true, abs=1e-5)
    assert await again.store.maintain("default")

    async def only_the_new_one() -> bool:
        """The damaged one goes when the last thread that read it has let it go."""
        gc.collect()
        await again.store.maintain("default")
        left = generations(tmp_path / "store", "vectors")
        return len(left) == 1 and left[0] not in damaged

    await eventually(only_the_new_one)
    assert await again.check() == []


async def test_a_generation_goes_without_another_publication_when_its_reader_lets_it_go(
    opened: Opener, tmp_path: Path, soon: None
) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(30), wait=True)
    await memory.index()
    folder = tmp_path / "store/index/1/text"
    held = Hold(folder / generations(tmp_path / "store", "text")[-1])
    await memory.add_many(notes(60)[30:], wait=True)
    await memory.index()
    assert len(generations(tmp_path / "store", "text")) == 2
    held.let_go()
    await memory.store.maintain("default")
    assert len(generations(tmp_path / "store", "text")) == 1


async def test_a_memory_closes_though_a_driver_swallows_a_cancellation() -> None:
    entered, swallowed = asyncio.Event(), 0

    class Swallowing(MemoryStore):
        async def maintain(self, namespace: str, *, wholly: bool = False) -> bool:
            nonlocal swallowed
            entered.set()
            if not swallowed:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    swallowed += 1
            return True

    memory = await Memory.open(Swallowing(), embedder="none")
    await entered.wait()
    async with asyncio.timeout(60):
        await memory.close()
    assert swallowed == 1


async def test_names_are_looked_for_in_pieces_while_others_write(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourfold.stores.sqlite.links._CHUNK", 10)
    memory = await opened(background=False)
    await memory.add_many([NewItem(f"We saw Castle Rock {n} from afar") for n in range(50)])
    await memory.add_many([NewItem(f"place {n}", title=f"Castle Rock {n}") for n in range(50)])
    await memory.store.maintain("default")
    for n in (0, 25, 49):
        response = await memory.search(f"Castle Rock {n}", only=["graph"])
        assert f"We saw Castle Rock {n} from afar" in texts(response)


@pytest.mark.spec("B9")
async def test_indexes_of_an_older_format_are_written_anew_by_whoever_meets_them(
    opened: Opener, tmp_path: Path, soon: None
) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(30), wait=True)
    await memory.index()
    await memory.close()
    for kind in ("text", "vectors"):
        folder = tmp_path / "store" / "index" / "1" / kind
        manifest = files.read_manifest(folder)
        assert manifest is not None
        files.write_manifest(folder, replace(manifest, format=1))
    again = await opened(background=False)
    assert len(ids(await again.search("the heron met", top_k=100))) == 30
    await again.close()
    assert (generations(tmp_path / "store", "text"), generations(tmp_path / "store", "vectors")) == (["g2"], ["g2"])


async def test_two_versions_do_not_write_over_each_other_for_ever(opened: Opener, tmp_path: Path, soon: None) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(30), wait=True)
    folder = tmp_path / "store" / "index" / "1" / "text"
    for expected in ("g2", "g2", "g2"):
        await memory.store.maintain("default")
        manifest = files.read_manifest(folder)
        assert manifest is not None
        files.write_manifest(folder, replace(manifest, format=99))  # as if another version had published
        assert generations(tmp_path / "store", "text")[-1] <= expected
        assert len(ids(await memory.search("the heron met", only=["keyword"], top_k=100))) == 30


async def test_writing_that_never_pauses_is_published_all_the_same(
    opened: Opener, tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourfold.upkeep._QUIET_SECONDS", 0.05)
    monkeypatch.setattr("fourfold.upkeep._LONGEST_WAIT", 0.1)
    memory = await opened()
    number = 0

    async def published_while_writing() -> bool:
        nonlocal number
        number += 1
        await memory.add(f"another heron {number}")
        return bool(list(tmp_path.glob("store/index/1/text/manifest.json")))

    await eventually(published_while_writing)


@pytest.mark.spec("S2.6")
async def test_a_large_store_without_indexes_says_that_they_are_being_built_and_answers_by_the_rest(
    opened: Opener, tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(60), wait=True)
    await memory.close()
    shutil.rmtree(tmp_path / "store" / "index")
    monkeypatch.setattr(indexes, "_WHOLE_AT", 50)
    memory = await opened(background=False)
    response = await memory.search("the heron met", top_k=100)
    assert [(each.retriever, "being built anew" in each.reason) for each in response.degraded] == [("keyword", True)]
    assert len(response.results) == 60  # by their vectors
    await memory.add(NewItem("The Heron House is old", title="Heron House"))  # waits for no index

    async def answers_by_words() -> bool:
        response = await memory.search("heron")
        return "keyword" in response.counts

    await eventually(answers_by_words)
    assert await memory.check() == []


async def test_one_process_mends_what_several_found_damaged(opened: Opener, tmp_path: Path) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(30), wait=True)
    await memory.index()
    await memory.close()
    (column,) = tmp_path.glob("store/index/1/text/g1/terms")
    column.write_bytes(column.read_bytes()[:-1])
    several = [await opened(background=False) for _ in range(3)]
    for memory in several:
        assert len(ids(await memory.search("the heron met", only=["keyword"], top_k=100))) == 30
    for memory in several:
        await memory.close()
    assert generations(tmp_path / "store", "text") == ["g2"]


async def test_a_folder_that_is_no_generation_keeps_nobody_from_publishing(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "store" / "index" / "1" / "text" / "g7 (copy)").mkdir(parents=True)
    memory = await opened(background=False)
    await memory.add_many(notes(5), wait=True)
    await memory.index()
    assert generations(tmp_path / "store", "text") == ["g1", "g7 (copy)"]


@pytest.mark.spec("B8")
async def test_a_namespace_of_another_model_costs_nothing_and_keeps_no_other_from_its_vectors(
    opened: Opener, soon: None
) -> None:
    for namespace, name in (("aaa", "old"), ("zzz", "new")):
        memory = await opened(namespace=namespace, embedder=WordEmbedder(name), background=False)
        await memory.add("with a vector", wait=True)
        await memory.add("without one")
        await memory.close()
    embedder = WordEmbedder("new")
    memory = await opened(namespace="aaa", embedder=embedder)

    async def said_and_done() -> bool:
        return bool(memory.troubles()) and not (await memory.store.size("zzz")).pending

    await eventually(said_and_done)
    assert embedder.texts == ["without one"]
    assert (await memory.store.size("aaa")).pending == 1


async def test_a_called_off_read_leaves_its_thread_on_no_old_snapshot(opened: Opener) -> None:
    memory = await opened(background=False)
    await memory.add_many(notes(50))
    database = memory.store._db  # type: ignore[attr-defined]
    for _ in range(300):
        job = Job()
        calling = threading.Thread(target=job.call_off)
        with suppress(apsw.InterruptError), database.read(job) as db:
            calling.start()
            db.execute("SELECT count(*) FROM items").fetchall()
        if calling.ident:
            calling.join()
        with database.read() as db:
            before = db.execute("SELECT count(*) FROM items").get
        assert before == 50
    await memory.add("one more")
    with database.read() as db:
        assert db.execute("SELECT count(*) FROM items").get == 51

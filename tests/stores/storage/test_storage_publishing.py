"""One process at a time publishes; the others search, take over published indexes, and miss no change."""

import gc
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from concurrently import begin
from engine_support import Opener, WordEmbedder, eventually, ids, notes, texts
from store_calls import StoreCalls

from fourfold import Memory, NewItem
from fourfold.engine.maintenance import Maintenance
from fourfold.errors import TimedOut
from fourfold.index import segment_files
from fourfold.index.locks import ReadLock
from fourfold.storage.sqlite.database import Tuning, deadline_in
from fourfold.storage.sqlite.store import TemporaryStore
from fourfold.storage.values import Pace


@pytest.fixture
def eager(tuning: dict[str, Any]) -> None:
    """Publishes at every opportunity, uses FAISS from a few rows on, and prunes the log early."""
    tuning["pace"] = Pace(quiet_seconds=0, watch_seconds=0.01)
    tuning |= {"publish_every_changes": 10, "log_kept_changes": 20, "look_every_seconds": 0, "exact_rows": 100}


def inside(memory: Memory) -> Any:
    """The internal indexes of the store."""
    return memory.store.indexes  # type: ignore[attr-defined]


def generations(folder: Path, kind: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"index/1/{kind}/g*"))


def log_length(folder: Path) -> int:
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        return int(db.execute("SELECT count(*) FROM changes").get)
    finally:
        db.close()


@pytest.mark.spec("B7")
def test_a_memory_without_the_lease_still_searches_and_writes(opened: Opener) -> None:
    one, other = opened(background=False), opened(background=False)
    one.add_many(notes(20))
    with StoreCalls(one.store).lease("default") as mine, StoreCalls(one.store).lease("default") as again:
        assert (mine, again) == (True, True)
        with StoreCalls(other.store).lease("default") as theirs:
            assert not theirs
        assert not StoreCalls(other.store).publish("default", everything=True)
        assert ids(other.search("heron", only=["keyword"]))
        other.add("The heron came back", wait=True)
    assert StoreCalls(other.store).publish("default", everything=True)
    with StoreCalls(other.store).lease("default") as theirs:
        assert theirs
    assert other.embed_pending() == 20


@pytest.mark.spec("B7")
def test_a_generation_is_removed_when_it_is_no_longer_read(opened: Opener, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    writer, reader = opened(background=False), opened(background=False)
    writer.add_many(notes(20), wait=True)
    writer.index()
    assert reader.search("heron").degraded == ()
    for number in range(3):
        writer.add(f"one more heron {number}", wait=True)
        writer.index()
        assert {kind: generations(folder, kind) for kind in ("text", "vectors")} == {
            "text": ["g1", f"g{number + 2}"],
            "vectors": ["g1", f"g{number + 2}"],
        }
        found = reader.search("heron", only=["keyword"], top_k=100)
        assert texts(found).count(f"one more heron {number}") == 1
    reader.close()
    writer.add("the last heron", wait=True)
    writer.index()
    assert (generations(folder, "text"), generations(folder, "vectors")) == (["g5"], ["g5"])


@pytest.mark.spec("B6", "B7")
def test_a_process_that_only_searches_takes_over_what_others_publish(opened: Opener, eager: None) -> None:
    reader, writer = opened(background=False), opened()
    writer.add_many(notes(5), wait=True)
    reader.search("heron")
    writer.add_many(notes(200, "later"), wait=True)

    def taken_over() -> bool:
        response = reader.search("heron", top_k=100)
        assert response.degraded == ()
        states = [inside(reader)._texts[1].state, inside(reader)._vectors[1].state]
        return all(len(state.published) >= 190 for state in states)

    eventually(taken_over)
    assert len(ids(reader.search("the heron met", only=["keyword"], top_k=100))) == 100
    assert reader.check() == []


@pytest.mark.spec("B6")
def test_the_log_is_pruned_after_publication_and_no_process_misses_a_change(opened, tmp_path, eager):
    reader, writer = opened(background=False), opened(background=False)
    writer.add_many(notes(30), wait=True)
    reader.search("heron")
    for part in range(8):
        stored = writer.add_many(notes(30, f"part{part}"), wait=True)
        writer.forget([stored[3].id])
        writer.index()
    assert log_length(tmp_path / "store") < 200  # of the 8 * 61 + 60 changes
    for memory in (reader, opened(background=False)):
        assert texts(memory.search("part7", only=["keyword"], top_k=100)).count("part7 3") == 0
        assert len(ids(memory.search("the gate", only=["semantic"], top_k=100))) == 100
        assert memory.check() == []
        assert memory.count() == 30 + 8 * 29


@pytest.mark.spec("B9")
@pytest.mark.parametrize("overtaken", [0, 60])
def test_an_index_ahead_of_a_restored_database_is_not_used(opened: Opener, tmp_path: Path, overtaken: int) -> None:
    memory = opened(background=False)
    memory.add_many(notes(20), wait=True)
    memory.close()
    database = (tmp_path / "store" / "fourfold.db").read_bytes()
    memory = opened(background=False)
    memory.add_many(notes(20, "later"), wait=True)
    memory.forget([1, 2])
    memory.index()
    memory.close()
    (tmp_path / "store" / "fourfold.db").write_bytes(database)
    memory = opened(background=False)
    memory.add_many(notes(overtaken, "fresh"), wait=True)
    count = 20 + overtaken
    assert len(ids(memory.search("the heron met", only=["keyword"], top_k=100))) == count
    assert len(ids(memory.search("the heron met", only=["semantic"], top_k=100))) == count
    assert ["ahead of the database" in problem for problem in memory.check()] == [True, True]
    memory.index()
    assert memory.check() == []


@pytest.mark.spec("B9")
def test_a_damaged_row_of_a_long_column_is_noticed_when_it_is_read(opened: Opener, tmp_path: Path, eager: None) -> None:
    memory = opened(background=False)
    memory.add_many(notes(300), wait=True)
    memory.index()
    memory.close()
    damaged = generations(tmp_path / "store", "vectors")
    column = tmp_path / "store/index/1/vectors" / damaged[-1] / "vectors"
    vectors = np.fromfile(column, np.float32)
    vectors[::7] *= -1
    column.write_bytes(vectors.tobytes())
    again, embedder = opened(background=False), WordEmbedder()
    for query in ("note 17", "the heron", "at gate 4"):
        found = again.search(query, only=["semantic"], top_k=100)
        assert found.degraded == ()
        assert len(found.results) == 100
        for result in found.results:
            true = float(embedder.vector(result.item.text) @ embedder.vector(query))
            assert result.contributions[0].raw == pytest.approx(true, abs=1e-5)
    assert StoreCalls(again.store).publish("default")

    def only_the_new_one() -> bool:
        """The damaged generation is removed when no thread reads it any more."""
        gc.collect()
        StoreCalls(again.store).publish("default")
        left = generations(tmp_path / "store", "vectors")
        return len(left) == 1 and left[0] not in damaged

    eventually(only_the_new_one)
    assert again.check() == []


def test_a_generation_is_removed_without_a_publication_when_its_reader_ends(opened, tmp_path, eager):
    memory = opened(background=False)
    memory.add_many(notes(30), wait=True)
    memory.index()
    folder = tmp_path / "store/index/1/text"
    held = ReadLock(folder / generations(tmp_path / "store", "text")[-1])
    memory.add_many(notes(60)[30:], wait=True)
    memory.index()
    assert len(generations(tmp_path / "store", "text")) == 2
    held.release()
    StoreCalls(memory.store).publish("default")
    assert len(generations(tmp_path / "store", "text")) == 1


def test_closing_waits_for_a_running_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, released = threading.Event(), threading.Event()

    def publish(namespace: str, **_: bool) -> bool:
        entered.set()
        return released.wait(60)

    store = TemporaryStore()
    monkeypatch.setattr(store.maintenance, "publish", publish)
    memory = Memory.open(store, embedder="none")
    assert entered.wait(60)
    closing = begin(memory.close)
    closing_again = begin(memory.close)
    assert not closing.done()
    released.set()
    closing.result(60)
    closing_again.result(60)


def test_what_is_left_while_writes_continue_is_published_when_they_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[tuple[str, bool]] = []

    def publish(namespace: str, *, amid_writes: bool) -> bool:
        published.append((namespace, amid_writes))
        return True

    store = TemporaryStore(Tuning(pace=Pace(quiet_seconds=0.01, longest_wait_seconds=0.02)))
    monkeypatch.setattr(store.maintenance, "publish", publish)
    maintenance = Maintenance(store, None, "default", watch=False)
    with maintenance.writing("other"):
        pass
    with maintenance.writing("other"):
        eventually(lambda: ("other", True) in published)
    eventually(lambda: published[-1] == ("other", False))
    maintenance.close()
    store.close()


@pytest.mark.spec("B9")
def test_indexes_of_an_older_format_are_rewritten_once(opened: Opener, tmp_path: Path, eager: None) -> None:
    memory = opened(background=False)
    memory.add_many(notes(30), wait=True)
    memory.index()
    memory.close()
    before = {kind: newest(tmp_path, kind) for kind in ("text", "vectors")}
    for kind in before:
        folder = tmp_path / "store" / "index" / "1" / kind
        manifest = segment_files.read_manifest(folder)
        assert manifest is not None
        segment_files.write_manifest(folder, replace(manifest, format=1))
    again = opened(background=False)
    assert len(ids(again.search("the heron met", top_k=100))) == 30
    again.close()
    for kind, number in before.items():
        assert generations(tmp_path / "store", kind) == [f"g{number + 1}"]


def newest(tmp_path: Path, kind: str) -> int:
    return max(int(name[1:]) for name in generations(tmp_path / "store", kind))


def test_two_versions_overwrite_each_other_at_most_once(opened: Opener, tmp_path: Path, eager: None) -> None:
    memory = opened(background=False)
    memory.add_many(notes(30), wait=True)
    memory.index()
    folder = tmp_path / "store" / "index" / "1" / "text"
    first, seen = newest(tmp_path, "text"), list[int]()
    for _ in range(3):
        manifest = segment_files.read_manifest(folder)
        assert manifest is not None
        segment_files.write_manifest(folder, replace(manifest, format=99))  # as if another version had published
        assert len(ids(memory.search("the heron met", only=["keyword"], top_k=100))) == 30
        StoreCalls(memory.store).publish("default")
        seen.append(newest(tmp_path, "text") - first)
    assert seen == [1, 1, 1]


def test_continuous_writing_is_published(opened: Opener, tmp_path: Path, eager: None, tuning: dict[str, Any]) -> None:
    tuning["pace"] = Pace(quiet_seconds=0.05, longest_wait_seconds=0.1)
    memory = opened()
    number = 0

    def published_while_writing() -> bool:
        nonlocal number
        number += 1
        memory.add(f"another heron {number}")
        return bool(list(tmp_path.glob("store/index/1/text/manifest.json")))

    eventually(published_while_writing)


@pytest.mark.spec("S2.6")
def test_a_large_store_without_indexes_reports_the_rebuild_and_still_answers(opened, tmp_path, eager, tuning):
    memory = opened(background=False)
    memory.add_many(notes(60), wait=True)
    memory.close()
    shutil.rmtree(tmp_path / "store" / "index")
    tuning["rebuild_at_changes"] = 50
    memory = opened(background=False)
    response = memory.search("the heron met", top_k=100)
    assert [(each.retriever, "being rebuilt" in each.reason) for each in response.degraded] == [("keyword", True)]
    assert len(response.results) == 60  # found by vectors
    memory.add(NewItem("The Heron House is old", title="Heron House"))  # does not wait for an index

    def answers_by_words() -> bool:
        response = memory.search("heron")
        return "keyword" in response.counts

    eventually(answers_by_words)
    assert memory.check() == []


def test_damage_found_by_several_processes_is_repaired_once(opened: Opener, tmp_path: Path) -> None:
    memory = opened(background=False)
    memory.add_many(notes(30), wait=True)
    memory.index()
    memory.close()
    (column,) = tmp_path.glob("store/index/1/text/g1/terms")
    column.write_bytes(column.read_bytes()[:-1])
    several = [opened(background=False) for _ in range(3)]
    for memory in several:
        assert len(ids(memory.search("the heron met", only=["keyword"], top_k=100))) == 30
    for memory in several:
        memory.close()
    assert generations(tmp_path / "store", "text") == ["g2"]


def test_a_folder_that_is_not_a_generation_does_not_block_publishing(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "store" / "index" / "1" / "text" / "g7 (copy)").mkdir(parents=True)
    memory = opened(background=False)
    memory.add_many(notes(5), wait=True)
    memory.index()
    assert generations(tmp_path / "store", "text") == ["g1", "g7 (copy)"]


@pytest.mark.spec("B8")
def test_a_namespace_of_another_model_does_not_block_embedding_of_others(opened: Opener, eager: None) -> None:
    for namespace, name in (("aaa", "old"), ("zzz", "new")):
        memory = opened(namespace=namespace, embedder=WordEmbedder(name), background=False)
        memory.add("with a vector", wait=True)
        memory.add("without one")
        memory.close()
    embedder = WordEmbedder("new")
    memory = opened(namespace="aaa", embedder=embedder)

    def said_and_done() -> bool:
        return bool(memory.troubles()) and not StoreCalls(memory.store).size("zzz").pending

    eventually(said_and_done)
    assert embedder.texts == ["without one"]
    assert StoreCalls(memory.store).size("aaa").pending == 1


def test_a_read_that_timed_out_leaves_no_old_snapshot(opened: Opener) -> None:
    memory = opened(background=False)
    memory.add_many(notes(50))
    database = memory.store.database  # type: ignore[attr-defined]
    for _ in range(300):
        with pytest.raises(TimedOut), database.read(deadline_in(0.0)) as db:
            db.execute("SELECT count(*) FROM items, items AS others, items AS more").fetchall()
        with database.read() as db:
            assert db.execute("SELECT count(*) FROM items").get == 50
    memory.add("one more")
    with database.read() as db:
        assert db.execute("SELECT count(*) FROM items").get == 51

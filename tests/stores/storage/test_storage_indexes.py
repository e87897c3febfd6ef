"""Indexes are caches of the rows: missing, damaged or old files change no answer; and the files themselves."""

import gc
import os
import random
import shutil
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_support import Opener, eventually, ids, notes, scored, texts
from oracle import Oracle
from store_calls import StoreCalls

from fourfold import Filters, Memory, NewItem, scheduling
from fourfold.errors import StoreUnavailable
from fourfold.index import segment_files
from fourfold.index.segment_files import Column, Part
from fourfold.limits import CANDIDATES
from fourfold.native.bindings import Nearest
from fourfold.storage.values import Pace

QUERIES = ("the heron met the otter", "note 17 at gate 4", "badger", "Reiher am Wassertor")


def answers(memory: Memory) -> list[list[tuple[str, float]]]:
    """Scores and texts, without ids, which differ between stores with different histories."""
    found = []
    for query in QUERIES:
        for only in (None, ["keyword"], ["semantic"]):
            response = memory.search(query, only=only, top_k=100)
            assert response.degraded == ()
            found.append(sorted((round(result.score, 9), result.item.text) for result in response.results))
    return found


@pytest.fixture
def published(opened: Opener) -> tuple[Path, Any]:
    """The index folder of a closed store with published indexes and later changes, and its answers."""
    memory = opened()
    memory.add_many([*notes(120), NewItem("Der Reiher am Wassertor", language="de")], wait=True)
    memory.index()
    memory.forget(list(range(1, 6)))
    memory.add_many(notes(10, "later"), wait=True)
    expected = answers(memory)
    memory.close()
    (folder,) = {path.parent for path in memory.store.folder.glob("index/*/text")}  # type: ignore[attr-defined]
    return folder, expected


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("lease", "manifest.json"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 0xFF
        content[-1] ^= 0x55
    path.write_bytes(bytes(content))


def each(folder: Path, damage: Callable[[Path], Any], part: str = "") -> None:
    for path in files(folder):
        if part in str(path.relative_to(folder)):
            damage(path)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "no folder": lambda folder: shutil.rmtree(folder.parent),
    "no text": lambda folder: shutil.rmtree(folder / "text"),
    "no vectors": lambda folder: shutil.rmtree(folder / "vectors"),
    "a file in its place": lambda folder: (shutil.rmtree(folder / "text"), (folder / "text").write_text("x")),
    "no manifest": lambda folder: [path.unlink() for path in folder.rglob("manifest.json")],
    "empty manifest": lambda folder: [path.write_text("") for path in folder.rglob("manifest.json")],
    "other manifest": lambda folder: [path.write_text('{"crc": 1}') for path in folder.rglob("manifest.json")],
    "list for manifest": lambda folder: [path.write_text("[]") for path in folder.rglob("manifest.json")],
    "flipped manifest": lambda folder: [flip(path) for path in folder.rglob("manifest.json")],
    "generations gone": lambda folder: [shutil.rmtree(path) for path in folder.glob("*/g*")],
    "all flipped": lambda folder: each(folder, flip),
    "all cut": lambda folder: each(folder, lambda path: path.write_bytes(path.read_bytes()[:-1])),
    "all emptied": lambda folder: each(folder, lambda path: path.write_bytes(b"")),
    "postings flipped": lambda folder: each(folder, flip, "postings"),
    "postings gone": lambda folder: each(folder, Path.unlink, "postings"),
    "terms flipped": lambda folder: each(folder, flip, "terms"),
    "ids flipped": lambda folder: each(folder, flip, "ids"),
    "dead flipped": lambda folder: each(folder, flip, "dead"),
    "german flipped": lambda folder: each(folder, flip, "german"),
    "vectors flipped": lambda folder: each(
        folder / "vectors", lambda path: path.write_bytes(b"U" * path.stat().st_size), "/vectors"
    ),
    "vectors gone": lambda folder: each(folder / "vectors", Path.unlink, "/vectors"),
    "longer": lambda folder: each(folder, lambda path: path.write_bytes(path.read_bytes() + b"left by a crash")),
}


@pytest.mark.spec("B6", "B9")
@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_indexes_change_no_answer(opened: Opener, published: tuple[Path, Any], name: str) -> None:
    folder, expected = published
    DAMAGES[name](folder)
    memory = opened()
    assert answers(memory) == expected
    assert all("is damaged" in problem for problem in memory.check())
    memory.add("one more kingfisher", wait=True)
    assert texts(memory.search("kingfisher", only=["keyword"])) == ["one more kingfisher"]
    memory.forget([memory.search("kingfisher", only=["keyword"]).results[0].id])
    memory.index()
    assert memory.check() == []
    again = opened()
    assert answers(again) == expected


PLACES: dict[str, dict[str, int]] = {
    "in a thread of Python": {"inline_vectors": 0},
    "in the thread of the kernel": {"thread_rows": 0},
    "here": {},
}
"""Where vectors are searched by a search that is alone."""


@pytest.mark.parametrize("crowded", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_search_that_is_alone_searches_vectors_in_a_second_thread(
    opened: Opener,
    published: tuple[Path, Any],
    tuning: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    crowded: bool,
) -> None:
    tuning |= PLACES[place]
    memory, before, started = opened(), _vector_threads(), list[Nearest]()
    start = Nearest.start
    monkeypatch.setattr(Nearest, "start", lambda job: (started.append(job), start(job)))
    with scheduling.Turns(1).search(0) if crowded else nullcontext():
        assert answers(memory) == published[1]
    assert (len(_vector_threads() - before) > 0) is (place == "in a thread of Python" and not crowded)
    assert bool(started) is (place == "in the thread of the kernel" and not crowded)


def _vector_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "fourfold-near"}


@pytest.mark.spec("B9")
def test_a_failed_publication_is_reported_and_writes_and_searches_continue(opened, tmp_path, tuning, monkeypatch):
    tuning |= {"publish_every_changes": 5, "pace": Pace(quiet_seconds=0)}
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "index").write_text("a file where a folder should be")
    memory = opened()
    memory.add_many(notes(10), wait=True)
    with pytest.raises(StoreUnavailable) as raised:
        memory.index()
    assert raised.value.remedy

    def said() -> bool:
        response = memory.search("heron")
        assert response.results
        return any("indexes are not being published" in note for note in response.notes)

    eventually(said)
    memory.close()
    assert opened().count() == 10


# ---------------------------------------------------------------- many vectors

DIMENSION = 64


@pytest.fixture
def small_limits(tuning: dict[str, Any]) -> None:
    """Uses FAISS from 300 vectors on, also under filters."""
    tuning |= {"exact_rows": 300, "scan_rows": 20}


def clustered(count: int, seed: int = 3) -> Any:
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, DIMENSION))
    points = centres[random.integers(0, 40, count)] + 0.5 * random.normal(size=(count, DIMENSION))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def recall(memory: Memory, vectors: Any, allowed: Any, filters: Filters) -> float:
    hits = 0
    queries = clustered(60, seed=3) + 0.05 * clustered(60, seed=9)
    for query in queries:
        cosines = vectors @ query
        best = {int(row) + 1 for row in allowed[np.argsort(-cosines[allowed])][:10]}
        response = memory.search("anything", vector=query, only=["semantic"], filters=filters)
        found = ids(response)
        assert len(found) == 10
        assert set(found) <= {int(row) + 1 for row in allowed}
        for result in response.results:  # FAISS proposes candidates, the score is exact
            exact = float(vectors[result.id - 1] @ query / np.linalg.norm(query))
            assert result.contributions[0].raw == pytest.approx(exact, abs=2e-6)
        hits += len(best & set(found))
    return hits / (10 * len(queries))


@pytest.mark.spec("S1.1", "B5", "B6")
def test_with_many_vectors_the_nearest_are_still_found(opened: Opener, small_limits: None) -> None:
    vectors = clustered(2600)
    memory = opened(embedder="none")
    items = [
        NewItem(f"vector {row}", vector=vector, tags=("tenth",) if row % 10 == 0 else (), metadata={"row": row})
        for row, vector in enumerate(vectors)
    ]
    memory.add_many(items[:2500])
    memory.index()
    index = next((memory.store.folder / "index").rglob("faiss"))  # type: ignore[attr-defined]
    assert index.stat().st_size > 0
    everything = np.arange(2500)
    assert recall(memory, vectors, everything, Filters()) >= 0.95
    memory.add_many(items[2500:])  # not in the published index
    assert recall(memory, vectors, np.arange(2600), Filters()) >= 0.95
    tenth = np.arange(0, 2600, 10)
    assert recall(memory, vectors, tenth, Filters(tags=("tenth",))) >= 0.95
    memory.index()
    memory.forget([int(row) + 1 for row in range(0, 2600, 10)])
    left = np.array([row for row in range(2600) if row % 10])
    assert recall(memory, vectors, left, Filters()) >= 0.95
    assert memory.check() == []


@pytest.mark.spec("S1.1")
def test_a_damaged_faiss_index_is_never_opened(opened: Opener, small_limits: None) -> None:
    vectors = clustered(600)
    memory = opened(embedder="none")
    memory.add_many([NewItem(f"vector {row}", vector=vector) for row, vector in enumerate(vectors)])
    memory.index()
    expected = scored(memory.search("x", vector=vectors[5], only=["semantic"]))
    memory.close()
    flip(next((memory.store.folder / "index").rglob("faiss")))  # type: ignore[attr-defined]
    again = opened(embedder="none")
    found = scored(again.search("x", vector=vectors[5], only=["semantic"]))
    assert found[0] == expected[0]
    assert len(found) == 10


# ---------------------------------------------------------------- short and long texts rank like in a full scan


@pytest.mark.spec("S1.2")
def test_the_best_hits_of_a_published_index_equal_a_full_scan(tmp_path):
    rng = random.Random(5)
    items = [NewItem(text=_note(rng, number), title="lease" if number % 7 == 0 else "") for number in range(900)]
    with Memory.open(tmp_path, embedder="none") as memory:
        memory.add_many(items)
        memory.index()
        found, wanted = (
            StoreCalls(store).match(memory.namespace, "lease", CANDIDATES, Filters()).hits
            for store in (memory.store, Oracle(memory.store))
        )
    assert len(found) == CANDIDATES
    assert [hit.id for hit in found] == [hit.id for hit in wanted]
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=1e-9)


def _note(rng: random.Random, number: int) -> str:
    """A short text with one occurrence or a longer one with several; which ranks higher depends on the lengths."""
    filler = [f"w{rng.randrange(5000)}" for _ in range(rng.randrange(1, 120))]
    return " ".join([*["lease"] * rng.randrange(1, 5), *filler, f"n{number}"])


# ---------------------------------------------------------------- columns: the append-only files of a published index


def test_columns_are_closed_when_a_later_one_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "terms").mkdir()
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        with pytest.raises(IsADirectoryError), segment_files.opened_columns(tmp_path, None, ["ids", "terms"]):
            pass
        gc.collect()
    assert not [warning.message for warning in leaked]


def test_a_column_that_cannot_be_positioned_is_closed(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        with pytest.raises(OSError):
            Column(tmp_path / "ids", Part(size=-1))
        gc.collect()
    assert not [warning.message for warning in leaked]


def test_files_that_this_process_wrote_are_read_again_only_after_they_were_modified(tmp_path, monkeypatch):
    path = tmp_path / "column"
    column = segment_files.Column(path, segment_files.Part())
    column.append(np.arange(100))
    column.sync()
    column.close()
    read: list[Path] = []
    checksum = segment_files.checksum
    monkeypatch.setattr(segment_files, "checksum", lambda path, size: read.append(path) or checksum(path, size))
    segment_files.verify(path, column.part, whole=True)
    (tmp_path / "link").hardlink_to(path)
    segment_files.verify(tmp_path / "link", column.part)
    assert read == []
    with pytest.raises(segment_files.Damaged):
        segment_files.verify(path, segment_files.Part(column.part.size, column.part.crc ^ 1))
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))  # also if the clock has not moved since
    with pytest.raises(segment_files.Damaged):
        segment_files.verify(tmp_path / "link", column.part)
    assert len(read) == 2


def test_notes_of_written_files_are_bounded_and_those_in_use_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_files, "_written", {})
    part = segment_files.replace_file(tmp_path / "used", b"content")
    segment_files.note_written(tmp_path / "used", part)
    for number in range(2 * segment_files.NOTED_FILES):
        path = tmp_path / str(number)
        path.write_bytes(b"content")
        segment_files.note_written(path, part)
        if number % 100 == 0:
            segment_files.verify(tmp_path / "used", part)
    assert len(segment_files._written) == segment_files.NOTED_FILES
    monkeypatch.setattr(segment_files, "checksum", lambda path, size: Part())
    segment_files.verify(tmp_path / "used", part)
    with pytest.raises(segment_files.Damaged):
        segment_files.verify(tmp_path / "0", part)

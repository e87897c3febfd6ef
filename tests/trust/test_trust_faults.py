"""A disk that fails or is full at any call: typed errors, nothing lost, no partial writes, then work continues."""

import errno
import json
import os
import random
import resource
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import pytest
import trust_child
import trust_vfs
from concurrently import begin
from engine_support import eventually, notes
from trust_vfs import FULL, IO_ERRORS, FaultyDisk, Seen, Step, checkpoint_often, look, old, open_store, prepare, steps

from fourfold import FourfoldError, Memory, NewItem
from fourfold.errors import StorageFull, StoreUnavailable, WorldError
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.values import Pace

MODES = ("io", "full", "full until space returns")
KINDS = (0, 1, 2, 3, 4, 5, 6, 12, 13)
"""One step of each kind; the others repeat these kinds."""


class Sweep:
    """Runs steps of the work over a faulty disk, each time from a copy of the store as it was before the step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = FaultyDisk()
        self.counts: Counter[str] = Counter()
        self.lost_exceptions: list[str] = []

    def prepare(self) -> None:
        """Does the whole work once on a healthy disk; folder `N` is the store as step N finds it."""
        threading.excepthook = lambda lost: self.lost_exceptions.append(f"{lost.exc_value!r} in {lost.thread}")
        whole = self.folder / "whole"
        prepare(whole)
        checkpoint_often()
        with open_store(whole) as memory:
            for number, step in enumerate(steps(whole)):
                copy(whole, self.folder / str(number))
                step.run(memory)

    def every_call(self, number: int, modes: tuple[str, ...], *, sparse: bool) -> None:
        """Repeats step `number` with its first call failing, then its second, until it has no more calls.

        `sparse`: only every second call, in one mode each.
        """
        for call in count(1 + (sparse and number % 2), 1 + sparse):
            chosen = (modes[(number + call) % len(modes)],) if sparse else modes
            done = [self.one(number, call, mode) for mode in chosen]
            if not all(done):
                return

    def one(self, number: int, call: int, mode: str) -> bool:
        """Runs one step with one failing call and checks the outcome; False if the step has fewer calls."""
        run = self.folder / "run"
        copy(self.folder / str(number), run)
        work = steps(run)
        memory = open_store(run)
        self._arm(call, mode)
        outcome = self._attempt(memory, work[number], mode)
        if not self.disk.failed:
            self.disk.heal()
            memory.close()
            return False
        where = f"{work[number].name}, {mode} at call {call} ({self.disk.failed[0]})"
        self._assert_reads_work(memory, where)
        if mode == MODES[2]:
            self._assert_still_full(memory, where)
        self.disk.heal()
        after = work[(number + 1) % len(work)]
        after.run(memory)
        memory.add(NewItem("space has returned", tags=("after",)), wait=True)
        seen = look(memory)
        self._judge(seen, work, number, outcome, where)
        assert after.verdict(seen) == "done", f"{where}: the next step, {after.name}, is {after.verdict(seen)}"
        assert seen.embedded("space has returned") == [True], where
        assert call % 3 or memory.check() == [], where
        memory.close()
        self._reopened(run, seen, where)
        assert not self.lost_exceptions, f"{where}: {self.lost_exceptions}"
        self.counts.update((mode, self.disk.failed[0], outcome))
        self.counts["runs"] += 1
        return True

    def _arm(self, call: int, mode: str) -> None:
        self.disk.fail(call, IO_ERRORS if mode == "io" else FULL, sticky=mode == MODES[2])

    def _attempt(self, memory: Memory, step: Step, mode: str) -> str:
        try:
            begin(lambda: step.run(memory)).result(60)
            return "confirmed"
        except FourfoldError as error:
            raised = error
        kinds = StorageFull if mode != "io" and self.disk.failed[0] != "grow" else (StorageFull, StoreUnavailable)
        assert isinstance(raised, kinds), f"{step.name}, {mode}: {raised!r}"
        assert raised.remedy
        return "failed"

    def _assert_reads_work(self, memory: Memory, where: str) -> None:
        response = memory.search(old(7), only=["keyword"])
        assert [result.item.text for result in response.results][:1] == [old(7)], where
        assert not response.degraded, where
        assert [item.text for item in memory.get(["key:old8"])] == [old(8)], where

    def _assert_still_full(self, memory: Memory, where: str) -> None:
        with pytest.raises(StorageFull) as raised:
            memory.add("while it is full")
        assert raised.value.remedy, where
        self._assert_reads_work(memory, where)
        assert "while it is full" not in look(memory).tags, where

    def _judge(self, seen: Seen, work: list[Step], number: int, outcome: str, where: str) -> None:
        for step in work[:number]:
            assert step.verdict(seen) == "done", f"{where}: {step.name} was confirmed but is {step.verdict(seen)}"
        verdict = work[number].verdict(seen)
        assert verdict == "done" or (outcome == "failed" and verdict != "half"), f"{where}: {outcome}, but is {verdict}"
        self.counts[f"{outcome}, {verdict}"] += 1

    def _reopened(self, run: Path, seen: Seen, where: str) -> None:
        self.disk.remove()
        with open_store(run) as memory:
            assert look(memory) == seen, where
            assert memory.check() == [], where
        self.disk.install()


def copy(source: Path, target: Path) -> None:
    """Copies a store as a crash leaves it: without the shared memory."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*-shm"))


def sweep(folder: Path, numbers: Sequence[int], sparse: bool) -> dict[str, int]:
    found = Sweep(folder)
    found.prepare()
    for number in numbers:
        found.every_call(number, MODES, sparse=sparse)
    return dict(found.counts)


@pytest.mark.spec("B6", "B9", "S2.6")
@pytest.mark.parametrize("part", [0, 1])
def test_every_failing_call_raises_a_typed_error_and_loses_nothing(fast_folder: Path, part: int) -> None:
    """Every second call of each kind of step fails, in one of three ways; `make soak` runs all steps in all ways."""
    counts = trust_child.run(sweep, fast_folder, KINDS[part::2], True)
    print(f"\n{counts.pop('runs')} failing calls: {counts}")
    assert min(counts[mode] for mode in MODES) >= 15
    assert counts["failed"] > 50
    assert counts["confirmed"] > 5  # the commit succeeded, and only the checkpoint after it failed


@pytest.mark.soak
@pytest.mark.spec("B6", "B9", "S2.6")
def test_every_call_fails_in_every_way(fast_folder: Path) -> None:
    counts = trust_child.run(sweep, fast_folder, range(len(steps(fast_folder))), False)
    print(f"\n{counts['runs']} failing calls: {counts}")
    assert counts["runs"] > 900


# ---------------------------------------------------------------- creating, opening and closing a store


def every(few: int) -> pytest.MarkDecorator:
    """Parametrizes which calls fail: every `every`-th one; `make soak` fails each of them."""
    return pytest.mark.parametrize("every", [few, pytest.param(1, marks=pytest.mark.soak)])


def edges_of_life(folder: Path, every: int) -> dict[str, int]:
    """Creates a store, and opens and closes one, on a disk that fails."""
    disk, counts = FaultyDisk(), Counter[str]()
    prepare(folder / "template")
    for name, life in (("making", make_new), ("opening", open_known), ("closing", close_known)):
        for call in count(1, every):
            shutil.rmtree(folder / "run", ignore_errors=True)
            if not life(disk, folder, call, IO_ERRORS if call // every % 2 else FULL):
                break
            counts[name] += 1
    return dict(counts)


def make_new(disk: FaultyDisk, folder: Path, call: int, codes: dict[str, int]) -> bool:
    disk.fail(call, codes, sticky=False)
    confirmed = opened_and_written(folder / "run")
    hit = bool(disk.failed)
    disk.heal()
    with open_store(folder / "run") as memory:
        assert {item.text for item in memory.list()} >= {"first"} if confirmed else True
        memory.add("second", wait=True)
        assert memory.check() == []
        assert "second" in memory.search("second").results[0].item.text
    return hit


def open_known(disk: FaultyDisk, folder: Path, call: int, codes: dict[str, int]) -> bool:
    copy(folder / "template", folder / "run")
    disk.fail(call, codes, sticky=False)
    confirmed = opened_and_written(folder / "run")
    hit = bool(disk.failed)
    disk.heal()
    with open_store(folder / "run") as memory:
        stored = {item.text for item in memory.list()}
        assert stored >= ({old(0), "first"} if confirmed else {old(0)})
        assert memory.check() == []
    return hit


def opened_and_written(folder: Path) -> bool:
    """Opens the store and writes; returns whether the write was confirmed."""
    try:
        with open_store(folder) as memory:
            memory.add("first")
        return True
    except FourfoldError as error:
        raised = error
    assert isinstance(raised, StorageFull | StoreUnavailable), repr(raised)
    assert raised.remedy
    return False


def close_known(disk: FaultyDisk, folder: Path, call: int, codes: dict[str, int]) -> bool:
    copy(folder / "template", folder / "run")
    memory = open_store(folder / "run")
    memory.add_many([NewItem("first"), NewItem("second")], wait=True)
    disk.fail(call, codes, sticky=False)
    memory.close()
    hit = bool(disk.failed)
    disk.heal()
    with open_store(folder / "run") as memory:
        assert {item.text for item in memory.list()} >= {old(0), "first", "second"}
        assert memory.check() == []
    return hit


@pytest.mark.spec("B6", "B9")
@every(2)
def test_disk_failure_while_a_store_is_created_opened_or_closed(fast_folder: Path, every: int) -> None:
    counts = trust_child.run(edges_of_life, fast_folder, every)
    print(f"\nfailing calls: {counts}")
    assert counts["making"] * every > 50
    assert counts["opening"] * every > 20
    assert counts["closing"] * every > 10


# ---------------------------------------------------------------- a disk that is full when index files are written

QUERIES = ("the heron met the otter", old(7), "note 3 at gate 3", "lynx")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class FullFolder:
    """Simulates a full disk below a folder: the call with a given number, and all later ones, raise ENOSPC.

    Counted are calls from Python that need space: opening for writing, mkdir, link, rename, fsync.
    """

    def __init__(self, folder: Path) -> None:
        self.hit = ""
        self._folder = str(folder)
        self._calls = 0
        self._full_from: int | None = None
        self._fsync = os.fsync
        os.fsync = self._syncing
        sys.addaudithook(self._asked)

    def fill(self, call: int) -> None:
        self._calls, self._full_from, self.hit = 0, call, ""

    def heal(self) -> None:
        self._full_from = None

    def _syncing(self, handle: Any) -> None:
        self._count("sync")
        self._fsync(handle)

    def _asked(self, event: str, args: tuple[Any, ...]) -> None:
        if self._full_from is None or event not in ("open", "os.mkdir", "os.link", "os.rename"):
            return
        path = args[1] if event in ("os.link", "os.rename") else args[0]
        needs = event != "open" or args[2] & _WRITING
        if needs and isinstance(path, str | Path) and str(path).startswith(self._folder):
            self._count(event)

    def _count(self, what: str) -> None:
        if self._full_from is not None:
            self._calls += 1
            if self._calls >= self._full_from:
                self.hit = self.hit or what
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._folder)


def publish_at_once() -> None:
    """Makes stores publish after every write, without waiting for a pause."""
    trust_vfs.TUNING = Tuning(publish_every_changes=1, pace=Pace(quiet_seconds=0))


def generations(folder: Path) -> dict[str, int]:
    """The published generation of each index."""
    return {path.parent.name: json.loads(path.read_text())["generation"] for path in folder.glob("*/*/manifest.json")}


def left_over(folder: Path, before: dict[str, int]) -> list[str]:
    """Files of generations other than the published ones and those of `before`, which searches may still read."""
    known = {f"{name}/g{number}" for name, number in (*before.items(), *generations(folder).items())}
    found = list(folder.glob("*/*/g[0-9]*"))
    random_texts = [path for path in found if f"{path.parent.name}/{path.name}" not in known]
    return [str(path.relative_to(folder)) for path in (*random_texts, *folder.rglob("*.new"))]


def answers(memory: Memory) -> list[list[tuple[int, float]]]:
    found = [memory.search(query, top_k=20) for query in QUERIES]
    assert not any(response.degraded for response in found)
    return [[(result.id, round(result.score, 6)) for result in response.results] for response in found]


def fill_while_publishing(folder: Path, every: int) -> dict[str, int]:
    prepare(folder / "template")
    publish_at_once()
    disk, counts = FullFolder(folder / "run" / "index"), Counter[str]()
    for call in count(1, every):
        copy(folder / "template", folder / "run")
        with open_store(folder / "run") as memory:
            one_full_publication(memory, disk, folder / "run" / "index", call)
        if not disk.hit:
            return dict(counts)
        counts[disk.hit] += 1
    raise AssertionError


def one_full_publication(memory: Memory, disk: FullFolder, index: Path, call: int) -> None:
    before = generations(index)
    assert set(before) == {"text", "vectors"}
    disk.fill(call)
    memory.add_many(notes(3), wait=True)
    background(memory)
    if not disk.hit:
        disk.heal()
        return
    where = f"{disk.hit}, call {call}"
    full = answers(memory)
    (trouble,) = memory.troubles().values()
    assert "space" in trouble, f"{where}: {trouble}"
    assert any(trouble in note for note in memory.search("lynx").notes), where
    disk.heal()
    memory.index()
    assert all(number > before[name] for name, number in generations(index).items()), where
    assert answers(memory) == full, where
    assert left_over(index, before) == [], where
    memory.add("there is space again", wait=True)
    background(memory)
    assert memory.troubles() == {}, where
    assert "there is space again" in memory.search("space again").results[0].item.text
    assert memory.check() == [], where
    if call % 5 == 0:
        expected = answers(memory)
        with open_store(index.parent) as again:
            assert answers(again) == expected, where


def background(memory: Memory) -> None:
    """Waits until the publication behind the last write has ended."""
    eventually(lambda: memory._maintenance._publisher is None)


@pytest.mark.spec("S2.6", "B9")
@every(2)
def test_disk_full_while_indexes_are_published(fast_folder: Path, every: int) -> None:
    counts = trust_child.run(fill_while_publishing, fast_folder, every)
    print(f"\n{sum(counts.values())} publications on a full disk: {counts}")
    assert counts["open"] * every > 5
    assert counts["sync"] * every > 10
    assert counts["os.rename"] * every >= 2


def limit_file_sizes(folder: Path, every: int) -> dict[str, int]:
    """Publishes under limits on the size of a file, chosen so that each file hits one."""
    counts: Counter[str] = Counter()
    prepare(folder / "template")
    found = sizes(folder)
    for limit in [*found[:-2:every], *found[-2:]]:
        copy(folder / "template", folder / "run")
        with open_store(folder / "run") as memory:
            memory.add_many(random_texts(40), wait=True)
            counts[one_limited_publication(memory, folder / "run" / "index", limit)] += 1
    return dict(counts)


def random_texts(count: int) -> list[NewItem]:
    """Texts of long words that occur once, so that files have many sizes."""
    chance = random.Random(count)
    return [NewItem(" ".join(chance.randbytes(12).hex() for _ in range(30))) for _ in range(count)]


def sizes(folder: Path) -> list[int]:
    """File size limits in ascending order; each lets more files of a publication be written completely."""
    copy(folder / "template", folder / "run")
    with open_store(folder / "run") as memory:
        memory.add_many(random_texts(40), wait=True)
        memory.index()
        found = {path.stat().st_size for path in (folder / "run" / "index").rglob("*") if path.is_file()}
    return sorted({limit for size in found for limit in (size // 2, size - 1) if limit >= 0} | {max(found), 1 << 30})


def one_limited_publication(memory: Memory, index: Path, limit: int) -> str:
    before, known = generations(index), answers(memory)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    raised: FourfoldError | None = None
    try:
        memory.index()
    except WorldError as error:
        raised = error
    finally:
        found = answers(memory)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert found == known, limit
    assert raised is None or (raised.remedy and generations(index)["vectors"] == before["vectors"]), limit
    memory.index()
    assert all(number > before[name] for name, number in generations(index).items()), limit
    assert answers(memory) == known, limit
    assert left_over(index, before) == [], limit
    assert memory.check() == [], limit
    return "failed" if raised else "published"


@pytest.mark.spec("S2.6", "B9")
@every(3)
def test_searches_work_when_index_files_cannot_grow(fast_folder: Path, every: int) -> None:
    counts = trust_child.run(limit_file_sizes, fast_folder, every)
    print(f"\nfile size limits: {counts}")
    assert counts["failed"] * every > 10
    assert counts["published"] >= 1


def test_too_little_memory_is_a_typed_error_and_loses_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        memory.add("one")
        calls = [
            lambda: memory.add("two " * 20_000),
            lambda: memory.search("one"),
            memory.count,
            memory.check,
            lambda: Memory.open(tmp_path / "other", embedder="none"),
        ]
        for call in calls:
            limit = apsw.hard_heap_limit(apsw.memory_used() + 1000)
            try:
                with pytest.raises(StoreUnavailable, match="out of memory") as caught:
                    call()
            finally:
                apsw.hard_heap_limit(limit or 2**62)
            assert "ulimit" in str(caught.value.remedy)
        assert (memory.count(), memory.check()) == (1, [])

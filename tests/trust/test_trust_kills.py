"""kill -9 at any moment: no confirmed write is lost, no write is partial, and all retrievers agree."""

import itertools
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import apsw
import postgres_servers
import pytest
import trust_child
import trust_kill_work as work
from engine_support import WordEmbedder
from trust_kill_work import PUBLICATION, STOP, TRANSACTION, Effect, Places

from fourfold import Memory, NewItem
from fourfold.embed.windows import read_as
from fourfold.errors import StoreNotEmpty

CYCLES_A_FOLDER = 50
SURVIVOR_OPERATIONS = 6
"""Operations that a process must confirm after another process of the store was killed."""


class Child:
    """A process that records its operations in a journal, and may be killed."""

    def __init__(self, place: Path, function: Any, folder: Path, *args: Any) -> None:
        place.mkdir()
        self._journal = place / "journal"
        self._journal.touch()
        self._shared = work.shared_bytes(place / "marks")
        self._process = trust_child.start(function, folder, self._journal, place / "marks", *args)

    def lines(self) -> list[Any]:
        whole, _, _ = self._journal.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def said(self, what: str) -> list[Any]:
        return [value for kind, _, value in self.lines() if kind == what]

    def count(self, what: str) -> int:
        return self._journal.read_bytes().count(f'["{what}",'.encode())

    def wait_for(self, what: str, count: int = 1) -> None:
        """Waits, for at most a minute, until the journal has `count` entries of this kind or the process has ended."""
        deadline = time.monotonic() + 60
        while self.count(what) < count and self._process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.002)
        assert self.count(what) >= count or self._process.exitcode == 0, f"too few {what!r}: {self.said('error')}"

    def kill(self) -> str:
        """Kills the process; returns what it was doing, or "ended" if it had ended before."""
        self._process.kill()
        code, shared = self._closed()
        assert self.said("error") == []
        if code == 0:
            return "ended"
        publication = ("", "publication", "swap")[shared[PUBLICATION]]
        transaction = "transaction" if shared[TRANSACTION] else ""
        return " and ".join(filter(None, (transaction, publication))) or "neither"

    def end(self) -> None:
        """Asks the process to stop, and waits for it."""
        self._shared[STOP] = 1
        self._process.join(60)
        assert self._process.exitcode is not None, "the process did not stop within a minute"
        code, _ = self._closed()
        assert (code, self.said("error")) == (0, [])

    def stop(self) -> None:
        """Kills the process unless it has ended."""
        if not self._shared.closed:
            self._process.kill()
            self._closed()

    def _closed(self) -> tuple[int | None, bytes]:
        """The exit code, and the shared bytes at the end of the process; closes both."""
        self._process.join()
        code, shared = self._process.exitcode, self._shared[:]
        self._process.close()
        self._shared.close()
        return code, shared

    def done(self) -> tuple[list[Effect], list[Effect]]:
        """The confirmed effects, in order, and those that had begun."""
        begun: dict[int, Effect] = {}
        confirmed: list[Effect] = []
        for what, who, value in self.lines():
            if what == "begun":
                begun[who] = value
            elif what == "done":
                confirmed.append(begun.pop(who))
        return confirmed, list(begun.values())


@dataclass
class Model:
    """The expected contents of a store."""

    places: Places = field(default_factory=dict)
    confirmed: int = 0
    kept: int = 0
    """Operations that took effect without having been confirmed."""

    def follow(self, child: Child, seen: Places) -> None:
        """Applies what a dead child confirmed, and the unfinished operations that took effect completely."""
        confirmed, begun = child.done()
        for effect in confirmed:
            self.places = work.after(self.places, effect)
        for effect in begun:
            if _holds(seen, effect):
                self.places = work.after(self.places, effect)
                self.kept += 1
        self.confirmed += len(confirmed)


def _holds(seen: Places, effect: Effect) -> bool:
    return all(seen.get(place) == value for place, value in effect.items())


def owned(places: Places, writers: Iterable[int]) -> Places:
    return {place: value for place, value in places.items() if work.owner(place) in writers}


def different(seen: Places, wanted: Places) -> dict[str, Any]:
    """Maps each place that differs to the pair (found, wanted)."""
    both = {**seen, **wanted}
    return {place: (seen.get(place), wanted.get(place)) for place in both if seen.get(place) != wanted.get(place)}


def seeded(what: str) -> Iterator[int]:
    """Seeds for everything random in a test; set TRUST_SEED to repeat them (scheduling still varies)."""
    seed = int(os.environ.get("TRUST_SEED") or random.SystemRandom().randrange(10**6))
    print(f"\n{what}: seed {seed}")
    return itertools.count(seed)


def many(few: int, often: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kills", [few, pytest.param(often, marks=pytest.mark.soak)])


Begin = Callable[..., Child]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts children that are killed at the end of the test."""
    children: list[Child] = []

    def beginning(function: Any, folder: Path, *args: Any) -> Child:
        children.append(Child(tmp_path / f"child {len(children)}", function, folder, *args))
        return children[-1]

    yield beginning
    for child in children:
        child.stop()


@pytest.mark.spec("B6", "B7", "B9")
@many(25, 500)
def test_no_confirmed_write_is_lost_by_a_kill_and_every_retriever_agrees(begin, tmp_path, kills):
    seeds = seeded("kills of a writer")
    inside, models, published = Counter[str](), list[Model](), 0
    for cycle, seed in zip(range(kills), seeds, strict=False):
        if cycle % CYCLES_A_FOLDER == 0:
            models.append(Model())
        folder, model, chance = tmp_path / f"store {len(models)}", models[-1], random.Random(seed)
        child = begin(work.write_until_killed, folder, seed, (0, 1, 2))
        match chance.choice(("opening", *["writing"] * 4, *["publishing"] * 5)):
            case "writing":
                child.wait_for("done", chance.randint(0, 10))
            case "publishing":
                child.wait_for("published", chance.randint(1, 4))
        time.sleep(chance.uniform(0, 0.03))
        inside[child.kill()] += 1
        published += child.count("published")
        seen, problems = trust_child.run(work.look, folder, chance.random() < 0.5)
        model.follow(child, seen)
        assert (seed, different(seen, model.places), problems) == (seed, {}, [])
    confirmed, kept = sum(model.confirmed for model in models), sum(model.kept for model in models)
    print(f"{kills} kills: {dict(inside)}; {confirmed} confirmed writes, 0 lost; {kept} unconfirmed ones took effect")
    print(f"{published} index publications completed between the kills")
    assert inside["ended"] == 0
    assert kills - inside["neither"] >= 0.2 * kills
    assert min(confirmed, published) > kills / 2


@pytest.mark.spec("B6", "B7")
@many(8, 40)
def test_a_process_keeps_working_when_another_is_killed(begin: Begin, tmp_path: Path, kills: int) -> None:
    seeds = seeded("kills beside a writer")
    chance = random.Random(next(seeds))
    folder, model, inside = tmp_path / "store", Model(), Counter[str]()
    sides = [(0, 1), (2, 3)]
    children = [begin(work.write_until_killed, folder, next(seeds), side) for side in sides]
    for _ in range(kills):
        for child in children:
            child.wait_for("done", chance.randint(0, 6))
        time.sleep(chance.uniform(0, 0.03))
        which = chance.randrange(2)
        victim, survivor = children[which], children[1 - which]
        inside[victim.kill()] += 1
        survivor.wait_for("done", survivor.count("done") + SURVIVOR_OPERATIONS)
        survivor.wait_for("published", survivor.count("published") + 1)
        seen, problems = trust_child.run(work.look, folder, True, False)
        model.follow(victim, seen)
        wrong = different(owned(seen, sides[which]), owned(model.places, sides[which]))
        assert (wrong, problems) == ({}, [])
        children[which] = begin(work.write_until_killed, folder, next(seeds), sides[which])
    for child in children:
        child.wait_for("done")
        child.end()
    seen, problems = trust_child.run(work.look, folder)
    for child in children:
        model.follow(child, seen)
    print(f"{kills} kills beside a writer: {dict(inside)}; {model.confirmed} confirmed writes, 0 lost, 0 errors")
    assert inside["ended"] == 0
    assert (different(seen, model.places), problems) == ({}, [])


@pytest.mark.spec("B8")
@many(6, 50)
def test_re_embedding_resumes_after_kills_and_vectors_are_never_mixed(begin: Begin, tmp_path: Path, kills: int) -> None:
    seeds = seeded("kills of a re-embedding")
    folder, items, inside = tmp_path / "store", 200, Counter[str]()
    trust_child.run(work.fill, folder, items)
    models = itertools.cycle(list(work.MODELS)[1:] + list(work.MODELS)[:1])
    model, before, amid = next(models), 0, 0
    while inside.total() - inside["ended"] < kills or amid < kills / 5:
        assert inside.total() < 10 * kills, f"too few kills hit the middle of a re-embedding: {amid}"
        seed = next(seeds)
        chance = random.Random(seed)
        child = begin(work.reembed, folder, model)
        child.wait_for("open")
        child.wait_for("made", chance.randint(0, 4))
        time.sleep(chance.uniform(0, 0.03))
        inside[child.kill()] += 1
        now, vectors, problems = trust_child.run(work.look_at_vectors, folder)
        assert (seed, problems) == (seed, [])
        made = max(child.said("made"), default=0)
        assert vectors >= before + made if now == model else made == before == 0
        before = vectors if now == model else 0
        amid += 0 < before < items
        if child.said("finished"):
            assert before == items
            model, before = next(models), 0
    last = begin(work.reembed, folder, model)
    last.end()
    assert last.said("finished") == [items - before]
    assert trust_child.run(work.look_at_vectors, folder) == (model, items, [])
    print(
        f"{kills} kills of a re-embedding: {dict(inside)}; {amid} left it half done, {inside['ended'] + 1} ended well"
    )


# ---------------------------------------------------------------- renewing vectors with windows


EARLIER = "words/32"


class WithoutWindows(WordEmbedder):
    """An embedder from before windows: it reads a text as a whole."""

    def truncates(self, text: str) -> bool:
        return False


class Windowed(WordEmbedder):
    """The next version, with windows."""

    replaces = (EARLIER,)

    def __init__(self) -> None:
        super().__init__("windowed")


class SlowWindowed(Windowed):
    """A slow embedder that reports when a batch begins."""

    def __init__(self, seed: int, said: Any) -> None:
        super().__init__()
        self._random = Random(seed)
        self._said = said

    def embed(self, texts: Sequence[str]) -> Any:
        self._said.send(len(texts))
        time.sleep(self._random.random() / 50)
        return super().embed(texts)


def renew(folder: Path, seed: int, said: Any) -> None:
    with Memory.open(folder, embedder=SlowWindowed(seed, said), background=False) as memory:
        said.send(0)
        memory.embed_pending()
        memory.index()


LONG = "\n".join(f"Paragraph {number} describes the weather of day {number}, wind and rain." for number in range(60))
TEXTS = [f"{LONG[: 1500 + 40 * number]}\nnumber {number}" for number in range(60)]


@pytest.mark.spec("C13")
@pytest.mark.parametrize("kills", [8, pytest.param(80, marks=pytest.mark.soak)])
def test_a_kill_during_the_renewal_leaves_no_item_with_some_of_its_windows(tmp_path: Path, kills: int) -> None:
    chance = random.Random(7)
    left = set[int]()
    for number in range(kills):
        folder = tmp_path / str(number)
        with Memory.open(folder, embedder=WithoutWindows(), background=False) as memory:
            memory.add_many([NewItem(text) for text in [*TEXTS, "a short note"]], wait=True)
        trust_child.kill_after(number % 6 + 1, chance, renew, folder)
        left.add(_pending_items(folder))
        with Memory.open(folder, embedder=Windowed(), background=False) as memory:
            memory.embed_pending()
            assert _pending_items(folder) == 0
            assert memory.check() == []
            assert memory.search("weather of day 3").results[0].part is not None
    assert len(left) > 2, f"the kills did not hit different moments: numbers of pending items: {sorted(left)}"


def _pending_items(folder: Path) -> int:
    """The number of pending items; asserts that the others have all their windows, from one version of the model."""
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        ((fingerprint,),) = db.execute("SELECT fingerprint FROM namespaces").fetchall()
        rows = db.execute("SELECT title, text, length(vector), spans FROM items JOIN vectors ON item = id").fetchall()
        ((waiting,),) = db.execute("SELECT count(*) FROM waiting").fetchall()
        ((items,),) = db.execute("SELECT count(*) FROM items").fetchall()
    finally:
        db.close()
    assert len(rows) + waiting == items
    for title, text, size, spans in rows:
        expected = () if fingerprint == EARLIER else read_as(title, text, Windowed().truncates)[1]
        assert size == 128 * max(1, len(expected))
        assert len(spans or b"") == 8 * len(expected)
    with Memory.open(folder, embedder=Windowed(), background=False) as memory:
        assert memory.check() == []
    return waiting


# ---------------------------------------------------------------- merging near-duplicates


PAIRS = 30


def pair_text(number: int, end: str) -> str:
    return f"The key of room {number} is in the blue box{end}"


def merge_and_restore(folder: Path, seed: int, said: Any) -> None:
    """Merges pairs and undoes the merges, until killed."""
    chance = random.Random(seed)
    with Memory.open(folder, embedder="none", background=False) as memory:
        while True:
            said.send("at work")
            kept = 2 * chance.randrange(PAIRS) + 1
            if memory.get([kept + 1])[0].version_of is None:
                memory.merge(kept, [kept + 1])
            else:
                memory.undo(kept, to=kept + 1)


@pytest.mark.spec("C15", "B1")
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.soak)])
def test_a_kill_while_items_are_merged_loses_none(tmp_path: Path, kills: int) -> None:
    chance = random.Random(7)
    with Memory.open(tmp_path, embedder="none", background=False) as memory:
        for number in range(PAIRS):
            memory.add(NewItem(pair_text(number, "")))
            memory.add(NewItem(pair_text(number, "."), key=f"b{2 * number + 1}", tags=("copy",)))
    states = set[bool]()
    for _ in range(kills):
        trust_child.kill_after(chance.randrange(1, 40), chance, merge_and_restore, tmp_path)
        states |= trust_child.run(found_states, tmp_path)
    assert states == {True, False}


def found_states(folder: Path) -> set[bool]:
    """Which states occur among the pairs (merged or not); asserts that no item is lost."""
    found = set[bool]()
    with Memory.open(folder, embedder="none", background=False) as memory:
        assert memory.check() == []
        listed = {item.id for item in memory.list(limit=1000)}
        for number in range(PAIRS):
            kept, other = memory.get([2 * number + 1, 2 * number + 2])
            merged = other.version_of == kept.id
            assert (kept.text, kept.superseded_at, other.text) == (pair_text(number, ""), None, pair_text(number, "."))
            assert (other.key, other.tags) == (f"b{kept.id}", ("copy",))
            assert merged == (other.id not in listed)
            found.add(merged)
    return found


# ---------------------------------------------------------------- moving a store


def move_and_die(source: Path, target: Path | str, temporary: Path, reports: int) -> None:
    """Moves the store, and kills its own process with SIGKILL after this many reports of progress."""
    tempfile.tempdir = str(temporary)
    left = reports

    def progress(done: int, total: int) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        Memory.open(source, embedder="none", background=False) as memory,
        Memory.open(target, embedder="none", background=False) as copy,
    ):
        memory.move(copy.store, progress)


ITEMS = 6000
"""Enough items for a load to take more than one batch."""


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, fast_folder: Path) -> Path | str:
    return fast_folder / "copy" if request.param == "sqlite" else postgres_servers.fresh()


@pytest.mark.spec("B9")
@pytest.mark.parametrize("reports", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (6, 8))])
def test_a_killed_move_leaves_nothing_in_the_temporary_folder_and_is_completed_by_the_next(
    fast_folder: Path, target: Path | str, reports: int
) -> None:
    temporary = fast_folder / "temporary"
    temporary.mkdir()
    with Memory.open(fast_folder / "store", embedder="none", background=False) as memory:
        memory.add_many([NewItem(f"A secret of number {number}") for number in range(ITEMS)])
        child = trust_child.start(move_and_die, fast_folder / "store", target, temporary, reports)
        child.join()
        assert child.exitcode == -signal.SIGKILL
        assert list(temporary.iterdir()) == []
        with Memory.open(target, embedder="none", background=False) as copy:
            moved = memory.move(copy.store)
            assert moved.counts["item"] == ITEMS
            assert copy.check() == []
            assert memory.move(copy.store) == moved
            memory.add("one more")
            with pytest.raises(StoreNotEmpty):
                memory.move(copy.store)

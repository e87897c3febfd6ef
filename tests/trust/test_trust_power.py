"""Power loss at any moment: no confirmed write is lost, no write is partial, and the store is consistent."""

import random
import shutil
from collections import Counter
from pathlib import Path

import apsw
import pytest
import trust_child
from trust_vfs import (
    Event,
    Record,
    Recorder,
    Step,
    after_power_loss,
    checkpoint_often,
    look,
    open_store,
    prepare,
    steps,
)

from fourfold.errors import FourfoldError

SEED = 20260314
KEEP = (0.0, 0.5, 1.0, 0.9, 0.1)
"""Shares of the unsynced sectors that reach the disk, used in turn."""


def record(folder: Path, synchronous: str) -> Record:
    """Records the work on a store in `folder/store`.

    `folder/index-N` is a copy of the indexes after N events. Where commits may be lost, only `index-0` is made.
    """
    store = folder / "store"
    prepare(store)
    shutil.copytree(store / "index", folder / "index-0")
    made = Record({path.name: path.read_bytes() for path in store.glob("fourfold.db*")})
    disk = Recorder(made)
    checkpoint_often()
    apsw.connection_hooks.append(lambda db: hold(db, synchronous))
    with open_store(store) as memory:
        for step in steps(store):
            step.run(memory)
            if step.name == "publish" and synchronous == "full":
                shutil.copytree(store / "index", folder / f"index-{len(made.events)}")
            made.events.append(Event("mark", step.name))
    disk.unregister()
    return made


def hold(db: apsw.Connection, synchronous: str) -> None:
    """Fixes the pragma `synchronous` and ignores later changes; `full` is the engine's own setting."""
    if synchronous != "full":
        db.pragma("synchronous", synchronous)
        db.authorizer = lambda code, name, *_: (
            apsw.SQLITE_IGNORE if (code, name) == (apsw.SQLITE_PRAGMA, "synchronous") else apsw.SQLITE_OK
        )


def cut_off(folder: Path, made: Record, cuts: list[tuple[int, float, int]]) -> dict[str, int]:
    """Opens the store as each cut leaves it, with SQLite's own VFS, and counts the problems found."""
    counts: Counter[str] = Counter()
    for cut, keep, seed in cuts:
        restore(folder, made, cut, keep, seed)
        counts.update(troubles(folder / "cut", made.events[:cut]))
    return dict(counts)


def restore(folder: Path, made: Record, cut: int, keep: float, seed: int) -> None:
    target = folder / "cut"
    shutil.rmtree(target, ignore_errors=True)
    published = max(int(path.name[6:]) for path in folder.glob("index-*") if int(path.name[6:]) <= cut)
    shutil.copytree(folder / f"index-{published}", target / "index")
    for name, content in after_power_loss(made, cut, keep, random.Random(seed)).items():
        (target / name).write_bytes(content)


def troubles(store: Path, before: list[Event]) -> list[str]:
    """Labels for what is lost, partial or inconsistent, to be counted."""
    confirmed = sum(event.kind == "mark" for event in before)
    try:
        with open_store(store) as memory:
            seen = look(memory)
            unsound = ["unsound"] if memory.check() else []
            memory.add("after the power came back", wait=True)
    except (FourfoldError, apsw.Error, LookupError, AssertionError) as error:
        return [f"damaged ({type(error).__name__})", f"{confirmed} confirmed"]
    lost = [step for step in steps(store)[:confirmed] if step.verdict(seen) != "done"]
    half = [step for step in steps(store) if step.verdict(seen) == "half"]
    early = [step for step in steps(store)[confirmed + 1 :] if changes(step) and step.verdict(seen) == "done"]
    found = ["lost"] * bool(lost) + ["half"] * bool(half) + ["early"] * bool(early) + unsound
    return [*found, "in flight" if in_flight(before) else "between", f"{confirmed} confirmed"]


def changes(step: Step) -> bool:
    return step.name not in ("checkpoint", "publish")


def in_flight(before: list[Event]) -> bool:
    return before[-1].kind in ("write", "truncate")


def lose_power(folder: Path, synchronous: str, count: int) -> tuple[Record, dict[str, int]]:
    made: Record = trust_child.run(record, folder, synchronous)
    chance = random.Random(SEED)
    places = [chance.randrange(1, len(made.events) + 1) for _ in range(count)]
    cuts = [(cut, KEEP[number % len(KEEP)], SEED + number) for number, cut in enumerate(places)]
    counts = trust_child.run(cut_off, folder, made, cuts)
    confirmed = [counts.pop(f"{number} confirmed") for number in range(99) if f"{number} confirmed" in counts]
    kinds = Counter(f"{event.kind} {event.file[11:] or 'db'}" for event in made.events if event.kind != "mark")
    print(f"\n{synchronous}, seed {SEED}: {count} cuts of {len(made.events)} events {dict(kinds)}: {counts}")
    assert len(confirmed) > 8  # the cuts are spread over the whole work
    assert kinds["write db"] > 50
    return made, counts


@pytest.mark.spec("B6", "B9")
@pytest.mark.parametrize("moments", [200, pytest.param(2000, marks=pytest.mark.soak)])
def test_power_loss_at_any_moment_loses_nothing_that_was_confirmed(fast_folder: Path, moments: int) -> None:
    _, counts = lose_power(fast_folder, "full", moments)
    assert set(counts) == {"in flight", "between"}
    assert counts["in flight"] > 50


def test_the_simulated_power_loss_detects_a_store_that_does_not_sync(fast_folder: Path) -> None:
    _, counts = lose_power(fast_folder, "off", 60)
    assert sum(count for what, count in counts.items() if what.startswith(("lost", "damaged", "unsound"))) > 10


def test_without_a_sync_at_every_commit_confirmed_writes_are_lost_and_nothing_is_half_there(fast_folder: Path) -> None:
    """Where what was lost lies before what is left, the store says so when it is opened."""
    _, counts = lose_power(fast_folder, "normal", 60)
    assert counts["lost"] + counts["damaged (DamagedStore)"] > 5
    assert set(counts) <= {"lost", "damaged (DamagedStore)", "in flight", "between"}

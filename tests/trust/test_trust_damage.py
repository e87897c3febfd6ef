"""Damaged index files cause no crash and no wrong answer, and are rebuilt."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import shared_once
import trust_child
from trust_damage_work import (
    OPEN_DAMAGES,
    Case,
    Problems,
    cases,
    choose,
    damaged,
    damaged_while_open,
    make,
    overwritten_cases,
    overwritten_while_open,
    questions_of,
    rebuilt,
    serve,
)

SEED = 8_300
_BATCH = 30


def supervised(
    work: Callable[..., Problems], home: Path, log: Path, jobs: Sequence[tuple[Path, Case]]
) -> dict[str, Problems]:
    """Runs the jobs in a child, and in a new one after each crash; returns the problems of each job."""
    found: dict[str, Problems] = {}
    while len(found) < len(jobs):
        mine, theirs = trust_child.context().Pipe(duplex=False)
        child = trust_child.start(serve, theirs, log, work, home, jobs[len(found) :])
        theirs.close()
        name = "before the first"
        with suppress(EOFError):
            while True:
                name, problems = mine.recv()
                if problems is not None:
                    found[name] = problems
        child.join()
        if len(found) < len(jobs):
            found[name] = [f"the child died with {child.exitcode}"]
    return found


def batches(jobs: Sequence[Case]) -> Iterator[Sequence[Case]]:
    for start in range(0, len(jobs), _BATCH):
        yield jobs[start : start + _BATCH]


def _stores(folder: Path) -> None:
    """Makes a store with its indexes, questions and answers, and beside it a second store with other contents."""
    trust_child.run(make, folder / "home", SEED)
    trust_child.run(choose, folder / "home", SEED)
    trust_child.run(make, folder / "stranger", SEED + 1)


@pytest.fixture
def home() -> Path:
    found = shared_once.made("damage", _stores) / "home"
    questions, answers = questions_of(found)
    assert len(questions) == 12
    assert sum(map(len, answers)) > 50
    return found


def problems_of(home: Path, folder: Path, jobs: Sequence[Case], *works: Callable[..., Problems]) -> dict[str, Problems]:
    """Applies each of `works` to every case; returns the problems of the cases that have any."""
    log = folder / "listed.txt"
    found: dict[str, Problems] = {}
    for batch in batches(jobs):
        places = [(folder / f"work{number}", case) for number, case in enumerate(batch)]
        for work in works:
            for name, problems in supervised(work, home, log, places).items():
                found.setdefault(name, []).extend(problems)
        for place, _ in places:
            shutil.rmtree(place, ignore_errors=True)
    return {name: problems for name, problems in found.items() if problems}


def listed(wrong: dict[str, Problems]) -> str:
    return "\n".join(f"{name}: {problems[:3]}" for name, problems in wrong.items())


def soak_counts(some: int, many: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [some, pytest.param(many, marks=pytest.mark.soak)])


@pytest.mark.spec("B6", "B9")
@soak_counts(40, 600)
def test_a_damaged_index_causes_no_crash_and_no_wrong_answer_and_is_rebuilt(home, fast_folder, count):
    chosen = cases(home, SEED, count)
    wrong = problems_of(home, fast_folder, chosen, damaged, rebuilt)
    kinds, places = len({case.damage for case in chosen}), len({case.path for case in chosen})
    print(f"{count} damages (seed {SEED}) of {kinds} kinds at {places} places: {len(wrong)} with problems")
    assert not wrong, listed(wrong)


def while_open(damage: str, count: int) -> list[Case]:
    states = [("behind", "level")[number % 2] for number in range(count)]
    return [Case(f"{number} {damage} while open", state, damage, "", number) for number, state in enumerate(states)]


@pytest.mark.spec("B6", "B9")
@soak_counts(2, 12)
def test_an_open_store_works_while_its_index_files_are_replaced_or_removed(home, fast_folder, count):
    jobs = [case for damage in OPEN_DAMAGES for case in while_open(damage, count)]
    wrong = problems_of(home, fast_folder, jobs, damaged_while_open, rebuilt)
    assert not wrong, listed(wrong)


@pytest.mark.spec("B6", "B9")
@soak_counts(1, 3)
def test_index_files_overwritten_in_place_while_open_cause_no_crash_and_are_rebuilt(home, fast_folder, count):
    """Fourfold itself never overwrites published bytes. (Truncating a mapped file raises SIGBUS in any program.)"""
    jobs = overwritten_cases(home, SEED, count)[:: 3 if count == 1 else 1]
    wrong = problems_of(home, fast_folder, jobs, overwritten_while_open, rebuilt)
    print(f"{len(jobs)} files overwritten in place (seed {SEED}): {len(wrong)} with problems")
    assert not wrong, listed(wrong)

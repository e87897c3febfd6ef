"""Resource use does not grow with the number of calls, and cancelled or interrupted calls leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import pytest
import trust_child
from trust_resources_work import Cancelled, Usage, cancelled, closed_during_calls, interrupted, many_calls, neighbour

SEED = 5_000
MEGABYTE = 1024 * 1024

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def grown(found: Sequence[Usage], what: Callable[[Usage], float]) -> float:
    """The growth from the median of the first four windows to that of the last four."""
    return median(what(each) for each in found[-4:]) - median(what(each) for each in found[:4])


def run_calls(folder: Path, warm: int, calls: int) -> None:
    found: list[Usage] = trust_child.run(many_calls, folder / "store", warm, calls, 8, SEED)
    heap, resident = (grown(found, what) / MEGABYTE for what in (lambda each: each.heap, lambda each: each.resident))
    blocks = grown(found, lambda each: each.blocks)
    publications = found[-1].published - found[0].published
    print(
        f"{calls} calls behind {warm} (seed {SEED}) with {publications} publications: heap {heap:+.2f} MB, resident "
        f"{resident:+.2f} of {found[0].resident / MEGABYTE:.0f} MB, {blocks:+.0f} of {found[0].blocks} blocks, "
        f"descriptors {found[0].descriptors}-{found[-1].descriptors}, threads {found[0].threads}-{found[-1].threads}, "
        f"index {found[0].index // 1024}-{found[-1].index // 1024} KB"
    )
    assert publications >= calls / 500
    assert heap < 3 + calls / 100_000  # a leak of 1 KB per call would be 24 MB in 49,000 calls
    assert resident < 4 + calls / 100_000
    assert blocks < 1200 + calls / 50  # one block per call would be 30,600 in 49,000 calls; all caches are full before
    few = 6  # a publication has more for a moment; one per publication would be 10 in 1,000 calls
    assert median(each.descriptors for each in found[-4:]) <= max(each.descriptors for each in found[:4]) + few
    assert max(each.own for each in found) <= max(each.own for each in found[:4])
    assert grown(found, lambda each: each.threads) <= 4
    assert max(each.generations for each in found) <= 3
    assert max(each.index for each in found[-4:]) <= 2.5 * max(each.index for each in found[:4])  # rewriting halves it


@pytest.mark.spec("B7")
def test_memory_descriptors_threads_and_index_files_do_not_grow_with_calls(fast_folder: Path) -> None:
    run_calls(fast_folder, 500, 1000)


@pytest.mark.soak
@pytest.mark.spec("B7")
def test_nothing_grows_over_50_000_calls(fast_folder: Path) -> None:
    run_calls(fast_folder, 1000, 49_000)


def run_cancels(work: Callable[..., Cancelled], folder: Path, count: int) -> None:
    mine, theirs = trust_child.context().Pipe()
    other = trust_child.start(neighbour, theirs, folder / "store")
    theirs.close()
    found: Cancelled = trust_child.run(work, mine, folder / "store", count, SEED)
    mine.close()
    other.join()
    cuts = sum(cut for _, cut in found.counts.values())
    print(
        f"{count} calls (seed {SEED}), {cuts} cut short {found.counts}; "
        f"threads {min(found.threads)}-{max(found.threads)}, "
        f"descriptors {min(found.descriptors)}-{max(found.descriptors)}"
    )
    assert not found.problems, "\n".join(found.problems[:20])
    assert other.exitcode == 0
    assert cuts >= 0.4 * count
    half = count // 2
    assert max(found.threads[half:]) <= max(found.threads[:half]) + 2
    assert median(found.descriptors[half:]) <= max(found.descriptors[:half]) + 8  # a publication has more for a moment


@pytest.mark.spec("S1.8", "B6", "B7")
@pytest.mark.parametrize("work", [cancelled, interrupted])
def test_a_call_cut_short_leaves_no_transaction_no_partial_write_and_no_lock(
    fast_folder: Path, work: Callable[..., Cancelled]
) -> None:
    run_cancels(work, fast_folder, 130)


@pytest.mark.soak
@pytest.mark.spec("S1.8", "B6", "B7")
@pytest.mark.parametrize("work", [cancelled, interrupted])
def test_1300_calls_cut_short_leave_nothing_behind(fast_folder: Path, work: Callable[..., Cancelled]) -> None:
    run_cancels(work, fast_folder, 1300)


@pytest.mark.spec("S1.8", "S2.6")
@pytest.mark.parametrize("rounds", [10, pytest.param(60, marks=pytest.mark.soak)])
def test_closing_during_calls_ends_each_with_its_answer_or_a_typed_error(fast_folder: Path, rounds: int) -> None:
    ends, problems = trust_child.run(closed_during_calls, fast_folder / "store", rounds, SEED)
    print(f"{rounds} closings during {20 * rounds} calls (seed {SEED}): {ends}")
    assert not problems, "\n".join(problems[:20])
    assert ends["done"] > 20
    assert sum(ends.values()) == 20 * rounds
    assert len(ends) > 1

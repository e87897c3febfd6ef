"""The nearest rows, found here or in the thread of the kernel, are those that cosines and their order give."""

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from concurrently import begin, every_interruption
from hypothesis import given
from hypothesis import strategies as st

from fourfold.index.vector_index import Vectors, sums
from fourfold.native import bindings
from fourfold.native.bindings import Nearest, Scorer, encoded

LONG = 40_000
"""Rows whose search takes long enough to be interrupted."""


def part(seed: int, rows: int, dimension: int, first_id: int = 0) -> Vectors:
    """Some vectors are equal; ids are in no order."""
    random = np.random.default_rng(seed)
    matrix = random.integers(-3, 4, (rows, dimension)).astype(np.float32)
    ids = first_id + random.permutation(rows)
    return Vectors(ids, np.zeros(rows, np.bool_), matrix, sums(matrix) if rows else None)


def search(
    published: Vectors, tail: Vectors, query: np.ndarray, limit: int, *, coded: bool, rows: Any = None
) -> Nearest:
    scorer = Scorer.by_vector((published.part, tail.part), query)
    codes = encoded(published.matrix) if coded else None
    wanted = np.arange(len(published)) if rows is None and not coded else rows
    return Nearest(scorer, codes, wanted, np.arange(len(tail)), limit)


same_part = cache(part)


def long_search(seed: int) -> Nearest:
    return search(same_part(seed, LONG, 64), Vectors.empty(64), np.ones(64, np.float32), 20, coded=False)


def values(job: Nearest) -> tuple[list[int], list[float]]:
    ids, scores = job.result()
    return ids.tolist(), scores.tolist()


@given(
    st.integers(0, 2**32),
    st.integers(0, 200),
    st.integers(0, 20),
    st.integers(1, 70),
    st.integers(1, 60),
    st.sampled_from(["all", "some", "some without codes"]),
    st.booleans(),
)
def test_the_result_is_that_of_cosines_and_order(seed, rows, tail_rows, dimension, limit, kind, started):
    published, tail = part(seed, rows, dimension), part(seed + 1, tail_rows, dimension, 1000)
    random = np.random.default_rng(seed)
    query = random.standard_normal(dimension).astype(np.float32)
    wanted = np.arange(rows) if kind == "all" else random.permutation(rows)[: rows // 2]
    ids = np.concatenate([published.ids[wanted], tail.ids])
    scores = np.concatenate(
        [
            bindings.cosines(published.columns, wanted, query),
            bindings.cosines(tail.columns, np.arange(tail_rows), query),
        ]
    )
    best = bindings.order(ids, scores)[:limit]
    coded = rows > 0 and kind != "some without codes"
    job = search(published, tail, query, limit, coded=coded, rows=None if kind == "all" else wanted)
    if started:
        job.start()
    assert values(job) == (ids[best].tolist(), scores[best].tolist())
    assert values(job) == (ids[best].tolist(), scores[best].tolist())


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("coded", [False, True])
def test_a_row_with_a_wrong_checksum_raises(started: bool, coded: bool) -> None:
    published = part(1, 50, 8)
    job = search(published, Vectors.empty(8), published.matrix[7], 50, coded=coded)
    published.matrix[7, 3] += 1
    if started:
        job.start()
    with pytest.raises(bindings.OutOfRange):
        job.result()


def test_two_started_at_once_have_their_own_results() -> None:
    expected = [values(long_search(seed)) for seed in range(4)]
    jobs = [long_search(seed) for seed in range(4)]
    for job in jobs:
        job.start()
    assert [values(job) for job in reversed(jobs)] == expected[::-1]


def test_threads_share_the_thread_of_the_kernel() -> None:
    expected = [values(long_search(seed)) for seed in range(4)]

    def searching(seed: int) -> bool:
        found = []
        for _ in range(10):
            job = long_search(seed)
            job.start()
            found.append(values(job))
        return found == [expected[seed]] * 10

    assert all(task.result(60) for task in [begin(lambda seed=seed: searching(seed)) for seed in range(4)])


# ---------------------------------------------------------------- jobs that nobody waits for


def test_the_arrays_of_an_abandoned_search_live_until_it_is_over() -> None:
    for _ in range(5):
        published = part(0, LONG, 64)
        job = search(published, Vectors.empty(64), np.ones(64, np.float32), 20, coded=False)
        columns = [ref(published.matrix), ref(published.ids)]
        job.start()
        del published, job
        assert all(column() is not None for column in columns)
        until = time.monotonic() + 10
        while any(column() is not None for column in columns):
            assert time.monotonic() < until
            started(long_search(1)).result()


def started(job: Nearest) -> Nearest:
    job.start()
    return job


def test_an_interrupted_search_leaves_the_thread_usable() -> None:
    expected = values(long_search(1))
    steps = 0
    for _ in every_interruption(lambda: started(long_search(2)).result()):
        steps += 1
        assert values(started(long_search(1))) == expected
    assert steps > 10


# ---------------------------------------------------------------- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("spent_rows", [0, 500, 5000, LONG])
def test_a_forked_child_does_not_wait_for_the_thread(spent_rows: int) -> None:
    expected = values(long_search(1))
    small = search(part(2, max(spent_rows, 1), 64), Vectors.empty(64), np.ones(64, np.float32), 3, coded=False)
    running, offered = long_search(1), long_search(1)
    running.start()
    offered.start()
    small.result()  # time passes, so that the thread is somewhere else
    child = os.fork()
    if not child:
        signal.alarm(20)  # ends the child if it waits for ever
        found = [values(job) for job in (running, offered, started(long_search(1)))]
        os._exit(0 if found == [expected] * 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [values(job) for job in (running, offered)] == [expected] * 2


@pytest.mark.parametrize(
    "ending",
    [
        "for seed in range(2): started(long_search(seed))",
        "expected = values(long_search(1)); LIBRARY.ff_end(); assert values(started(long_search(1))) == expected",
    ],
    ids=["while the thread works", "and later searches are done by their callers"],
)
def test_the_process_ends(ending: str) -> None:
    places = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "support")]
    code = f"import sys; sys.path[:0] = {places}\n"
    code += f"from test_native_nearest import *; from fourfold.native.bindings import LIBRARY\n{ending}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

"""The C kernel against numpy and plain Python on random input, with damaged columns, and stamps of files."""

import ctypes
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import saturation

from fourfold.native import bindings
from fourfold.native.bindings import Stamps
from fourfold.text import bm25

CONSTANTS = (bm25.K1, bm25.B, float(bm25.BASE_LENGTH))
IDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=80)
FEW_IDS = st.lists(st.integers(0, 12), max_size=80)
SCORES = st.floats(-1e9, 1e9).map(lambda score: score + 0.0)


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


# ---------------------------------------------------------------- words


def by_hand(text: list[int], words: list[list[tuple[int, float]]], idfs: list[float], weight: float, average: float):
    score = covered = 0.0
    for variants, idf in zip(words, idfs, strict=True):
        best = max(worth * saturation(text.count(hashed), len(text), average) for hashed, worth in variants)
        score += best
        covered += idf if best > 0 else 0.0
    return score, covered / weight


WORD = st.lists(st.tuples(st.integers(0, 9), st.floats(0.1, 9)), min_size=1, max_size=4)


@given(
    texts=st.lists(st.lists(st.integers(0, 12), max_size=30), min_size=1, max_size=12),
    words=st.lists(WORD, min_size=1, max_size=6),
    picked=st.lists(st.integers(0, 11), max_size=20),
)
def test_bm25_matches_the_formula(texts, words, picked):
    rows = [row for row in picked if row < len(texts)]
    idfs = [0.5 + place for place in range(len(words))]
    average = sum(map(len, texts)) / len(texts)
    scores, coverage = bindings.bm25(columns(texts), ints(rows), sought(words, idfs), 7.0, average, CONSTANTS)
    expected = [number for row in rows for number in by_hand(texts[row], words, idfs, 7.0, average)]
    assert np.array([scores, coverage]).T.ravel().tolist() == expected  # to the last bit, as ties need it


def columns(texts: list[list[int]]) -> bindings.TextColumns:
    terms = np.array([term for text in texts for term in text], np.uint32)
    return bindings.TextColumns(terms, np.cumsum([len(text) for text in texts]))


def sought(words, idfs):
    hashes = [hashed for variants in words for hashed, _ in variants]
    return bindings.QueryColumns(
        np.array(hashes, np.uint32),
        np.array([worth for variants in words for _, worth in variants]),
        np.array([hashes.index(hashed) for hashed in hashes], np.int32),
        np.array([0, *np.cumsum([len(variants) for variants in words])], np.int32),
        np.array(idfs),
    )


@pytest.mark.parametrize("row", [-1, 2, 2**62])
def test_a_row_number_out_of_range_raises(row):
    with pytest.raises(bindings.OutOfRange):
        bindings.bm25(columns([[1], [2]]), ints([0, row]), sought([[(1, 1.0)]], [1.0]), 1.0, 1.0, CONSTANTS)
    with pytest.raises(bindings.OutOfRange):
        bindings.cosines(
            bindings.VectorColumns(np.eye(2, dtype=np.float32), None), ints([0, row]), np.ones(2, np.float32)
        )


@pytest.mark.parametrize("ends", [[1, 2**40], [-5, 2], [2, 1], [2**63 - 1, 2]])
def test_row_ends_outside_the_terms_raise(ends):
    terms = np.array([1, 2], np.uint32)
    with pytest.raises(bindings.OutOfRange):
        bindings.bm25(
            bindings.TextColumns(terms, ints(ends)), ints([0, 1]), sought([[(1, 1.0)]], [1.0]), 1.0, 1.0, CONSTANTS
        )


# ---------------------------------------------------------------- vectors


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 30))
def test_cosines_are_products_in_double_precision(seed, dimension, count):
    rng = np.random.default_rng(seed)
    matrix, query = rng.random((9, dimension), np.float32), rng.random(dimension, np.float32)
    rows = rng.integers(0, 9, count)
    expected = matrix[rows].astype(np.float64) @ query.astype(np.float64)
    assert bindings.cosines(bindings.VectorColumns(matrix, None), rows, query).tolist() == pytest.approx(
        expected.tolist(), abs=1e-6
    )


def test_equal_rows_have_equal_cosines():
    rng = np.random.default_rng(1)
    row, query = rng.random(100, np.float32), rng.random(100, np.float32)
    found = bindings.cosines(bindings.VectorColumns(np.array([row] * 50), None), np.arange(50), query)
    assert len(set(found.tolist())) == 1


def test_a_row_with_changed_bits_raises():
    matrix = np.ones((3, 8), np.float32)
    sums = matrix.view(np.uint32).sum(axis=1, dtype=np.uint32)
    assert bindings.cosines(bindings.VectorColumns(matrix, sums), ints([0, 1, 2]), matrix[0]).tolist() == [
        8.0,
        8.0,
        8.0,
    ]
    matrix.view(np.uint32)[1, 5] ^= 1
    assert bindings.cosines(bindings.VectorColumns(matrix, sums), ints([0, 2]), matrix[0]).tolist() == [8.0, 8.0]
    with pytest.raises(bindings.OutOfRange):
        bindings.cosines(bindings.VectorColumns(matrix, sums), ints([0, 1]), matrix[0])


# ---------------------------------------------------------------- rankings


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), SCORES), max_size=100))
def test_order_is_best_first_and_ties_by_id(hits):
    ids, scores = ints([id for id, _ in hits]), np.array([score for _, score in hits])
    expected = sorted(range(len(hits)), key=lambda place: (-hits[place][1], hits[place][0], place))
    assert bindings.order(ids, scores).tolist() == expected


@given(FEW_IDS | IDS)
def test_sums_keep_the_order_of_first_occurrence(ids):
    values = np.arange(1.0, len(ids) + 1)
    expected: dict[int, float] = {}
    for id, value in zip(ids, values.tolist(), strict=True):
        expected[id] = expected.get(id, 0.0) + value
    found, totals = bindings.sums(ints(ids), values)
    assert dict(zip(found.tolist(), totals.tolist(), strict=True)) == expected
    assert found.tolist() == [*expected]


@given(FEW_IDS, FEW_IDS)
def test_places_are_first_occurrences(ids, wanted):
    expected = [ids.index(id) if id in ids else -1 for id in wanted]
    assert bindings.places(ints(ids), ints(wanted)).tolist() == expected


@given(st.lists(st.tuples(st.integers(1, 15), st.booleans()), max_size=40), FEW_IDS, st.sampled_from([0, 1, 1000]))
def test_find_returns_the_last_row_of_an_item_unless_it_is_dead(rows, wanted, apart):
    items, dead = ints([item * (1 + apart) for item, _ in rows]), np.array([gone for _, gone in rows], np.bool_)
    order = np.argsort(items, kind="stable")
    last = {item: row for row, item in enumerate(items.tolist())}
    sought = [item * (1 + apart) for item in wanted]
    expected = [last[item] for item in sought if item in last and not dead[last[item]]]
    assert bindings.find(bindings.RowColumns(items[order], order, dead), ints(sought)).tolist() == expected


@given(st.lists(st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]), max_size=8, unique=True))
def test_find_handles_the_smallest_and_largest_ids(ids):
    rows = np.array(sorted(ids), np.int64)
    wanted = ints([*ids, -(2**63), 2**63 - 1])
    expected = [rows.tolist().index(id) for id in wanted.tolist() if id in ids]
    assert (
        bindings.find(bindings.RowColumns(rows, np.arange(len(rows)), np.zeros(len(rows), np.bool_)), wanted).tolist()
        == expected
    )


def test_find_raises_if_the_order_points_outside_the_rows():
    with pytest.raises(bindings.OutOfRange):
        bindings.find(bindings.RowColumns(ints([5]), ints([2**40]), np.zeros(1, np.bool_)), ints([5]))


@pytest.mark.parametrize("ids", [np.arange(10)[::2], np.arange(10, dtype=np.int32), np.arange(10.0)])
def test_an_array_of_another_type_or_not_contiguous_is_rejected(ids):
    with pytest.raises(ctypes.ArgumentError, match="contiguous"):
        bindings.places(ids, ints([1]))


def test_a_query_of_another_length_is_rejected():
    with pytest.raises(ValueError, match="the rows have 8 numbers"):
        bindings.cosines(bindings.VectorColumns(np.ones((2, 8), np.float32), None), ints([0]), np.ones(7, np.float32))


def test_empty_input_gives_empty_output():
    none, nothing = ints([]), np.empty(0)
    assert bindings.order(none, nothing).tolist() == []
    assert [column.tolist() for column in bindings.sums(none, nothing)] == [[], []]
    assert bindings.places(none, ints([1])).tolist() == [-1]
    assert math.isclose(
        bindings.cosines(bindings.VectorColumns(np.ones((1, 1), np.float32), None), ints([0]), np.ones(1, np.float32))[
            0
        ],
        1.0,
    )


@pytest.mark.parametrize("number", [0, 3, -1, 99])
def test_a_kernel_whose_structures_have_other_sizes_is_refused(number):
    with pytest.raises(ImportError, match="older than its code"):
        bindings.as_in_kernel(number)(type("Other", (ctypes.Structure,), {"_fields_": [("one", ctypes.c_int64)]}))


def test_a_kernel_without_a_function_is_refused():
    with pytest.raises(ImportError, match="older than its code"):
        bindings.function(bindings.LIBRARY, "of_tomorrow", None)


# ---------------------------------------------------------------- stamps: whether paths still lead to the same files


def stamps(*paths: Path, timed: bool) -> Stamps:
    found = [path.stat() for path in paths]
    files = [(file.st_dev, file.st_ino, file.st_mtime_ns)[: 3 if timed else 2] for file in found]
    return Stamps([os.fsdecode(path) for path in paths], files)


def two_files(folder: Path) -> tuple[Path, Path]:
    first, second = folder / "first", folder / os.fsdecode("zweite Dätei \udcff".encode("utf-8", "surrogateescape"))
    for path in (first, second):
        path.write_bytes(b"one")
        os.utime(path, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    return first, second


@pytest.mark.skipif(sys.platform == "win32", reason="files have no inodes there")
@pytest.mark.parametrize("timed", [True, False])
def test_unchanged_files_hold(tmp_path: Path, timed: bool) -> None:
    assert stamps(*two_files(tmp_path), timed=timed).hold()
    assert Stamps((), ()).hold()


@pytest.mark.skipif(sys.platform == "win32", reason="files have no inodes there")
def test_a_file_that_was_written_to_does_not_hold_if_times_count(tmp_path: Path) -> None:
    first, second = two_files(tmp_path)
    timed, untimed = stamps(first, second, timed=True), stamps(first, second, timed=False)
    os.utime(second, ns=(0, 1_700_000_000_123_456_790))
    assert (timed.hold(), untimed.hold()) == (False, True)


@pytest.mark.skipif(sys.platform == "win32", reason="files have no inodes there")
@pytest.mark.parametrize("timed", [True, False])
def test_a_replaced_or_deleted_file_does_not_hold(tmp_path: Path, timed: bool) -> None:
    first, second = two_files(tmp_path)
    known, other = stamps(first, second, timed=timed), tmp_path / "other"
    moved = second.rename(tmp_path / "moved")
    assert not known.hold()
    other.write_bytes(b"one")
    os.utime(other, ns=(0, 1_700_000_000_123_456_789))
    other.rename(second)
    assert not known.hold()
    moved.replace(second)
    assert known.hold()


@pytest.mark.skipif(sys.platform == "win32", reason="files have no inodes there")
def test_times_before_1970_are_compared(tmp_path: Path) -> None:
    first, _ = two_files(tmp_path)
    os.utime(first, ns=(-1, -1_500_000_001))
    known = stamps(first, timed=True)
    assert known.hold()
    os.utime(first, ns=(-1, -1_500_000_002))
    assert not known.hold()


@pytest.mark.skipif(sys.platform == "win32", reason="files have no inodes there")
def test_a_path_below_a_file_does_not_hold(tmp_path: Path) -> None:
    first, _ = two_files(tmp_path)
    assert not Stamps([str(first / "below")], [(1, 2)]).hold()

"""Damaged columns and odd numbers: the kernel raises an error or returns something, and never reads outside of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fourfold.hits import Hits
from fourfold.native import bindings
from fourfold.native.bindings import Block, Nearest, Postings, RowsPart, Scorer, encoded, rows_part, with_postings
from fourfold.native.rankings import SCALES, Bounds, FusionList, LinkColumns, Lists, StartRules, TailedColumns, expand

ODD_INTS = np.array([0, -1, 1, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63), 2**63 - 1], np.int64)
ODD_FLOATS = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 1e-320]
CASES = 2000


class Damaged:
    """Random columns; about half of them have places that point nowhere."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.held: list[object] = []
        """Arrays whose addresses the kernel is given."""

    def one_in(self, count: int) -> bool:
        return bool(self.random.integers(count) == 0)

    def size(self, below: int) -> int:
        return int(self.random.integers(below))

    def ints(self, count: int, below: int) -> Any:
        made = self.random.integers(0, max(below, 1), count)
        if self.one_in(2):
            odd = self.random.random(count) < 0.1
            made[odd] = self.random.choice(ODD_INTS, np.count_nonzero(odd))
        return made

    def floats(self, count: int) -> Any:
        made = self.random.normal(size=count)
        odd = self.random.random(count) < 0.1
        made[odd] = self.random.choice(ODD_FLOATS, np.count_nonzero(odd))
        return made

    def lists(self, count: int, places: int) -> Lists:
        length = self.size(20)
        ends, members = (
            np.sort(self.random.integers(0, length + 1, count)),
            self.random.integers(0, max(places, 1), length),
        )
        if self.one_in(9):
            ends, members = self.ints(count, length + 1), self.ints(length, places)
        return Lists(ends, members.astype(np.int32))

    def part(self, content: bindings.TextColumns | bindings.VectorColumns, rows: int) -> RowsPart:
        ids = self.ints(rows, 30)
        places = bindings.RowColumns(np.sort(ids), self.ints(rows, rows), self.random.random(rows) < 0.2)
        self.held += [ids, places, content]
        return rows_part(places, ids, content)

    def hits(self) -> FusionList:
        count, scale = self.size(15), self.random.choice(list(SCALES))
        return FusionList(Hits(self.ints(count, 30), self.floats(count)), None, scale, float(self.floats(1)[0]))


def links(damaged: Damaged, before: tuple[int, int, int] = (0, 0, 0)) -> LinkColumns:
    """Columns, or those of a tail after columns with these numbers of items, nodes and tags."""
    items, nodes, tags = damaged.size(12), damaged.size(12), damaged.size(12)
    all_items, all_nodes, all_tags = items + before[0], nodes + before[1], tags + before[2]
    neighbours = damaged.lists(nodes, all_nodes)
    return LinkColumns(
        np.sort(damaged.ints(items, 30)),
        np.sort(damaged.ints(nodes, 30)),
        *(damaged.ints(nodes, 9).astype(np.int32) for _ in range(3)),
        own=damaged.lists(items, all_nodes),
        said=damaged.lists(items, all_nodes),
        tags=damaged.lists(items, all_tags),
        owners=damaged.lists(nodes, all_items),
        speakers=damaged.lists(nodes, all_items),
        neighbours=neighbours,
        weights=damaged.floats(len(neighbours.members)),
        users=damaged.lists(tags, all_items),
        bounds=Bounds(100, 500, 200),
        before=before,
        tag_uses=damaged.ints(tags, 9).astype(np.int32),
        ranks=damaged.floats(tags) if any(before) else None,
    )


def tailed(damaged: Damaged, published: LinkColumns) -> TailedColumns | LinkColumns:
    """With a tail, in which some nodes and tags have new numbers."""
    before = len(published.items), len(published.nodes), len(published.users.ends)
    if not all(before) or damaged.one_in(2):
        return published
    tail = links(damaged, before)
    counts = (before[1], len(tail.nodes)), (before[2], len(tail.users.ends))
    moved = [(damaged.ints(count, count + more + 1) - 1).astype(np.int32) for count, more in counts]
    try:
        return TailedColumns(published, tail, *moved)
    except ValueError:  # columns that do not fit are not given to the kernel
        return published


def expansion(damaged: Damaged) -> None:
    columns = tailed(damaged, links(damaged))
    named = dict(zip(damaged.ints(5, 30).tolist(), damaged.floats(5).tolist(), strict=True))
    expand(
        columns,
        (damaged.hits(), damaged.hits()),
        (float(damaged.floats(1)[0]), 0.05, 1.0),
        named,
        StartRules(10, 0.35, 0.05),
        None if damaged.one_in(5) else (1.0, 0.5, 0.8),
        [damaged.ints(4, 30)],
        None if damaged.one_in(2) else np.sort(damaged.ints(8, 30)),
        1 + damaged.size(40),
        (by_vector(damaged), by_words(damaged)),
        shares=not damaged.one_in(5),
    )


def by_vector(damaged: Damaged) -> Scorer | None:
    if damaged.one_in(3):
        return None
    dimension = 1 + damaged.size(40)
    parts = [damaged.part(vectors_of(damaged, rows, dimension), rows) for rows in (damaged.size(20), damaged.size(3))]
    return Scorer.by_vector((parts[0], parts[1]), damaged.random.normal(size=dimension).astype(np.float32))


def by_words(damaged: Damaged) -> Scorer | None:
    if damaged.one_in(3):
        return None
    parts = [damaged.part(texts_of(damaged, rows), rows) for rows in (damaged.size(20), damaged.size(3))]
    if parts[0].row_count and damaged.one_in(2):
        rows = parts[0].row_count
        with_postings(parts[0], postings_of(damaged, rows), damaged.ints(rows, 9).astype(np.int32))
    return Scorer.by_words((parts[0], parts[1]), asked_words(damaged), 1.0, 5.0, (1.2, 0.75, 50.0))


def texts_of(damaged: Damaged, rows: int) -> bindings.TextColumns:
    count = damaged.size(40)
    terms = damaged.random.integers(0, 9, count).astype(np.uint32)
    ends = damaged.ints(rows, count + 1) if damaged.one_in(2) else np.sort(damaged.random.integers(0, count + 1, rows))
    return bindings.TextColumns(terms, ends)


def postings_of(damaged: Damaged, rows: int) -> Postings:
    """Blocks whose bounds, hashes and rows may be anything."""
    blocks: list[Block] = []
    for _ in range(1 + damaged.size(2)):
        terms, postings = damaged.size(6), damaged.size(20)
        first, end = (0, rows) if damaged.one_in(2) else damaged.ints(2, rows + 1).tolist()
        hashes = damaged.random.integers(0, 6, terms).astype(np.uint32)
        ends, numbers = damaged.ints(terms, postings + 1), damaged.ints(postings, rows)
        columns = (hashes, ends, numbers) if damaged.one_in(3) else map(np.sort, (hashes, ends, numbers))
        counts = damaged.random.choice([0, 1, 2, 255], postings).astype(np.uint8)
        blocks.append(Block(first, end, *(column.astype(np.uint32) for column in columns), counts))
    found = Postings(blocks)
    damaged.held.append(found)
    return found


def vectors_of(damaged: Damaged, rows: int, dimension: int) -> bindings.VectorColumns:
    sums = None if damaged.one_in(2) else damaged.random.integers(0, 9, rows).astype(np.uint32)
    return bindings.VectorColumns(damaged.random.normal(size=(rows, dimension)).astype(np.float32), sums)


def asked_words(damaged: Damaged) -> bindings.QueryColumns:
    variants = 1 + damaged.size(3)
    places = np.arange(variants + 1, dtype=np.int32)
    return bindings.QueryColumns(
        places[:-1].astype(np.uint32), damaged.floats(variants), places[:-1].copy(), places, damaged.floats(variants)
    )


def best_rows(damaged: Damaged) -> None:
    for scorer in (by_vector(damaged), by_words(damaged)):
        if scorer is not None:
            published, tail = damaged.ints(damaged.size(9), 20), damaged.ints(damaged.size(3), 3)
            scorer.best(published, tail, 1 + damaged.size(12))


def best_words(damaged: Damaged) -> None:
    rows, more = 1 + damaged.size(20), damaged.size(3)
    parts = damaged.part(texts_of(damaged, rows), rows), damaged.part(texts_of(damaged, more), more)
    found = postings_of(damaged, rows)
    with_postings(parts[0], found, damaged.ints(rows, 9).astype(np.int32))
    scorer = Scorer.by_words(parts, asked_words(damaged), 1.0, 5.0, (1.2, 0.75, 50.0))
    passing = None if damaged.one_in(2) else damaged.random.random(rows) < 0.5
    found.frequencies([0, 1, 5])
    scorer.best_words(passing, damaged.ints(damaged.size(3), 3), 1 + damaged.size(12))


def words(damaged: Damaged) -> None:
    rows = damaged.size(12)
    texts, asked = texts_of(damaged, rows), asked_words(damaged)
    bindings.bm25(texts, damaged.ints(6, rows), asked, 1.0, 5.0, (1.2, 0.75, 50.0))


def vectors(damaged: Damaged) -> None:
    rows, dimension = 1 + damaged.size(20), 1 + damaged.size(140)
    matrix = damaged.random.normal(size=(rows, dimension)).astype(np.float32)
    if damaged.one_in(3):
        matrix[damaged.size(rows), damaged.size(dimension)] = damaged.random.choice([np.nan, np.inf, 1e38, 1e-40])
    query = damaged.random.normal(size=dimension).astype(np.float32)
    sums = None if damaged.one_in(2) else damaged.random.integers(0, 9, rows).astype(np.uint32)
    asked = None if damaged.one_in(2) else damaged.ints(6, rows)
    columns = bindings.VectorColumns(matrix, sums)
    scorer = Scorer.by_vector((damaged.part(columns, rows), RowsPart()), query)
    search = Nearest(scorer, encoded(matrix), asked, damaged.ints(damaged.size(2), 1), 1 + damaged.size(30))
    if damaged.one_in(2):
        search.start()
    search.result()
    bindings.cosines(columns, damaged.ints(6, rows), query)


def rows(damaged: Damaged) -> None:
    count = damaged.size(20)
    columns = bindings.RowColumns(
        damaged.ints(count, 9), damaged.ints(count, count), damaged.random.random(count) < 0.2
    )
    bindings.find(columns, damaged.ints(5, 9))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("call", [expansion, best_rows, best_words, words, vectors, rows])
def test_damaged_columns_raise_or_give_a_result(call: Callable[[Damaged], None]) -> None:
    outcomes = {"raised": 0, "answered": 0}
    for seed in range(CASES):
        try:
            call(Damaged(seed))
            outcomes["answered"] += 1
        except bindings.OutOfRange:
            outcomes["raised"] += 1
    assert min(outcomes.values()) > CASES / 50, outcomes

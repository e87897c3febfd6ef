"""Postings of terms in a few large rows, from which a plain server proposes the best rows of a keyword search.

The texts of a namespace are numbered by the change that wrote them. A *part* holds the terms of all texts from one
change to another and never changes; texts that are newer than the last part are its tail, which the index on `texts`
finds. A text that was replaced or removed is still in its old part: parts only propose candidates, which are
scored from the present rows. New parts absorb smaller ones, so that there are few.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from psycopg.errors import UniqueViolation

from fourfold.errors import StoreBusy
from fourfold.index.rows import term_hash
from fourfold.storage.postgres.connection import Connection, Packed, Statement, array, packed
from fourfold.storage.postgres.database import LONG_SECONDS, Database, Tuning
from fourfold.text import bm25
from fourfold.text.keyword_query import KeywordQuery, Word

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.index.rows import Floats, Ints
    from fourfold.index.rows import Terms as Numbers
    from fourfold.storage.postgres.namespaces import Namespace

    Bytes = NDArray[np.uint8]
    Pairs = NDArray[np.uint64]

LARGEST_PART_TEXTS = 200_000
"""Bounds the memory that building a part takes."""
_ROWS = -1
"""The term of the row that lists the items of a part."""


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class Part:
    """The items of a part and how many terms each has."""

    ids: Ints
    lengths: Numbers

    @staticmethod
    def read(content: bytes) -> Part:
        count = len(content) // 12
        return Part(np.frombuffer(content, np.int64, count), np.frombuffer(content, np.uint32, count, count * 8))

    def written(self) -> bytes:
        return self.ids.tobytes() + self.lengths.tobytes()


Uses = Mapping[int, bytes | memoryview]
"""For each hash of a term its rows in a part, then its frequency in each."""


class Shelf:
    """The parts that this process has read. They never change, so they are read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Part] = {}
        self._changing = threading.Lock()

    def parts(self, ns: Namespace) -> dict[int, Part]:
        """The cached parts of a namespace."""
        cached = ((part, self._known.get((ns.id, part))) for part in ns.parts)
        return {number: part for number, part in cached if part is not None}

    def learn(self, ns: Namespace, parts: dict[int, Part], rows: Packed) -> list[tuple[Part, Uses]]:
        """Adds the parts in the answer to `uses` to `parts`; returns all of them with the uses of the terms."""
        terms: dict[int, dict[int, memoryview]] = {part: {} for part in ns.parts}
        read: dict[int, Part] = {}
        for part, term, content in rows:
            if term == _ROWS:
                read[part] = Part.read(bytes(content))
            else:
                terms[part][term] = content
        if read:
            parts |= read
            with self._changing:
                others = {key: part for key, part in self._known.items() if key[0] != ns.id}
                self._known = others | {(ns.id, number): part for number, part in parts.items()}
        return [(parts[number], uses) for number, uses in terms.items() if number in parts]


def rarest(query: KeywordQuery, items: int, most_uses: int) -> list[Word]:
    """The rarest words that have this many uses together, in the order of the query; at least one."""
    kept: set[Word] = set()
    uses = 0.0
    for word in sorted(query.words, key=lambda word: (word.share, -word.idf)):
        uses += word.share * items
        if kept and uses > most_uses:
            break
        kept.add(word)
    return [word for word in query.words if word in kept]


def uses(ns: Namespace, hashes: Sequence[int], parts: Mapping[int, Part]) -> Statement:
    """The uses of these terms in all parts, and the items of parts that are not known yet."""
    sql = "SELECT part, term, uses FROM postings WHERE ns = ? AND (part = ANY(?::bigint[]) AND term = ANY(?::bigint[])"
    asked = (f"{sql})", ns.id, array(ns.parts), array(hashes))
    if lacking := [part for part in ns.parts if part not in parts]:
        asked = (f"{sql} OR part = ANY(?::bigint[]) AND term = {_ROWS})", *asked[1:], array(lacking))
    return packed(asked, "uses", first="part", second="term")


@dataclass(frozen=True, slots=True)
class Proposals:
    """Items of parts that have one of the words, with the scores of these words."""

    ids: Ints
    scores: Floats

    def best(self, count: int) -> tuple[list[int], float]:
        """The best of them, ties by id, and the score of the last; minus infinity if there are fewer."""
        if len(self.ids) <= count:
            return self.ids.tolist(), -np.inf
        least = -np.partition(-self.scores, count - 1)[count - 1]
        better = self.ids[self.scores > least]
        equal = np.sort(self.ids[self.scores == least])[: count - len(better)]
        return [*better.tolist(), *equal.tolist()], float(least)


def proposals(parts: Iterable[tuple[Part, Uses]], words: Sequence[Word], average_length: float) -> Proposals:
    ids, scores = [np.empty(0, np.int64)], [np.empty(0)]
    for part, uses in parts:
        total = _scores(part, uses, words, average_length)
        rows = np.flatnonzero(total)
        ids.append(part.ids[rows])
        scores.append(total[rows])
    return Proposals(np.concatenate(ids), np.concatenate(scores))


def _scores(part: Part, uses: Uses, words: Sequence[Word], average_length: float) -> Floats:
    total = np.zeros(len(part.ids))
    for word in words:
        variants = zip(map(term_hash, word.terms), word.values, strict=True)
        earned = [_earned(part, uses[hashed], worth, average_length) for hashed, worth in variants if hashed in uses]
        _add(total, earned)
    return total


def _uses(content: bytes | memoryview) -> tuple[Numbers, Bytes]:
    count = len(content) // 5
    return np.frombuffer(content, np.uint32, count), np.frombuffer(content, np.uint8, count, count * 4)


def _earned(part: Part, uses: bytes | memoryview, worth: float, average_length: float) -> tuple[Numbers, Floats]:
    """Rows, and the score of a term of this weight in each, computed as in `scoring`, so that ties are exact."""
    rows, tf = _uses(uses)
    base, slope = bm25.norm(average_length)
    return rows, worth * (tf * (bm25.K1 + 1) / (tf + (base + slope * part.lengths[rows])))


def _add(total: Floats, variants: Sequence[tuple[Numbers, Floats]]) -> None:
    """Adds what a word earns: in every row, the best of its variants."""
    if len(variants) == 1:
        rows, scores = variants[0]
        total[rows] += scores
    elif variants:
        most = np.zeros(len(total))
        for rows, scores in variants:
            most[rows] = np.maximum(most[rows], scores)
        total += most


# ---------------------------------------------------------------- making


def end(ns: Namespace) -> int:
    """The last change whose texts are in a part."""
    return ns.parts[-1] if ns.parts else -1


def is_due(db: Connection, ns: Namespace, tuning: Tuning, *, everything: bool) -> bool:
    """Whether enough texts are newer than the parts; with `everything`, whether any text is."""
    if ns.items < tuning.postings_items or end(ns) == ns.text_changes:
        return False
    least = 1 if everything else tuning.postings_tail_texts
    sql = "SELECT count(*) FROM (SELECT 1 FROM texts WHERE ns = ? AND change > ? LIMIT ?) AS newer"
    return db.value(sql, ns.id, end(ns), least) >= least


def build(database: Database, read: Callable[[Connection], Namespace], tuning: Tuning, *, everything: bool) -> None:
    """Builds parts until none is due; readers and writers continue, and their writes are newer than the new part.

    `read`: the row of the namespace.
    """
    is_over = False
    while not is_over:
        with database.write() as db:
            db.wait_seconds = LONG_SECONDS
            ns = read(db)
            is_over = not is_due(db, ns, tuning, everything=everything)
            if not is_over:
                _build_part(db, ns)
        if not is_over:  # in a transaction of its own: the one before has the namespace locked, which writers wait for
            with database.write() as db:
                db.wait_seconds = LONG_SECONDS
                db.run("SET LOCAL statement_timeout = 0")
                replaced = "postings.ns = ? AND namespaces.id = ? AND part <> ALL(parts)"
                db.run(f"DELETE FROM postings USING namespaces WHERE {replaced}", ns.id, ns.id)  # noqa: S608  (constants)


def _build_part(db: Connection, ns: Namespace) -> None:
    db.run("SET LOCAL statement_timeout = 0")
    kept = _kept(db, ns)
    first = kept[-1] if kept else -1
    last = _last(db, ns, first)
    busy = StoreBusy("another process builds the same index", "Nothing has to be done")
    try:
        _store(db, ns.id, last, *_collected(db, ns.id, first, last))
    except UniqueViolation as error:
        raise busy from error
    published = [*kept, last]
    sql = "UPDATE namespaces SET parts = ?::bigint[] WHERE id = ? AND parts = ?::bigint[]"
    if not db.run(sql, published, ns.id, ns.parts):
        raise busy


def _kept(db: Connection, ns: Namespace) -> list[int]:
    """The parts that are kept next to a new one: those much larger than all later parts together."""
    count = "SELECT count(*) FROM texts WHERE ns = ? AND change > ? AND change <= ?"
    kept, size = list(ns.parts), db.value(count, ns.id, end(ns), ns.text_changes)
    while kept:
        held = db.value(count, ns.id, kept[-2] if len(kept) > 1 else -1, kept[-1])
        if held > 2 * size or held + size > LARGEST_PART_TEXTS:
            break
        size += held
        kept.pop()
    return kept


def _last(db: Connection, ns: Namespace, first: int) -> int:
    """The last change of a part that begins at this change."""
    sql = "SELECT change FROM texts WHERE ns = ? AND change > ? ORDER BY change OFFSET ? LIMIT 1"
    return db.value(sql, ns.id, first, LARGEST_PART_TEXTS - 1) or ns.text_changes


def _collected(db: Connection, ns: int, first: int, last: int) -> tuple[Part, Numbers]:
    """The texts of some changes, and their terms one after the other."""
    sql = "SELECT item, hashes FROM texts WHERE ns = ? AND change > ? AND change <= ?"
    rows = db.rows(sql, ns, first, last)
    ids = [item for item, _ in rows]
    texts: list[bytes] = [hashed for _, hashed in rows]
    lengths = np.array([len(text) // 4 for text in texts], np.uint32)
    return Part(np.array(ids, np.int64), lengths), np.frombuffer(b"".join(texts), np.uint32)


def _store(db: Connection, ns: int, number: int, part: Part, terms: Numbers) -> None:
    with db.cursor() as cursor, cursor.copy("COPY postings FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(("int4", "int8", "int8", "bytea"))
        copy.write_row((ns, number, _ROWS, part.written()))
        for term, content in arranged(part.lengths, terms):
            copy.write_row((ns, number, term, content))


def arranged(lengths: Numbers, terms: Numbers) -> Iterator[tuple[int, bytes]]:
    """For each term its rows, and its frequency in each (at most 255)."""
    pairs, often = _counted(np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths), terms)
    hashes, places = pairs >> np.uint64(32), pairs.astype(np.uint32)
    starts = np.flatnonzero(np.diff(hashes, prepend=np.uint64(1 << 32))).tolist()
    for start, stop in pairwise([*starts, len(pairs)]):
        yield int(hashes[start]), places[start:stop].tobytes() + often[start:stop].tobytes()


def _counted(owners: Pairs, terms: Numbers) -> tuple[Pairs, Bytes]:
    """Term and row combined into one number, sorted, and the frequency of the term in the row."""
    pairs, counts = np.unique(terms.astype(np.uint64) << np.uint64(32) | owners, return_counts=True)
    return pairs, np.minimum(counts, 255).astype(np.uint8)


# ---------------------------------------------------------------- checks


def drop(db: Connection, ns: Namespace) -> None:
    """The caller has the namespace locked."""
    db.run("DELETE FROM postings WHERE ns = ?", ns.id)
    db.run("UPDATE namespaces SET parts = '{}' WHERE id = ?", ns.id)


def is_sound(db: Connection, ns: Namespace) -> bool:
    """Whether the parts have every text up to the last of their changes, as it is."""
    sql = "SELECT term, uses FROM postings WHERE ns = ? AND part = ?"
    first = -1
    for number in ns.parts:
        postings = dict(db.rows(sql, ns.id, number))
        if _ROWS not in postings or not _holds(postings, *_collected(db, ns.id, first, number)):
            return False
        first = number
    return True


def _holds(postings: dict[int, bytes], texts: Part, terms: Numbers) -> bool:
    """Whether a part has these texts; it may have others, which were replaced or removed."""
    part = Part.read(postings.pop(_ROWS))
    row_of = {item: row for row, item in enumerate(part.ids.tolist())}
    where = np.array([row_of.get(item, -1) for item in texts.ids.tolist()], np.int64)
    if (where < 0).any() or (part.lengths[where] != texts.lengths).any():
        return False
    wanted, often = _counted(np.repeat(where, texts.lengths).astype(np.uint64), terms)
    held, counts = _flat(postings)
    live = np.isin(held & np.uint64(0xFFFFFFFF), where.astype(np.uint64))
    return np.array_equal(held[live], wanted) and np.array_equal(counts[live], often)


def _flat(postings: Uses) -> tuple[Pairs, Bytes]:
    """All postings of a part, in order."""
    pairs, counts = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)]
    for term in sorted(postings):
        places, often = _uses(postings[term])
        pairs.append(np.uint64(term << 32) | places.astype(np.uint64))
        counts.append(often)
    return np.concatenate(pairs), np.concatenate(counts)

"""Analysed texts and the statistics that BM25 needs, both written with the item they belong to."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fourfold.storage.postgres.namespaces import Namespace
from fourfold.storage.postgres.sql import Db
from fourfold.text.analysis import analyse_item

if TYPE_CHECKING:
    from numpy.typing import NDArray

GERMAN = "de"


@dataclass(frozen=True, slots=True)
class Text:
    """An item as the keyword index sees it."""

    id: int
    title: str
    text: str
    language: str

    @property
    def terms(self) -> list[str]:
        return analyse_item(self.title, self.text, self.language)


def hashes(terms: Iterable[str]) -> NDArray[np.uint32]:
    return np.array([zlib.crc32(term.encode("utf-8", "surrogatepass")) for term in terms], np.uint32)


def keys(ns: int, hashed: NDArray[np.uint32]) -> list[int]:
    """The keys by which the index finds terms, which include the namespace."""
    return (np.unique(hashed).astype(np.int64) | np.int64(ns << 32)).tolist()


def write(db: Db, ns: Namespace, old: Sequence[Text], new: Sequence[Text]) -> None:
    """Removes old texts from the statistics and adds new ones."""
    if not old and not new:
        return
    analysed = [(text, text.terms) for text in new]
    change: Counter[tuple[str, bool]] = Counter()
    for sign, texts in ((-1, ((text, text.terms) for text in old)), (1, analysed)):
        for text, terms in texts:
            ns.tokens += sign * len(terms)
            for term in set(terms):
                change[term, text.language == GERMAN] += sign
    ns.text_changes += 1
    _count(db, ns.id, change)
    _store(db, ns, [(text.id, hashes(terms)) for text, terms in analysed])


def _count(db: Db, ns: int, change: Counter[tuple[str, bool]]) -> None:
    by_term: dict[str, tuple[int, int]] = {}
    for (term, german), count in change.items():
        items, spoken = by_term.get(term, (0, 0))
        by_term[term] = (items + count, spoken + (count if german else 0))
    moved = sorted((term, *counts) for term, counts in by_term.items() if any(counts))
    if not moved:
        return
    db.run("INSERT INTO terms SELECT ?, * FROM unnest(?::text[], ?::int[], ?::int[]) ON CONFLICT (ns, term) "
        "DO UPDATE SET items = terms.items + excluded.items, german = terms.german + excluded.german",
        ns, *map(list, zip(*moved, strict=True)),
    )  # fmt: skip
    lost = [term for term, items, _ in moved if items < 0]
    if lost:
        db.run("DELETE FROM terms WHERE ns = ? AND term = ANY(?) AND items <= 0", ns, lost)


def _store(db: Db, ns: Namespace, hashed: Sequence[tuple[int, NDArray[np.uint32]]]) -> None:
    db.run_many(
        "INSERT INTO texts VALUES (?, ?, ?, ?, ?::bigint[], ?) ON CONFLICT (item) DO UPDATE SET "
        "tokens = excluded.tokens, hashes = excluded.hashes, keys = excluded.keys, change = excluded.change",
        [(item, ns.id, len(found), found.tobytes(), keys(ns.id, found), ns.text_changes) for item, found in hashed],
    )

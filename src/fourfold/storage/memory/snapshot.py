"""Reading one namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fourfold.embed.vectors import check_dimension
from fourfold.embed.windows import Windows, body, rows_of
from fourfold.index.rows import in_sample
from fourfold.model import Filters, Item, Page, RawRecord, Space
from fourfold.ranking.connections import rank_by_shared_tags, rarity, selective_tags
from fourfold.ranking.expansion import Expansion
from fourfold.retrieval import Background, Hit, Hits, Part, Ranking
from fourfold.storage import versioning
from fourfold.storage.memory import files, items
from fourfold.storage.memory.filters import passes
from fourfold.storage.memory.saved_versions import SavedVersions
from fourfold.storage.memory.state import Namespace
from fourfold.storage.memory.walk import MemoryGraph
from fourfold.storage.parts import nearest_part
from fourfold.storage.values import Deadline, FileRow, Hidden, PendingText, Size, TagUse, Vocabulary
from fourfold.text.analysis import analyse_item
from fourfold.text.bm25 import saturation
from fourfold.text.code import code_share
from fourfold.text.compounds import SortedLexicon
from fourfold.text.fold import fold
from fourfold.text.keyword_query import KeywordQuery, Word, keyword_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.model import Vector


class MemorySnapshot:
    def __init__(self, ns: Namespace, *, exists: bool) -> None:
        self._ns = ns
        self.exists = exists
        self.deadline = Deadline()
        self.rows = MemoryRows(ns)
        self.words = MemoryWords(ns)
        self.vectors = MemoryVectors(ns)
        self.graph = MemoryGraph(ns)
        self.tags = MemoryTags(ns)
        self.raw = MemoryRaw(ns)

    @property
    def size(self) -> Size:
        return self._ns.size

    @property
    def hidden(self) -> Hidden:
        known = [item for _, item in items.all_items(self._ns)]
        superseded = any(item.superseded_at is not None for item in known)
        return Hidden(superseded, any(item.expires_at is not None for item in known))

    @property
    def space(self) -> Space | None:
        return self._ns.space

    @property
    def has_files(self) -> bool:
        return bool(self._ns.files)

    def expand(self, given: Expansion, filters: Filters) -> None:
        return None

    def files(self, prefix: str) -> Mapping[str, FileRow]:
        return {path: state for path, state in sorted(self._ns.files.items()) if path.startswith(prefix)}

    def pending(self, limit: int, among: Sequence[int] | None = None) -> list[PendingText]:
        found = [
            item
            for id, item in items.all_items(self._ns)
            if self._ns.items[id].vector is None
            and (id in among if among is not None else self._ns.rejected.get(id) != (item.title, item.text))
        ]
        return [(item.id, item.title, item.text) for item in found[:limit]]

    def nearest_parts(self, queries: Sequence[Vector], ids: Sequence[int]) -> dict[int, Part]:
        known = {id: self._ns.items[id] for id in ids if id in self._ns.items}
        return {
            id: nearest_part(stored.vector, queries, len(body(stored.item.title, stored.item.text)))
            for id, stored in known.items()
            if isinstance(stored.vector, Windows)
        }

    def stored_vectors(self, ids: Sequence[int]) -> dict[int, Vector]:
        known = {id: self._ns.items[id].vector for id in ids if id in self._ns.items}
        return {id: vector for id, vector in known.items() if vector is not None and not isinstance(vector, Windows)}

    def keyword_query(self, text: str) -> KeywordQuery:
        return self.words.query(text)


class MemoryRows:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def get(self, ids: Sequence[int]) -> dict[int, Item]:
        return {id: self._ns.items[id].item for id in ids if id in self._ns.items}

    def find_keys(self, keys: Sequence[str]) -> dict[str, int]:
        return items.find_keys(self._ns, keys)

    def list(self, filters: Filters, limit: int, offset: int) -> list[Item]:
        found = [item for _, item in items.all_items(self._ns) if passes(item, filters)]
        newest = sorted(found, key=lambda item: (item.created_at, item.id), reverse=True)
        return newest[offset : offset + limit]

    def ids(self, filters: Filters, among: Sequence[int] | None = None) -> list[int]:
        return sorted(
            id for id, item in items.all_items(self._ns) if (among is None or id in among) and passes(item, filters)
        )

    def count(self, filters: Filters) -> int:
        return len(self.ids(filters))

    def count_longer(self, octets: int) -> int:
        return sum(len(item.text.encode()) > octets for _, item in items.all_items(self._ns))

    def chunks(self, path: str, first: int, last: int) -> list[Item]:
        found = files.chunks(self._ns, path)
        return [item for item in found if item.chunk_index is not None and first <= item.chunk_index <= last]

    def named_chunks(self, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        return files.named(self._ns, names, filters)

    def vocabulary(self, field: Vocabulary) -> dict[str, int]:
        known = [item for _, item in items.all_items(self._ns) if item.superseded_at is None]
        if field == "metadata":
            return dict(Counter(key for item in known for key in item.metadata))
        return dict(Counter(name for item in known if (name := getattr(item, field)) is not None))

    def history(self, item: int) -> list[Item]:
        return items.history(self._ns, item)

    def versions(self, ids: Sequence[int]) -> dict[int, Item]:
        found = SavedVersions(self._ns).of_ids(ids)
        return {each.id: versioning.as_item(each, self._ns.name) for each in found}

    def last_expiry(self, now: datetime) -> datetime | None:
        times = (item.expires_at for _, item in items.all_items(self._ns))
        return max((time for time in times if time is not None and time <= now), default=None)


class MemoryTags:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def counts(self) -> Mapping[str, int]:
        known = [item for _, item in items.all_items(self._ns) if item.superseded_at is None]
        carried = Counter(fold(tag) for item in known for tag in item.tags)
        return dict(sorted(carried.items()))

    def _uses(self) -> Mapping[str, int]:
        """Superseded items count, so that the rarity of a tag does not depend on hidden items."""
        return Counter(fold(tag) for _, item in items.all_items(self._ns) for tag in item.tags)

    def uses(self, candidates: Sequence[str], filters: Filters, limit: int) -> list[TagUse]:
        counts = self._uses()
        carried = {
            id: sorted({fold(tag) for tag in item.tags} & set(candidates))
            for id, item in items.all_items(self._ns)
            if passes(item, filters)
        }
        scores = {id: sum(rarity(counts[tag]) for tag in tags) for id, tags in carried.items() if tags}
        best = sorted(scores, key=lambda id: (-scores[id], id))[:limit]
        return [TagUse(id, tag, counts[tag]) for id in sorted(best) for tag in carried[id]]

    def shared(self, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        counts = self._uses()
        carried = {fold(tag) for id, item in items.all_items(self._ns) if id in ids for tag in item.tags}
        return self.uses(selective_tags({tag: counts[tag] for tag in carried}), filters, len(self._ns.items))

    def rank_shared(self, strengths: Mapping[int, float], filters: Filters, limit: int) -> Hits:
        return rank_by_shared_tags(strengths, self.shared(list(strengths), filters), limit)


class MemoryRaw:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def get(self, ids: Sequence[int]) -> dict[int, RawRecord]:
        return {id: self._ns.raw[id] for id in ids if id in self._ns.raw}

    def list(self, session_id: str | None, speaker: str | None, limit: int, offset: int) -> Page[RawRecord]:
        found = [
            record
            for record in reversed(self._ns.raw.values())
            if session_id in (None, record.session_id) and speaker in (None, record.speaker)
        ]
        return Page(found[offset : offset + limit], len(found), offset)


# ---------------------------------------------------------------- BM25 by reading every text


class MemoryWords:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def match(self, text: str, limit: int, filters: Filters) -> Ranking:
        query = self.query(text)
        if not query.words:
            return Ranking(notes=query.notes)
        found = self._scored(query, [id for id, stored in self._ns.items.items() if passes(stored.item, filters)])
        hits = sorted((hit for hit in found.hits if hit.score > 0), key=lambda hit: (-hit.score, hit.id))[:limit]
        evidence = {hit.id: found.evidence[hit.id] for hit in hits}
        return replace(found, hits=tuple(hits), notes=query.notes, evidence=evidence)

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        return self._scored(self.query(text), [id for id in ids if id in self._ns.items])

    def having(self, words: Sequence[str], limit: int, filters: Filters) -> list[int]:
        return [hit.id for hit in self.match(" ".join(words), limit, filters).hits]

    @cached_property
    def _terms(self) -> dict[int, Counter[str]]:
        """By item: its analysed terms with their frequencies."""
        items = [stored.item for stored in self._ns.items.values()]
        return {item.id: Counter(analyse_item(item.title, item.text, item.language)) for item in items}

    def query(self, text: str) -> KeywordQuery:
        german = {
            term for id, terms in self._terms.items() if self._ns.items[id].item.language == "de" for term in terms
        }
        lexicon = SortedLexicon(german) if german else None
        code = code_share(self._frequencies, len(self._terms))
        return keyword_query(text, self._ns.languages, lexicon, self._frequencies, len(self._terms), code)

    def _frequencies(self, terms: Sequence[str]) -> list[int]:
        return [sum(term in of_item for of_item in self._terms.values()) for term in terms]

    def _scored(self, query: KeywordQuery, ids: Sequence[int]) -> Ranking:
        average = sum(terms.total() for terms in self._terms.values()) / max(len(self._terms), 1)
        hits: list[Hit] = []
        evidence: dict[int, float] = {}
        for id in ids:
            score = covered = 0.0  # not sum(), which compensates rounding: equal texts must tie as in other stores
            for word in query.words:
                value = _value(word, self._terms[id], average)
                score += value
                covered += word.idf if value > 0 else 0.0
            hits.append(Hit(id, score))
            evidence[id] = covered / (query.weight or 1.0)
        return Ranking(
            tuple(hits),
            evidence=evidence,
            unknown=query.unknown_share,
            items=query.documents,
            code=query.code,
            foreign=query.foreign,
        )


def _value(word: Word, terms: Counter[str], average: float) -> float:
    """The score of a word: that of its best variant."""
    values = zip(word.terms, word.values, strict=True)
    return max(value * saturation(terms[term], terms.total(), average) for term, value in values)


# ---------------------------------------------------------------- cosines with every vector


class MemoryVectors:
    def __init__(self, ns: Namespace) -> None:
        self._ns = ns

    def begin_nearest(self, vector: Vector, limit: int, filters: Filters) -> Callable[[], Ranking]:
        if self._ns.space is not None:
            check_dimension(len(vector), self._ns.space.dimension)
        passing = [id for id, stored in self._ns.items.items() if passes(stored.item, filters)]
        hits = sorted(self.cosines(vector, passing).hits, key=lambda hit: (-hit.score, hit.id))[:limit]
        ranking = Ranking(tuple(hits), self._background(vector), self._ns.size.pending)
        return lambda: ranking

    def cosines(self, vector: Vector, ids: Sequence[int]) -> Ranking:
        """Rounded: equal vectors tie whatever the order of summation was."""
        found = ((id, self._products(id, vector)) for id in ids)
        return Ranking(tuple(Hit(id, max(np.round(products, 6).tolist())) for id, products in found if len(products)))

    def _products(self, id: int, query: Vector) -> NDArray[np.float64]:
        """The cosines with each vector of an item; empty if it has none."""
        stored = self._ns.items.get(id)
        if stored is None or stored.vector is None:
            return np.empty(0)
        return rows_of(stored.vector).astype(np.float64) @ np.asarray(query, np.float64)

    def _background(self, vector: Vector) -> Background | None:
        """The mean cosine of a sample that every store chooses alike; of several vectors of an item, the first."""
        ids = np.array([id for id, stored in self._ns.items.items() if stored.vector is not None], np.int64)
        sample = [float(self._products(id, vector)[0]) for id in ids[in_sample(ids, len(ids))].tolist()]
        return Background(sum(sample) / len(sample)) if sample else None

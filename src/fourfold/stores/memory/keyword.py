"""BM25 by reading every text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fourfold.model import Filters, Hit, Item, Ranking
from fourfold.search.bm25 import saturation
from fourfold.stores.keyword_query import KeywordQuery, Word, keyword_query
from fourfold.stores.memory.filters import passes
from fourfold.stores.memory.state import Namespace
from fourfold.text.analysis import analyse_item
from fourfold.text.compounds import SortedLexicon


@dataclass(frozen=True, slots=True)
class Text:
    item: Item
    terms: Counter[str]

    @property
    def length(self) -> int:
        return self.terms.total()


@dataclass(frozen=True, slots=True)
class Collection:
    texts: dict[int, Text]
    languages: Mapping[str, int]

    @staticmethod
    def of(ns: Namespace) -> Collection:
        return Collection({id: _read(stored.item) for id, stored in ns.items.items()}, ns.languages)

    @property
    def average_length(self) -> float:
        return sum(text.length for text in self.texts.values()) / max(len(self.texts), 1)

    def query(self, text: str) -> KeywordQuery:
        german = {term for text in self.texts.values() if text.item.language == "de" for term in text.terms}
        lexicon = SortedLexicon(german) if german else None
        return keyword_query(text, self.languages, lexicon, self._frequencies, len(self.texts))

    def _frequencies(self, terms: Sequence[str]) -> list[int]:
        return [sum(term in text.terms for text in self.texts.values()) for term in terms]


def _read(item: Item) -> Text:
    return Text(item, Counter(analyse_item(item.title, item.text, item.language)))


def match(ns: Namespace, text: str, limit: int, filters: Filters) -> Ranking:
    texts = Collection.of(ns)
    query = texts.query(text)
    if not query.words:
        return Ranking(notes=query.notes)
    found = _scored(texts, query, [id for id, text in texts.texts.items() if passes(text.item, filters)])
    hits = sorted((hit for hit in found.hits if hit.score > 0), key=lambda hit: (-hit.score, hit.id))[:limit]
    evidence = {hit.id: found.evidence[hit.id] for hit in hits}
    return Ranking(
        tuple(hits), notes=query.notes, evidence=evidence, unknown=query.unknown_share, items=query.documents
    )


def match_scores(ns: Namespace, text: str, ids: Sequence[int]) -> Ranking:
    texts = Collection.of(ns)
    return _scored(texts, texts.query(text), [id for id in ids if id in texts.texts])


def _scored(texts: Collection, query: KeywordQuery, ids: Sequence[int]) -> Ranking:
    average = texts.average_length
    hits: list[Hit] = []
    evidence: dict[int, float] = {}
    for id in ids:
        score = covered = 0.0  # not sum(), which corrects rounding: equal texts must tie as they do in other stores
        for word in query.words:
            value = _earned(word, texts.texts[id], average)
            score += value
            covered += word.idf if value > 0 else 0.0
        hits.append(Hit(id, score))
        evidence[id] = covered / (query.weight or 1.0)
    return Ranking(tuple(hits), evidence=evidence, unknown=query.unknown_share, items=query.documents)


def _earned(word: Word, text: Text, average: float) -> float:
    """A text matches a word by its best variant."""
    values = zip(word.terms, word.values, strict=True)
    return max(value * saturation(text.terms[term], text.length, average) for term, value in values)

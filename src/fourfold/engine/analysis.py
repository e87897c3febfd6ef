"""How a query is read: its language, words, names and tags, and the plan of its search."""

from __future__ import annotations

from dataclasses import dataclass

from fourfold.engine.retrievers import tag_candidates
from fourfold.model import NodeSummary
from fourfold.retrieval import Plan, TimeWindow
from fourfold.storage.protocols import Snapshot
from fourfold.text.analysis import query_words
from fourfold.text.entities import query_names
from fourfold.text.language import detect
from fourfold.text.negation import affirmed, negated_phrases, negation_note

_NAMES = 64
"""Nodes that an analysis lists at most."""


@dataclass(frozen=True, slots=True)
class AnalysedWord:
    surface: str
    """The folded word, as the user typed it."""
    stems: tuple[str, ...]
    """One for each language of the namespace, without repetition."""
    compounds: tuple[str, ...]
    """Related terms of the namespace, such as German compounds with this word."""
    weight: float
    """The idf of the word: its share in how much of the query an item covers. 0 if no item contains it."""
    share: float
    """Share of the items that contain it."""
    corrections: tuple[str, ...] = ()
    """Words of the namespace that replace it, because no item contains it."""


@dataclass(frozen=True, slots=True)
class NegatedPhrase:
    """A part of the query that excludes something; it is not searched for."""

    text: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    query: str
    language: str
    words: tuple[AnalysedWord, ...]
    names: tuple[NodeSummary, ...]
    """Nodes of the graph that the query names, most connected first."""
    tags: tuple[tuple[str, int], ...]
    """Tags that the query names, with the number of their items."""
    plan: Plan
    notes: tuple[str, ...]
    time_window: TimeWindow | None = None
    negated: tuple[NegatedPhrase, ...] = ()
    """`words`, `names` and `tags` are those of the query without these phrases."""


def analysis(snapshot: Snapshot, text: str, plan: Plan) -> Analysis:
    languages = tuple(snapshot.rows.vocabulary("language"))
    whole, phrases = text, negated_phrases(text)
    text = affirmed(whole, phrases)
    query = snapshot.keyword_query(text)
    known = {word.surface: word for word in query.words}
    replaced = {correction.surface: correction for correction in query.corrections}
    words: list[AnalysedWord] = []
    for word in query_words(text, languages):
        stems = tuple(term for term, _ in word.variants)
        found = known.get(word.surface)
        correction = replaced.get(word.surface)
        corrected = () if correction is None else correction.spellings
        related = () if found is None or corrected else tuple(term for term in found.terms if term not in stems)
        weight, share = (0.0, 0.0) if found is None else (found.idf, found.share)
        words.append(AnalysedWord(word.surface, stems, related, weight, share, corrected))
    counts = snapshot.tags.counts()
    tags = tuple((tag, counts[tag]) for tag in tag_candidates(text) if tag in counts)
    dropped = tuple(NegatedPhrase(whole[phrase.start : phrase.end], phrase.words) for phrase in phrases)
    notes = (*query.notes, *map(negation_note, phrases))
    names = _names(snapshot, text)
    return Analysis(whole, detect(whole, languages), tuple(words), names, tags, plan, notes, negated=dropped)


def _names(snapshot: Snapshot, text: str) -> tuple[NodeSummary, ...]:
    named = snapshot.graph.named(query_names(text))
    nodes = sorted({node for having in named.values() for node in having})
    return tuple(snapshot.graph.nodes("", _NAMES, 0, nodes)) if nodes else ()

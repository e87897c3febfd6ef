"""Keyword search: the server proposes rows, and their exact BM25 is computed here from the statistics that are stored.

The postings of a large namespace propose. In a small one, and among texts that are newer than the postings, a GIN index
proposes: all rows of the rarest words first, then those of the next, until no other row can be among the best, or
enough were read. Analysed texts and statistics are written with the item they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fourfold.index import rows as scoring
from fourfold.index.log_tail import TextRow
from fourfold.index.rows import NONE, Documents, Scored, term_hash, term_hashes
from fourfold.model import Filters
from fourfold.native import bindings
from fourfold.retrieval import Ranking
from fourfold.storage.postgres import postings
from fourfold.storage.postgres.connection import Answer, Connection, Packed, Statement, array, packed, together
from fourfold.storage.postgres.index_log import MOST_CANDIDATES
from fourfold.storage.sql.dialect import Condition, possible, sendable
from fourfold.text import bm25
from fourfold.text.analysis import MARKERS, analyse_item, code_share
from fourfold.text.compounds import LONG_TERM_LETTERS
from fourfold.text.keyword_query import KeywordQuery, Word, keyword_query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fourfold.index.rows import Floats
    from fourfold.storage.postgres.namespaces import Namespace
    from fourfold.storage.postgres.store import PostgresSnapshot

# ---------------------------------------------------------------- analysed texts and statistics

GERMAN = "de"


def hash_terms(terms: Iterable[str]) -> NDArray[np.uint32]:
    return np.array(term_hashes(terms), np.uint32)


def term_keys(ns: int, hashed: NDArray[np.uint32]) -> list[int]:
    """The keys by which the index finds terms, which include the namespace."""
    return (np.unique(hashed).astype(np.int64) | np.int64(ns << 32)).tolist()


def count_terms(counts: dict[str, list[int]], terms: Iterable[str], language: str, sign: int = 1) -> None:
    """Counts an item with these terms, by term: the items that have it, and those in German."""
    for term in set(terms):
        of_term = counts.setdefault(term, [0, 0])
        of_term[0] += sign
        of_term[1] += sign * (language == GERMAN)


def write_texts(db: Connection, ns: Namespace, old: Sequence[TextRow], new: Sequence[TextRow]) -> None:
    """Removes old texts from the statistics and adds new ones."""
    if not old and not new:
        return
    counts: dict[str, list[int]] = {}
    analysed = [(item, analyse_item(*text), text[2]) for item, *text in new]
    for sign, texts in ((-1, ((item, analyse_item(*text), text[2]) for item, *text in old)), (1, analysed)):
        for _, terms, language in texts:
            ns.tokens += sign * len(terms)
            count_terms(counts, terms, language, sign)
    ns.text_changes += 1
    changed = sorted((term, *of_term) for term, of_term in counts.items() if any(of_term))
    if changed:
        db.run("INSERT INTO terms SELECT ?, * FROM unnest(?::text[], ?::int[], ?::int[]) ON CONFLICT (ns, term) "
            "DO UPDATE SET items = terms.items + excluded.items, german = terms.german + excluded.german",
            ns.id, *map(list, zip(*changed, strict=True)),
        )  # fmt: skip
    if lost := [term for term, items, _ in changed if items < 0]:
        db.run("DELETE FROM terms WHERE ns = ? AND term = ANY(?) AND items <= 0", ns.id, lost)
    hashed = [(item, hash_terms(terms)) for item, terms, _ in analysed]
    db.run_many(
        "INSERT INTO texts VALUES (?, ?, ?, ?, ?::bigint[], ?) ON CONFLICT (item) DO UPDATE SET "
        "tokens = excluded.tokens, hashes = excluded.hashes, keys = excluded.keys, change = excluded.change",
        [(item, ns.id, len(each), each.tobytes(), term_keys(ns.id, each), ns.text_changes) for item, each in hashed],
    )


# ---------------------------------------------------------------- German words

_LAST = "\U0010ffff"


class AskedLexicon:
    """Answers from learned words and records unknown ones: ask, `learn`, and ask again until none is missing."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._found: dict[str, dict[tuple[str, int], list[str]]] = {kind: {} for kind in _KINDS[1:]}
        self._missing: dict[tuple[str, str, int], None] = {}
        self._asked: dict[str, list[tuple[str, int]]] = {}

    @property
    def is_complete(self) -> bool:
        return not self._missing

    def __contains__(self, term: object, /) -> bool:
        if not isinstance(term, str):
            return False
        if term not in self._known:
            self._missing["is", term, 1] = None
        return self._known.get(term, False)

    def starting(self, prefix: str, limit: int) -> Sequence[str]:
        return self._answer("starting", prefix, limit)

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        return self._answer("ending", suffix, limit)

    def containing(self, part: str, limit: int) -> Sequence[str]:
        return self._answer("containing", part, limit)

    def _answer(self, kind: str, text: str, limit: int) -> Sequence[str]:
        if (text, limit) not in self._found[kind]:
            self._missing[kind, text, limit] = None
        return self._found[kind].get((text, limit), [])

    def questions(self, ns: int) -> list[Statement]:
        """What is missing, in a statement for each kind, whose answers `learn` takes."""
        self._asked = {kind: [(text, limit) for what, text, limit in self._missing if what == kind] for kind in _KINDS}
        self._missing = {}
        terms = sendable(text for text, _ in self._asked["is"])
        sql = "SELECT term, 0::bigint, convert_to(term, 'UTF8') FROM terms "
        exact = (f"{sql}WHERE ns = ? AND term = ANY(?) AND german > 0", ns, terms)
        ends = [(_SQL[kind], *_bounds(kind, self._asked[kind]), ns) for kind in _KINDS[1:] if self._asked[kind]]
        return [exact, *ends] if self._asked["is"] else ends

    def learn(self, answers: Sequence[Sequence[Answer]]) -> None:
        asked = [kind for kind in _KINDS if self._asked[kind]]
        for kind, answer in zip(asked, answers, strict=True):
            if kind == "is":
                self._known.update(dict.fromkeys((text for text, _ in self._asked[kind]), False))
            else:
                self._found[kind].update({pair: [] for pair in self._asked[kind]})
            for text, limit, content in answer:
                term = content.decode()
                self._known[term] = True
                if kind != "is":
                    self._found[kind][text, limit].append(term)


_KINDS = ("is", "starting", "ending", "containing")
_ASKED = (
    "SELECT asked, most::bigint, convert_to(term, 'UTF8') "
    "FROM unnest(?::text[], ?::int[], ?::text[]) AS q (asked, most, bound)"
)
_SQL = {
    "starting": f"{_ASKED}, LATERAL (SELECT term FROM terms WHERE ns = ? AND german > 0 "  # noqa: S608  (constants)
    'AND term >= asked COLLATE "C" AND term < bound COLLATE "C" ORDER BY term LIMIT most) AS found',
    "ending": f"{_ASKED}, LATERAL (SELECT term FROM terms WHERE ns = ? AND german > 0 "  # noqa: S608  (constants)
    'AND reverse(term) COLLATE "C" >= reverse(asked) AND reverse(term) COLLATE "C" < bound '
    'ORDER BY reverse(term) COLLATE "C" LIMIT most) AS found',
    "containing": f"{_ASKED}, LATERAL (SELECT term FROM terms WHERE ns = ? AND german > 0 "  # noqa: S608  (constants)
    f'AND length(term) >= {LONG_TERM_LETTERS} AND term LIKE bound ORDER BY term COLLATE "C" LIMIT most) AS found',
}


def _bounds(kind: str, questions: Sequence[tuple[str, int]]) -> tuple[list[str], list[int], list[str]]:
    limits = dict(questions)
    texts = sendable(limits)
    return texts, [limits[text] for text in texts], [_bound(kind, text) for text in texts]


def _bound(kind: str, text: str) -> str:
    """Where the terms end that start or end with a text; or a pattern for LIKE (such a text has letters only)."""
    if kind == "containing":
        return f"%{text}%"
    return (text if kind == "starting" else text[::-1]) + _LAST


# ---------------------------------------------------------------- searching

MOST_ROWS = 12_000
"""Rows read for one query: if only common words are left, some of their rows are not seen."""
EARLY_ITEMS = 200_000
"""In a namespace of at most this many items, postings are read before their number is known."""
_NEWER_ROWS = 12_000
"""Newer rows read for one query: many more than there are while a process publishes."""
_ANYTHING: Condition = ("", ())
NOTHING = Scored(NONE, np.empty(0), np.empty(0))


@dataclass(slots=True, eq=False)
class KeywordSearch:
    _at: PostgresSnapshot

    def match(self, text: str, limit: int, filters: Filters) -> Ranking:
        unfiltered = filters.condition is None
        indexed = self._at.candidates.exists
        query, proposals = self._query(text, limit if unfiltered and not indexed else None)
        if not query.words:
            return Ranking(notes=query.notes)
        condition, narrow = (_ANYTHING, None) if unfiltered else self._at.narrowed(filters)
        if narrow is not None:
            scored = self._scored(query, of_items(self._at.ns, narrow))
        elif indexed and (engine := self._of_index(query, limit, filters, condition)) is not None:
            scored = engine
        elif self._at.ns.parts:
            scored = self._best_posted(query, limit, condition, proposals)
        else:
            scored = self._of_rarest(query, limit, condition)
        order = bindings.order(scored.ids, scored.scores)[:limit]
        ranking = scored.ranking(query, order[scored.scores[order] > 0])
        note = self._at.candidates.note
        return ranking if note is None else replace(ranking, notes=(*ranking.notes, note))

    def having(self, words: Sequence[str], limit: int, filters: Filters) -> list[int]:
        return [hit.id for hit in self.match(" ".join(words), limit, filters).hits]

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        """BM25 and coverage of these items; zeros where no word matches."""
        query, _ = self._query(text, None)
        return self._scored(query, of_items(self._at.ns, ids)).ranking(query)

    def _scored(self, query: KeywordQuery, statement: Statement) -> Scored:
        return score(self._at.ns, query, Packed.read(self._at.db.rows(*statement)[0]))

    def query(self, text: str) -> KeywordQuery:
        return self._query(text, None)[0]

    def _query(self, text: str, limit: int | None) -> tuple[KeywordQuery, Sequence[Sequence[Answer]] | None]:
        """The query, cached until a text changes.

        Proposals for its terms are asked for together with the statistics, if a limit is given. They are None if that
        was not worth it, or if these are not all of its terms.
        """
        ns, queries = self._at.ns, self._at.caches.queries
        query = queries.cached(ns.id, ns.text_changes, text)
        if query is not None:
            return query, None
        preparing = Preparation(ns, text, self._at.caches.code_shares.cached(ns.id, ns.text_changes, ""))
        questions, terms = preparing.questions(), frozenset(preparing.terms)
        is_early = limit is not None and terms and ns.parts and ns.items <= EARLY_ITEMS
        early = self._proposing(terms, _ANYTHING) if is_early else []
        answers = together(self._at.db, [*questions, *early])
        preparing.learn(answers[: len(questions)])
        while not preparing.is_complete:
            preparing.learn(together(self._at.db, preparing.questions()))
        self._at.caches.code_shares.add(ns.id, ns.text_changes, "", preparing.code)
        query = queries.add(ns.id, ns.text_changes, text, preparing.query)
        return query, answers[len(questions) :] if early and terms.issuperset(query.terms) else None

    def _of_index(self, query: KeywordQuery, limit: int, filters: Filters, condition: Condition) -> Scored | None:
        """Rows that a distributed index proposes, and newer ones; None if PostgreSQL has to propose."""
        candidates, count = self._at.candidates, min(2 * limit + 50, MOST_CANDIDATES)
        while (proposed := candidates.match(query, count, filters)) is not None:
            ids = [*proposed, *(candidates.tail or ())]
            scored = self._scored(query, of_terms(self._at.ns, ids, query.terms, condition))
            kept = np.count_nonzero(np.isin(scored.ids, proposed))  # newer rows do not show how many the filter removed
            if kept >= limit or len(proposed) < count:
                return scored
            if count >= MOST_CANDIDATES:
                return None  # few items pass the filter: its condition finds them sooner
            count = min(count * 4, MOST_CANDIDATES)
        return None

    def _of_rarest(self, query: KeywordQuery, limit: int, condition: Condition) -> Scored:
        """Rows of the rarest words, then of the next, until no other row can be among the best."""
        at, scored = self._at, NOTHING
        for words, left in stages(query, at.ns.items, at.tuning.first_stage_uses):
            statement = proposal(at.ns, words, condition, MOST_ROWS - len(scored.ids))
            scored = joined(scored, self._scored(query, statement))
            if kth(scored.scores, limit) > left or len(scored.ids) >= MOST_ROWS:
                break
        return scored

    def _best_posted(
        self, query: KeywordQuery, limit: int, condition: Condition, answers: Sequence[Sequence[Answer]] | None
    ) -> Scored:
        """The best rows of the parts and of newer texts. `answers`: those to `_proposing`."""
        at = self._at
        words = postings.rarest(query, at.ns.items, at.tuning.postings_uses)
        terms = [term for word in words for term in word.terms]
        answers = answers or together(at.db, self._proposing(terms, condition))
        uses, *tail = (Packed.read(answer[0]) for answer in answers)
        proposed = postings.proposals(at.caches.shelf.learn(at.ns, at.parts, uses), words, at.ns.average_length)
        fresh = score(at.ns, query, tail[0]) if tail else NOTHING
        count = limit + limit // 8 + 8 if len(words) == len(query.words) else 4 * limit
        while True:
            ids, least = proposed.best(count)
            scored = joined(fresh, self._scored(query, of_items(at.ns, ids, condition)))
            if kth(scored.scores, limit) >= least:
                return scored
            count *= 4

    def _proposing(self, terms: Iterable[str], condition: Condition) -> list[Statement]:
        """What the parts contain of these terms, and newer texts that have one of them."""
        ns, hashes = self._at.ns, sorted({term_hash(term) for term in terms})
        uses, end = postings.uses(ns, hashes, self._at.parts), postings.end(ns)
        if end == ns.text_changes:
            return [uses]
        newer = "change > ? AND keys && ?::bigint[]"
        return [uses, _rows_of(ns, newer, (end, _keys(ns, hashes)), condition, _NEWER_ROWS)]


# ---------------------------------------------------------------- the query


class Preparation:
    """A text that becomes a keyword query: it asks for the statistics that it lacks until it is complete."""

    def __init__(self, ns: Namespace, text: str, code: float | None = None) -> None:
        """`code`: the share of the items that are code; None if it has to be asked for."""
        self._ns = ns
        self._markers = MARKERS if code is None else ()
        self.code = code or 0.0
        self._text = text
        self._lexicon = AskedLexicon()
        self._known: dict[str, int] = {}
        self._missing: list[str] = []
        self.query = self._tried()

    def _tried(self) -> KeywordQuery:
        self._missing = []
        ns = self._ns
        return keyword_query(self._text, ns.languages, self._lexicon, self._frequencies, ns.items, self.code)

    def _frequencies(self, terms: Sequence[str]) -> list[int]:
        """Spellings of words whose own frequencies are missing are not asked for: they may be known words."""
        if not self._missing:
            self._missing = [term for term in terms if term not in self._known]
        return [self._known.get(term, 0) for term in terms]

    @property
    def terms(self) -> list[str]:
        """As far as they are known."""
        return [*self._known, *self._missing]

    @property
    def is_complete(self) -> bool:
        return self._lexicon.is_complete and not self._missing

    def questions(self) -> list[Statement]:
        sql = "SELECT term, items::bigint, NULL::bytea FROM terms WHERE ns = ? AND term = ANY(?)"
        terms = dict.fromkeys([*self._missing, *self._markers])
        return [(sql, self._ns.id, sendable(terms)), *self._lexicon.questions(self._ns.id)]

    def learn(self, answers: Sequence[Sequence[Answer]]) -> None:
        self._known.update(dict.fromkeys(self._missing, 0))
        self._known.update((term, items) for term, items, _ in answers[0])
        if self._markers:
            self.code = code_share(lambda terms: [self._known.get(term, 0) for term in terms], self._ns.items)
            self._markers = ()
        self._lexicon.learn(answers[1:])
        self.query = self._tried()


# ---------------------------------------------------------------- a small namespace


def stages(query: KeywordQuery, items: int, first_uses: int) -> list[tuple[list[Word], float]]:
    """The words by rarity, in stages that grow; with each, the most that a row without any word so far can score."""
    order = sorted(query.words, key=lambda word: (word.share, -word.idf))
    worth = [max(word.values) * (bm25.K1 + 1) for word in order]
    passes: list[tuple[list[Word], float]] = []
    start, uses, bound = 0, 0.0, first_uses
    for end, word in enumerate(order, 1):
        uses += word.share * items
        if uses >= bound or end == len(order):
            passes.append((order[start:end], sum(worth[end:])))
            start, uses, bound = end, 0.0, bound * 4
    return passes


# ---------------------------------------------------------------- rows with their terms


def _rows_of(
    ns: Namespace, chosen: str, bound: Sequence[Any], condition: Condition, most: int | None = None
) -> Statement:
    """The items with their hashes that are `chosen` and pass the filters; at most `most`, if there is one."""
    sql, bindings = condition
    source = "texts JOIN items ON items.id = item" if sql else "texts"
    limit, last = ("", ()) if most is None else (" LIMIT ?", (most,))
    statement = f"SELECT item, hashes FROM {source} WHERE texts.ns = ? AND {chosen}{sql}{limit}"  # noqa: S608  (our own clauses)
    return packed((statement, ns.id, *bound, *bindings, *last), "hashes")


def of_items(ns: Namespace, ids: Iterable[int], condition: Condition = _ANYTHING) -> Statement:
    return _rows_of(ns, "item = ANY(?::bigint[])", (array(possible(ids)),), condition)


def proposal(ns: Namespace, words: Sequence[Word], condition: Condition, most: int) -> Statement:
    """Finds the rows of words by the index on their keys."""
    keys = _keys(ns, {term_hash(term) for word in words for term in word.terms})
    return _rows_of(ns, "keys && ?::bigint[]", (keys,), condition, most)


def of_terms(ns: Namespace, ids: Iterable[int], terms: Iterable[str], condition: Condition) -> Statement:
    """Those of some rows that pass the filters and have one of the terms, which is not looked up in the index."""
    bound = array(ids), _keys(ns, map(term_hash, terms))
    return _rows_of(ns, "item = ANY(?::bigint[]) AND (keys && ?::bigint[]) IS TRUE", bound, condition)


def _keys(ns: Namespace, hashes: Iterable[int]) -> str:
    return array(sorted(ns.id << 32 | hashed for hashed in hashes))


# ---------------------------------------------------------------- scores


def score(ns: Namespace, query: KeywordQuery, texts: Packed) -> Scored:
    """`texts`: items with their hashes."""
    ids, terms = texts.first, np.frombuffer(texts.content, np.uint32)
    documents = Documents(ids, np.zeros(len(ids), np.bool_), np.cumsum(texts.lengths // 4), terms)
    return scoring.score([(documents, documents.live)], scoring.prepare(query), ns.average_length)


def joined(scored: Scored, others: Scored) -> Scored:
    """Both, each item once."""
    new = ~np.isin(others.ids, scored.ids)
    return Scored(
        np.concatenate([scored.ids, others.ids[new]]),
        np.concatenate([scored.scores, others.scores[new]]),
        np.concatenate([scored.coverage, others.coverage[new]]),
    )


def kth(scores: Floats, limit: int) -> float:
    """The score that a row needs to be among the best."""
    return float(-np.partition(-scores, limit - 1)[limit - 1]) if len(scores) >= limit else -np.inf

"""The words of a namespace's German items, asked of the server only for what a query needs."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.stores.postgres.sql import Db, rows, sendable

_LAST = "\U0010ffff"


class AskedLexicon:
    """Answers from what it was told, and notes what it was not: ask, `learn`, ask again until nothing is missing."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._starting: dict[tuple[str, int], list[str]] = {}
        self._ending: dict[tuple[str, int], list[str]] = {}
        self._missing: dict[tuple[str, str, int], None] = {}

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
        if (prefix, limit) not in self._starting:
            self._missing["starting", prefix, limit] = None
        return self._starting.get((prefix, limit), [])

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        if (suffix, limit) not in self._ending:
            self._missing["ending", suffix, limit] = None
        return self._ending.get((suffix, limit), [])

    async def learn(self, db: Db, ns: int) -> None:
        """Everything that was missing, in up to three questions."""
        missing, self._missing = list(self._missing), {}
        asked = {kind: [(text, limit) for what, text, limit in missing if what == kind] for kind in _KINDS}
        await self._learn_terms(db, ns, [text for text, _ in asked["is"]])
        for kind, answers in (("starting", self._starting), ("ending", self._ending)):
            answers.update({question: [] for question in asked[kind]})
            for text, limit, term in await rows(db, _SQL[kind], *_bounds(kind, asked[kind]), ns) if asked[kind] else ():
                answers[text, limit].append(term)
                self._known[term] = True

    async def _learn_terms(self, db: Db, ns: int, terms: Sequence[str]) -> None:
        if terms:
            self._known.update(dict.fromkeys(terms, False))
            sql = "SELECT term FROM terms WHERE ns = %s AND term = ANY(%s) AND german > 0"
            self._known.update({term: True for (term,) in await rows(db, sql, ns, sendable(terms))})


_KINDS = ("is", "starting", "ending")
_ASKED = "SELECT asked, most, term FROM unnest(%s::text[], %s::int[], %s::text[]) AS q (asked, most, bound)"
_SQL = {
    "starting": f"{_ASKED}, LATERAL (SELECT term FROM terms WHERE ns = %s AND german > 0 "
    'AND term >= asked COLLATE "C" AND term < bound COLLATE "C" ORDER BY term LIMIT most) AS found',
    "ending": f"{_ASKED}, LATERAL (SELECT term FROM terms WHERE ns = %s AND german > 0 "
    'AND reverse(term) COLLATE "C" >= reverse(asked) AND reverse(term) COLLATE "C" < bound '
    'ORDER BY reverse(term) COLLATE "C" LIMIT most) AS found',
}


def _bounds(kind: str, questions: Sequence[tuple[str, int]]) -> tuple[list[str], list[int], list[str]]:
    limits = dict(questions)
    texts = sendable(limits)
    ends = [(text if kind == "starting" else text[::-1]) + _LAST for text in texts]
    return texts, [limits[text] for text in texts], ends

"""The words of a namespace's German items, asked of the server only for what a query needs."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.stores.postgres.sql import Answer, Statement, sendable

_LAST = "\U0010ffff"


class AskedLexicon:
    """Answers from what it was told, and notes what it was not: ask, `learn`, ask again until nothing is missing."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._starting: dict[tuple[str, int], list[str]] = {}
        self._ending: dict[tuple[str, int], list[str]] = {}
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
        if (prefix, limit) not in self._starting:
            self._missing["starting", prefix, limit] = None
        return self._starting.get((prefix, limit), [])

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        if (suffix, limit) not in self._ending:
            self._missing["ending", suffix, limit] = None
        return self._ending.get((suffix, limit), [])

    def questions(self, ns: int) -> list[Statement]:
        """What is missing, in up to three statements, whose answers `learn` takes."""
        self._asked = {kind: [(text, limit) for what, text, limit in self._missing if what == kind] for kind in _KINDS}
        self._missing = {}
        terms = sendable(text for text, _ in self._asked["is"])
        sql = "SELECT term, 0::bigint, 0::bigint, convert_to(term, 'UTF8') FROM terms "
        known = (f"{sql}WHERE ns = %s AND term = ANY(%s) AND german > 0", ns, terms)
        ends = [(_SQL[kind], *_bounds(kind, self._asked[kind]), ns) for kind in _KINDS[1:] if self._asked[kind]]
        return [known, *ends] if self._asked["is"] else ends

    def learn(self, answers: Sequence[Sequence[Answer]]) -> None:
        asked = [kind for kind in _KINDS if self._asked[kind]]
        for kind, answer in zip(asked, answers, strict=True):
            if kind == "is":
                self._known.update(dict.fromkeys((text for text, _ in self._asked[kind]), False))
            else:
                (self._starting if kind == "starting" else self._ending).update(
                    {pair: [] for pair in self._asked[kind]}
                )
            for text, limit, _, content in answer:
                term = content.decode()
                self._known[term] = True
                if kind != "is":
                    (self._starting if kind == "starting" else self._ending)[text, limit].append(term)


_KINDS = ("is", "starting", "ending")
_ASKED = (
    "SELECT asked, most::bigint, 0::bigint, convert_to(term, 'UTF8') "
    "FROM unnest(%s::text[], %s::int[], %s::text[]) AS q (asked, most, bound)"
)
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

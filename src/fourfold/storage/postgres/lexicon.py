"""The words of a namespace's German items, asked of the server only for what a query needs."""

from __future__ import annotations

from collections.abc import Sequence

from fourfold.storage.postgres.sql import Answer, Statement
from fourfold.storage.sql.dialect import sendable
from fourfold.text.compounds import LONG_TERM_LETTERS

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
        known = (f"{sql}WHERE ns = ? AND term = ANY(?) AND german > 0", ns, terms)
        ends = [(_SQL[kind], *_bounds(kind, self._asked[kind]), ns) for kind in _KINDS[1:] if self._asked[kind]]
        return [known, *ends] if self._asked["is"] else ends

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

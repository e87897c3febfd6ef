"""The part of a text that answers a query, with the words that do so marked."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from fourfold.text.analysis import TERM_LENGTH, token_terms
from fourfold.text.query import QueryWord
from fourfold.text.tokens import token_spans

WIDTH = 240
_HORIZON = 50_000
"""Characters of a text that are read for it, whatever its length."""

_LONGEST_WORD = 60
"""A cut looks so far for a space; text without any is cut where it must be."""

_ELLIPSIS = "…"
_MARK = "**"
_BOLD = re.compile(r"(?<![\w*])\*\*(?=[^\s*])[^\n*]*[^\s*]\*\*(?![\w*])")
_BOLD_REACH = 1000
"""Characters around the window in which bold text may begin or end."""


class _Match(NamedTuple):
    start: int
    end: int
    words: frozenset[int]
    """Which words of the query stand here."""


class Highlighted(NamedTuple):
    """A part of a text, and where the query's words stand in it."""

    text: str
    marks: tuple[tuple[int, int], ...]

    @property
    def marked(self) -> str:
        """The words as **word**. Where the text has such asterisks of its own, nothing is marked."""
        if _MARK in self.text:
            return self.text
        edges = [0, *(place for mark in self.marks for place in mark), len(self.text)]
        return _MARK.join(self.text[a:b] for a, b in pairwise(edges))


def snippet(text: str, query_words: Sequence[QueryWord], language: str, width: int = WIDTH) -> str:
    """About `width` characters of the text around most of the query's words, these as **word**; else its beginning."""
    return highlighted(text, query_words, language, width).marked


def highlighted(text: str, query_words: Sequence[QueryWord], language: str, width: int = WIDTH) -> Highlighted:
    """The same with the places of the words apart. Bold text in Markdown loses its own marks."""
    matches = _matches(text, query_words, language)
    best = _best_window(matches, width)
    start, end = _cut(text, best, width)
    return _highlighted(text, start, end, (match for match in matches if start <= match.start and match.end <= end))


def _matches(text: str, query_words: Sequence[QueryWord], language: str) -> list[_Match]:
    wanted: dict[str, set[int]] = {}
    for number, word in enumerate(query_words):
        for term, _ in word.variants:
            wanted.setdefault(term, set()).add(number)
    terms_of = token_terms(language)
    found: list[_Match] = []
    for a, b in _readable_spans(text, query_words) if wanted else ():
        words = frozenset(number for term in terms_of[text[a:b]] for number in wanted.get(term, ()))
        if words and b - a <= TERM_LENGTH:
            found.append(_Match(a, b, words))
    return found


def _readable_spans(text: str, query_words: Sequence[QueryWord]) -> Iterator[tuple[int, int]]:
    """The tokens of the text within the horizon, without those that the horizon cuts in two."""
    start = _first_to_read(text, query_words)
    end = start + _HORIZON
    for a, b in token_spans(text, start, end):
        if (a > start or start == 0) and (b < end or end >= len(text)):
            yield a, b


def _first_to_read(text: str, query_words: Sequence[QueryWord]) -> int:
    """The beginning; in a long text a little before the word that comes up last, which should be the rarest."""
    if len(text) <= _HORIZON:
        return 0
    lower = text.lower()
    places = (lower.find(spelling) for word in query_words for spelling in _literally(word))
    latest = max(places, default=0)
    return 0 if latest < _HORIZON // 2 else latest - _HORIZON // 4


def _literally(word: QueryWord) -> list[str]:
    """How a word may stand in a text, letter by letter: as typed, with umlauts, and as far as its stem goes."""
    with_umlauts = word.surface.replace("ae", "ä").replace("oe", "ö").replace("ue", "ü")
    return [word.surface, with_umlauts, *(term for term, _ in word.variants if len(term) > 3)]


def _best_window(matches: Sequence[_Match], width: int) -> Sequence[_Match]:
    """The matches that fit into one window with the most different words of the query, the earliest such."""
    best, first = (0, 0, 0), 0
    counts: dict[int, int] = {}
    for last, match in enumerate(matches):
        for word in match.words:
            counts[word] = counts.get(word, 0) + 1
        while match.end - matches[first].start > width and first < last:
            _forget(counts, matches[first].words)
            first += 1
        if len(counts) > best[0]:
            best = (len(counts), first, last + 1)
    return matches[best[1] : best[2]]


def _forget(counts: dict[int, int], words: Iterable[int]) -> None:
    for word in words:
        counts[word] -= 1
        if not counts[word]:
            del counts[word]


def _cut(text: str, matches: Sequence[_Match], width: int) -> tuple[int, int]:
    """Where the window starts and ends: around the matches, between words, and no further than the text."""
    if len(text) <= width:
        return 0, len(text)
    if not matches:
        return 0, _space_before(text, width, 0)
    first, last = matches[0].start, matches[-1].end
    spare = max(0, width - (last - first))
    start = _space_after(text, max(0, min(first - spare // 2, len(text) - width)), first)
    return start, _space_before(text, max(start + width, last), last)


def _space_after(text: str, start: int, limit: int) -> int:
    """`start`, or the next place after it where a word starts, if there is one near."""
    if start == 0 or text[start - 1].isspace():
        return start
    near = range(start, min(start + _LONGEST_WORD, limit))
    return next((place + 1 for place in near if text[place].isspace()), min(start, limit))


def _space_before(text: str, end: int, limit: int) -> int:
    """`end`, or the last place before it where a word ends, if there is one near."""
    if end >= len(text) or text[end].isspace():
        return min(end, len(text))
    near = range(end, max(end - _LONGEST_WORD, limit), -1)
    return next((place for place in near if text[place - 1].isspace()), max(end, limit))


def _highlighted(text: str, start: int, end: int, matches: Iterable[_Match]) -> Highlighted:
    cuts = _bold_delimiters(text, start, end)
    edges = [start, *(place for cut in cuts for place in (cut, cut + len(_MARK))), end]
    window = "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))
    opening = _ELLIPSIS if text[:start].strip() else ""
    closing = _ELLIPSIS if text[end:].strip() else ""
    shift = len(opening) - start - (len(window) - len(window.lstrip()))

    def place(position: int) -> int:
        return position + shift - len(_MARK) * bisect_left(cuts, position)

    marks = tuple((place(a), place(b)) for a, b in _joined(matches))
    return Highlighted(opening + window.strip() + closing, marks)


def _bold_delimiters(text: str, start: int, end: int) -> list[int]:
    """Where the double asterisks of Markdown's bold text stand in the window. Those of code (`x**2`) are not meant."""
    near = text[max(0, start - _BOLD_REACH) : end + _BOLD_REACH]
    offset = max(0, start - _BOLD_REACH)
    found = (place for match in _BOLD.finditer(near) for place in (match.start(), match.end() - len(_MARK)))
    return [place + offset for place in found if start <= place + offset <= end - len(_MARK)]


def _joined(matches: Iterable[_Match]) -> list[tuple[int, int]]:
    """The places of the matches; pairs of characters that overlap (Chinese and the like) make one."""
    spans: list[tuple[int, int]] = []
    for match in matches:
        if spans and match.start < spans[-1][1]:
            spans[-1] = (spans[-1][0], match.end)
        else:
            spans.append((match.start, match.end))
    return spans

"""Snippets: the passage of a text that best matches a query, with the query's words marked."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from fourfold.text.analysis import TERM_LENGTH, QueryWord, token_spans, token_terms

WIDTH = 240
"""Default number of characters of a snippet."""
_SCANNED_CHARACTERS = 50_000
"""Maximum number of characters of a text that are scanned for matches."""
_LONGEST_WORD = 60
"""Number of characters within which a cut is moved to a space."""
_ELLIPSIS = "…"
_MARK = "**"
_BOLD = re.compile(r"(?<![\w*])\*\*(?=[^\s*])[^\n*]*[^\s*]\*\*(?![\w*])")
_BOLD_REACH = 1000
"""Number of characters around the window in which bold text can begin or end."""


class _Match(NamedTuple):
    start: int
    end: int
    words: frozenset[int]
    """Indexes of the query's words that match here."""


class Highlighted(NamedTuple):
    """A passage of a text, and the spans of the query's words in it."""

    text: str
    marks: tuple[tuple[int, int], ...]

    @property
    def marked(self) -> str:
        """The passage with matches as **word**; unmarked if it contains such asterisks itself."""
        if _MARK in self.text:
            return self.text
        edges = [0, *(edge for mark in self.marks for edge in mark), len(self.text)]
        return _MARK.join(self.text[a:b] for a, b in pairwise(edges))


def snippet(
    text: str,
    query_words: Sequence[QueryWord],
    language: str,
    width: int = WIDTH,
    within: tuple[int, int] | None = None,
) -> str:
    """Return about `width` characters of the text around most of the query's words, marked as **word**.

    `within`: start and end of the part that they are taken from. A text without any of the words gives its beginning.
    """
    return highlighted(text, query_words, language, width, within).marked


def highlighted(
    text: str,
    query_words: Sequence[QueryWord],
    language: str,
    width: int = WIDTH,
    within: tuple[int, int] | None = None,
) -> Highlighted:
    """Return the passage and the spans of the words separately. Markdown marks of bold text are removed."""
    first, last = within or (0, len(text))
    part = text[first:last]
    matches = _matches(part, query_words, language)
    best = _best_window(matches, width)
    start, end = _cut(part, best, width)
    inside = (match for match in matches if start <= match.start and match.end <= end)
    marked = (match._replace(start=match.start + first, end=match.end + first) for match in inside)
    return _highlighted(text, start + first, end + first, marked)


def _matches(text: str, query_words: Sequence[QueryWord], language: str) -> list[_Match]:
    wanted: dict[str, set[int]] = {}
    for number, word in enumerate(query_words):
        for term, _ in word.variants:
            wanted.setdefault(term, set()).add(number)
    terms_of = token_terms(language)
    is_unwanted = wanted.keys().isdisjoint
    matches: list[_Match] = []
    for a, b in _readable_spans(text, query_words) if wanted else ():
        terms = terms_of[text[a:b]]
        if not is_unwanted(terms) and b - a <= TERM_LENGTH:
            matches.append(_Match(a, b, frozenset(number for term in terms for number in wanted.get(term, ()))))
    return matches


def _readable_spans(text: str, query_words: Sequence[QueryWord]) -> Sequence[tuple[int, int]]:
    """The tokens in the scanned part of the text, without those cut off at its ends."""
    start = _scan_start(text, query_words)
    end = start + _SCANNED_CHARACTERS
    spans = token_spans(text, start, end)
    if spans and spans[0][0] == start > 0:
        del spans[0]
    if spans and spans[-1][1] == end < len(text):
        del spans[-1]
    return spans


def _scan_start(text: str, query_words: Sequence[QueryWord]) -> int:
    """0; in a long text a little before the query word whose first occurrence is last, probably the rarest."""
    if len(text) <= _SCANNED_CHARACTERS:
        return 0
    lower = text.lower()
    latest = max((lower.find(spelling) for word in query_words for spelling in _spellings(word)), default=0)
    return 0 if latest < _SCANNED_CHARACTERS // 2 else latest - _SCANNED_CHARACTERS // 4


def _spellings(word: QueryWord) -> list[str]:
    """Spellings of a word in a text: as typed, with umlauts, and its stems."""
    with_umlauts = word.surface.replace("ae", "ä").replace("oe", "ö").replace("ue", "ü")
    return [word.surface, with_umlauts, *(term for term, _ in word.variants if len(term) > 3)]


def _best_window(matches: Sequence[_Match], width: int) -> Sequence[_Match]:
    """The matches in the first window that contains the most distinct words of the query."""
    best, first = (0, 0, 0), 0
    counts: dict[int, int] = {}
    for last, match in enumerate(matches):
        for word in match.words:
            counts[word] = counts.get(word, 0) + 1
        while match.end - matches[first].start > width and first < last:
            _remove(counts, matches[first].words)
            first += 1
        if len(counts) > best[0]:
            best = (len(counts), first, last + 1)
    return matches[best[1] : best[2]]


def _remove(counts: dict[int, int], words: Iterable[int]) -> None:
    for word in words:
        counts[word] -= 1
        if not counts[word]:
            del counts[word]


def _cut(text: str, matches: Sequence[_Match], width: int) -> tuple[int, int]:
    """Start and end of the window around the matches, at word boundaries."""
    if len(text) <= width:
        return 0, len(text)
    if not matches:
        return 0, _space_before(text, width, 0)
    first, last = matches[0].start, matches[-1].end
    spare = max(0, width - (last - first))
    start = _space_after(text, max(0, min(first - spare // 2, len(text) - width)), first)
    return start, _space_before(text, max(start + width, last), last)


def _space_after(text: str, start: int, limit: int) -> int:
    """The next start of a word from `start` on, if there is one nearby, else `start`."""
    if start == 0 or text[start - 1].isspace():
        return start
    near = range(start, min(start + _LONGEST_WORD, limit))
    return next((position + 1 for position in near if text[position].isspace()), min(start, limit))


def _space_before(text: str, end: int, limit: int) -> int:
    """The last end of a word up to `end`, if there is one nearby, else `end`."""
    if end >= len(text) or text[end].isspace():
        return min(end, len(text))
    near = range(end, max(end - _LONGEST_WORD, limit), -1)
    return next((position for position in near if text[position - 1].isspace()), max(end, limit))


def _highlighted(text: str, start: int, end: int, matches: Iterable[_Match]) -> Highlighted:
    cuts = _bold_delimiters(text, start, end)
    edges = [start, *(edge for cut in cuts for edge in (cut, cut + len(_MARK))), end]
    window = "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))
    opening = _ELLIPSIS if text[:start].strip() else ""
    closing = _ELLIPSIS if text[end:].strip() else ""
    shift = len(opening) - start - (len(window) - len(window.lstrip()))

    def shifted(position: int) -> int:
        return position + shift - len(_MARK) * bisect_left(cuts, position)

    marks = tuple((shifted(a), shifted(b)) for a, b in _joined(matches))
    return Highlighted(opening + window.strip() + closing, marks)


def _bold_delimiters(text: str, start: int, end: int) -> list[int]:
    """Positions in the window of double asterisks around Markdown's bold text, without those in code (`x**2`)."""
    offset = max(0, start - _BOLD_REACH)
    around = text[offset : end + _BOLD_REACH]
    delimiters = _BOLD.finditer(around) if _MARK in around else ()
    positions = (offset + edge for match in delimiters for edge in (match.start(), match.end() - len(_MARK)))
    return [position for position in positions if start <= position <= end - len(_MARK)]


def _joined(matches: Iterable[_Match]) -> list[tuple[int, int]]:
    """Spans of the matches; overlapping ones (pairs of characters in Chinese) are merged."""
    spans: list[tuple[int, int]] = []
    for match in matches:
        if spans and match.start < spans[-1][1]:
            spans[-1] = (spans[-1][0], match.end)
        else:
            spans.append((match.start, match.end))
    return spans

"""Analysis of text into index terms: a pure function of text and language, the same for every store."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from math import sqrt
from typing import Final, NamedTuple

from fourfold.text.fold import INVISIBLE, MARKS, caseless, fold, visible
from fourfold.text.language import detect, stem, stop_words

ANALYSER_VERSION = "5"
"""Part of the stamp of every keyword index; a change makes stores rebuild it."""
TERM_LENGTH = 64
"""Maximum number of characters of a term."""
_CACHED_TOKENS = 200_000
_CACHED_QUERY_TOKENS = 10_000
_CACHED_LANGUAGES = 16


class QueryWord(NamedTuple):
    """One word of a query. An item matches it by its best variant, so a word never counts twice."""

    surface: str
    """The folded word, as the user typed it."""
    variants: tuple[tuple[str, float], ...]
    """(index term, weight): the stem in each language of the namespace, and related terms with lower weights.

    A word that occurs n times in the query has weight sqrt(n), and a part of a joined word (`node` of `node.js`) 0.7.
    """


class _Terms(dict[str, tuple[str, ...]]):
    """Cache from a run of tokens to its index terms."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language

    def __missing__(self, run: str) -> tuple[str, ...]:
        parts = [_terms_of(token, self._language) for token in tokens(run)]
        terms = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        if len(run) <= TERM_LENGTH:
            if len(self) >= _CACHED_TOKENS:
                self.clear()
            self[run] = terms
        return terms


@lru_cache(_CACHED_LANGUAGES)
def token_terms(language: str) -> _Terms:
    """Return the mapping from runs of tokens to index terms of a language; it fills itself on access."""
    return _Terms(language)


def analyse(text: str, language: str) -> list[str]:
    """Return the index terms of a text, in order. Terms contain no white space."""
    return list(chain.from_iterable(map(token_terms(language).__getitem__, runs(text))))


def variants(words: Sequence[str], languages: Sequence[str]) -> list[set[str]]:
    """Return for each word its terms in any of the languages, without words that one of these does not index."""
    terms = [[analyse(word, language) for language in languages] for word in words]
    return [set(chain.from_iterable(each)) for each in terms if each and all(each)]


def analyse_item(title: str, text: str, language: str) -> list[str]:
    """Return the index terms of an item. The terms of the title occur twice, which gives them more weight."""
    named = analyse(title, language)
    return [*named, *named, *analyse(text, language)]


def _terms_of(token: str, language: str) -> tuple[str, ...]:
    return tuple([term for piece in pieces(token) if (term := _index_term(piece, language))])


@lru_cache(100_000)
def _index_term(piece: str, language: str) -> str:
    """The term of a piece; empty for a stop word."""
    return "" if fold(piece) in stop_words(language) else _term(piece, language)


def _term(piece: str, language: str) -> str:
    """The stem of a word; a piece with a digit or a symbol is a name and stays unchanged."""
    piece = piece[:TERM_LENGTH]
    if piece.isascii() and not piece.isalpha():
        return piece
    return stem(piece, language if piece.isalpha() else "")[:TERM_LENGTH]


def query_words(text: str, languages: Sequence[str]) -> list[QueryWord]:
    """Return the distinct words of a query in order, each with its stem in every language of the namespace.

    The weight of a word is the square root of its number of occurrences. Stop words of the query's language are
    dropped, unless the query has no other words.
    """
    return distinct_words(query_tokens(text, languages), detect(text, tuple(languages)))


@lru_cache(64)
def words_of_query(text: str, language: str) -> tuple[QueryWord, ...]:
    """The same for one language, remembered: every result of a search asks for it."""
    return tuple(query_words(text, (language,)))


def query_tokens(text: str, languages: Sequence[str]) -> list[tuple[QueryWord, ...]]:
    """Return the tokens of a query, each as the words of weight 1 that are its pieces."""
    return list(map(_token_words(tuple(languages) or ("",)).__getitem__, tokens(text)))


class _TokenWords(dict[str, tuple[QueryWord, ...]]):
    """Cache from a token to its words; those of queries recur."""

    def __init__(self, languages: tuple[str, ...]) -> None:
        super().__init__()
        self._languages = languages

    def __missing__(self, token: str) -> tuple[QueryWord, ...]:
        words = tuple([self._word(piece) for piece in pieces(token)])
        if len(token) <= TERM_LENGTH:
            if len(self) >= _CACHED_QUERY_TOKENS:
                self.clear()
            self[token] = words
        return words

    def _word(self, piece: str) -> QueryWord:
        terms = dict.fromkeys(_term(piece, language) for language in self._languages)
        return QueryWord(fold(piece), tuple([(term, 1.0) for term in terms]))


@lru_cache(_CACHED_LANGUAGES)
def _token_words(languages: tuple[str, ...]) -> _TokenWords:
    return _TokenWords(languages)


def distinct_words(parts: Sequence[Sequence[QueryWord]], language: str) -> list[QueryWord]:
    """Return `query_words` of these tokens of a query in a language."""
    return _merged(parts, stop_words(language)) or _merged(parts, frozenset())


def _merged(parts: Sequence[Sequence[QueryWord]], stops: Collection[str]) -> list[QueryWord]:
    """Merge words that have the same stems (contract, contracts); several pieces of one token count half each."""
    words: list[QueryWord] = []
    counts: dict[tuple[tuple[str, float], ...], float] = {}
    for token in parts:
        share = 1.0 if len(token) == 1 else 0.5
        for word in token:
            if word.surface in stops:
                continue
            if word.variants not in counts:
                words.append(word)
            counts[word.variants] = counts.get(word.variants, 0.0) + share
    counted = zip(words, counts.values(), strict=True)
    return [
        word if count == 1.0 else QueryWord(word.surface, tuple([(term, sqrt(count)) for term, _ in word.variants]))
        for word, count in counted
    ]


# ---------------------------------------------------------------- tokens, and the pieces under which one is indexed

_JOINED = r"{w}++(?:[.@+{hyphens}]{w}++){{0,7}}+(?:(?:\+\+|\#)(?!{w}))?"
_ASCII_TOKEN = re.compile(_JOINED.format(w=r"\w", hyphens="-"), re.ASCII)
_TOKEN = re.compile(_JOINED.format(w=rf"[\w{MARKS}{INVISIBLE}]", hyphens="\u2010\u2011-"))

_BLANKS = "".join(character if re.match(r"[\w.@+#-]", character) else " " for character in map(chr, range(128)))
"""For str.translate: ASCII characters that occur in no token become spaces."""
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts written without spaces between words, and Korean, where particles are attached to nouns."""
_SPACELESS_RUN = re.compile(f"([{_SPACELESS}]+)")
_WORD_RUN = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*")
_ASCII_RUN = re.compile("[A-Za-z0-9]+")
_DIGIT = re.compile("[0-9]")
_TOKEN_CHARACTERS = 256
"""Number of characters of a token that are used; longer tokens are data, not words."""
_JOINT = re.compile("[-_\u2010\u2011]")
_CUT = re.compile("(?<=a)(?=A)|(?<=A)(?=Aa[Aa])|(?<=[Aa]{2})(?=0)|(?<=0)(?=[Aa]{2})")
"""Positions where a word is split, in its shape: capitals as A, digits as 0, all else as a."""
_FOREIGN = re.compile(rf"[^\w{MARKS}.@+#]")
"""Characters that compatibility forms such as ½ bring into a token."""


def tokens(text: str) -> list[str]:
    """Return the words of a text; words joined by dots, hyphens, @, + or _ are one token: `node.js`, `C++`."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def runs(text: str) -> list[str]:
    """Split a text into runs of whole tokens: faster than `tokens`, and equally good as keys of a cache."""
    if not text.isascii():
        return _TOKEN.findall(text)
    return text.replace(". ", " ").translate(_BLANKS).split()


def token_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the tokens between two positions; in scripts without spaces, of every pair of characters."""
    if text.isascii():
        return [match.span() for match in _ASCII_TOKEN.finditer(text, start, end)]
    spans: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text, start, end):
        if match[0].isascii() or not _SPACELESS_RUN.search(match[0]):
            spans.append(match.span())
        else:
            spans += _spaceless_spans(match[0], match.start())
    return spans


def _spaceless_spans(token: str, offset: int) -> Iterator[tuple[int, int]]:
    for run in _SPACELESS_RUN.split(token):
        pair = 2 if _SPACELESS_RUN.match(run) else len(run)
        for start in range(max(1, len(run) - pair + 1) if run else 0):
            yield offset + start, offset + min(start + pair, len(run))
        offset += len(run)


def pieces(token: str) -> list[str]:
    """Return the caseless pieces of a token: the whole first, then its parts, if any."""
    if not token.isascii() and _SPACELESS_RUN.search(token):
        return [piece for run in _SPACELESS_RUN.split(token) if run for piece in _pieces_of_run(run)]
    return _pieces_of_word(token)


def _pieces_of_run(run: str) -> list[str]:
    return bigrams(caseless(run)) if _SPACELESS_RUN.match(run) else _pieces_of_word(run)


def bigrams(run: str) -> list[str]:
    """Return every pair of neighbouring characters; a single character is returned alone."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def _pieces_of_word(token: str) -> list[str]:
    if token[1:].islower() and (word := caseless(token)).isalpha():
        return [word]
    token = visible(token[:_TOKEN_CHARACTERS])
    if token.isascii():
        parts, whole = _ascii_parts(token), token.lower().replace("-", "").replace("_", "")
    else:
        parts = [caseless(hump) for run in _WORD_RUN.findall(token) for hump in humps(run)]
        whole = _JOINT.sub("", caseless(token))
    if not parts or parts == [whole]:
        return parts
    wholes = [] if _FOREIGN.search(whole) else [whole]
    return wholes + [part for part in parts if len(part) > 1 and part != whole]


def _ascii_parts(token: str) -> list[str]:
    """Parts of an ASCII token, without Unicode functions; words in lower case have no humps."""
    parts = _ASCII_RUN.findall(token)
    if token.islower() and not _DIGIT.search(token):
        return parts
    return [hump.lower() for run in parts for hump in humps(run)]


def humps(word: str) -> list[str]:
    """Split camelCase: get User Name, XML Http Request, utf 8; APIs, v2 and Haus stay whole."""
    if (word.isalpha() and (word.islower() or word.istitle() or word.isupper())) or word.isdigit():
        return [word]
    shape = word.translate(_SHAPES) if word.isascii() else "".join(map(_shape, word))
    cuts = [0, *(cut.start() for cut in _CUT.finditer(shape)), len(word)]
    return [word[a:b] for a, b in pairwise(cuts)]


def _shape(character: str) -> str:
    return "A" if character.isupper() else "0" if character.isdigit() else "a"


_SHAPES = "".join(map(_shape, map(chr, range(128))))
"""Shapes of the ASCII characters, for str.translate."""

# ---------------------------------------------------------------- source code
#
# A question in prose about source code shares few words with it, so vectors deserve more weight than the evidence of
# the words says. How much of a store is code is told by words that code uses and prose hardly does.

RETURN: Final = "return"
"""Occurs in most functions of most languages, and in few texts."""
CODE_WORDS: Final = (
    *("def", "elif", "func", "fn", "const", "void", "struct", "null", "bool", "int", "str", "var", "printf", "println"),
    *("nullptr", "endif"),
)
"""Words of several programming languages that are rare in prose."""
MARKERS: Final = (RETURN, *CODE_WORDS)


def code_share(frequencies: Callable[[Sequence[str]], Sequence[int]], documents: int) -> float:
    """Return an estimate of the share of items that are code, in 0..1, from the number of items with each marker.

    Not more than the items with `return`, and not more than those with the most frequent other marker: a text about
    *null mice* or *return journeys* has only one of them.
    """
    returning, *others = frequencies(MARKERS)
    return min(returning, max(others)) / documents if documents else 0.0


def prose_share(tokens: Sequence[Sequence[QueryWord]]) -> float:
    """Return the share of a query's tokens that are not spelled as identifiers: `get_user`, `getUser`, `os.path`."""
    return sum([len(token) == 1 for token in tokens]) / len(tokens) if tokens else 0.0

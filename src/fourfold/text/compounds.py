"""Compounds and misspelt words of a query, resolved at query time by the words that the store has.

Vertrag finds Mietvertrag and Vertragspartner, Mietvertrag finds Vertrag.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import islice, takewhile
from typing import Protocol

from fourfold.text.analysis import QueryWord
from fourfold.text.language import is_strong_verb, stem, stems, verb_forms

COMPOUND_WEIGHT = 0.4
PART_WEIGHT = 0.5
"""Measured on two German collections: values from 0.3 to 0.6 gain the same; with more, compounds outrank the word."""
FORM_WEIGHT = 0.6
"""Weight of other forms of a verb. Values from 0.5 to 0.8 gain the same, 1.0 hardly gains anything."""
RELATIVES = 20
"""Maximum number of compounds and parts of one word."""
_WORD_LETTERS = 4
"""Minimum length of a word that has relatives, or is one."""
_KNOWN_LETTERS = 3
"""Minimum length of the other part of a compound if the lexicon contains it; `_WORD_LETTERS` otherwise."""
_INNER_LETTERS = 5
"""Minimum length of a word that is searched inside longer ones."""
_UNSUPPORTED_LETTERS = 5
"""Minimum length of the other part if neither the lexicon nor a link supports it."""
LONG_TERM_LETTERS = _KNOWN_LETTERS + _INNER_LETTERS + _KNOWN_LETTERS
"""Minimum length of a compound with an inner part."""
_PARTS = 3
"""Maximum number of parts of a compound."""
_CHECKED_TERMS = 200
"""Maximum number of terms of the lexicon that are checked for each end of a word."""
_LINKS = ("", "s", "n", "en", "es", "e", "er", "ungs", "heits", "keits", "schafts", "ions")
"""Letters between parts: Vertrag-s-partner, Sonne-n-schein; or a suffix lost in stemming: Versicher-ungs-fall."""
_PREFIXES = """
    ab an auf aus be bei dar durch ein emp ent er fort ge gegen her hin hinter miss mit nach nieder uber um un unter ur
    ver vor weg wider wied zer zu zuruck zusamm
"""
"""Prefixes form another word, not a compound: bestellen. (Terms are stems, so they have no umlauts.)"""
_SUFFIXES = """
    artig bar chen fach fahig formig frei haft heit ierung igkeit isch keit lein lich ling los massig nis reich sal sam
    schaft tion tum ung voll weis wert wurdig
"""
"""Suffixes are not words: Freundschaft is not a Schaft."""
_NO_MODIFIERS = frozenset(_PREFIXES.split())
_NO_HEADS = frozenset(_SUFFIXES.split())


class Lexicon(Protocol):
    """The index terms of a namespace's German items."""

    def __contains__(self, term: object, /) -> bool: ...

    def starting(self, prefix: str, limit: int) -> Sequence[str]:
        """Return up to `limit` terms that start with `prefix`, always the same ones."""
        ...

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        """Return up to `limit` terms that end with `suffix`, always the same ones."""
        ...

    def containing(self, part: str, limit: int) -> Sequence[str]:
        """Return up to `limit` terms of at least LONG_TERM_LETTERS that contain `part`, always the same ones."""
        ...


class SortedLexicon:
    """A lexicon in memory."""

    def __init__(self, terms: Iterable[str]) -> None:
        self._all = frozenset(terms)
        self._terms = sorted(self._all)
        self._reversed = sorted(term[::-1] for term in self._terms)

    @cached_property
    def _long(self) -> str:
        """The terms that may have an inner part, each surrounded by spaces."""
        return " ".join(["", *(term for term in self._terms if len(term) >= LONG_TERM_LETTERS), ""])

    def __contains__(self, term: object, /) -> bool:
        return term in self._all

    def starting(self, prefix: str, limit: int) -> Sequence[str]:
        return list(islice(_starting(self._terms, prefix), limit))

    def ending(self, suffix: str, limit: int) -> Sequence[str]:
        return [term[::-1] for term in islice(_starting(self._reversed, suffix[::-1]), limit)]

    def containing(self, part: str, limit: int) -> Sequence[str]:
        return list(islice(self._containing(part), limit))

    def _containing(self, part: str) -> Iterator[str]:
        terms, end = self._long, 0
        while (place := terms.find(part, end)) >= 0:
            end = terms.index(" ", place)
            yield terms[terms.rindex(" ", 0, place) + 1 : end]


def _starting(terms: list[str], prefix: str) -> Iterator[str]:
    first = bisect_left(terms, prefix)
    return takewhile(lambda term: term.startswith(prefix), islice(terms, first, None))


def with_relatives(word: QueryWord, lexicon: Lexicon, *, inner: bool = True) -> QueryWord:
    """Add the German relatives of a query word to its variants, each with its share of the word's weight."""
    term = stem(word.surface, "de")
    own = dict(word.variants)
    if term not in own:
        return word
    forms = dict.fromkeys((form for form in sorted(verb_forms(word.surface)) if form in lexicon), FORM_WEIGHT)
    related = {**dict(relatives(term, lexicon, inner=inner)), **forms}
    weighed = [(relative, share * own[term]) for relative, share in related.items() if relative not in own]
    return word._replace(variants=(*word.variants, *weighed))


def relatives(term: str, lexicon: Lexicon, *, inner: bool = True) -> list[tuple[str, float]]:
    """Return the parts of a German term, then compounds with it, with weights below 1.

    `inner`: include compounds with the term between other parts, which scans the whole lexicon.
    """
    if len(term) < _WORD_LETTERS or not term.isalpha() or term in _NO_HEADS:
        return []
    compounds = {*_ending_with(term, lexicon), *_starting_with(term, lexicon)}
    if inner and len(term) >= _INNER_LETTERS:
        compounds |= {*_with_inner(term, lexicon)}
    closest = sorted(compounds, key=lambda compound: (len(compound), compound))
    weights = dict.fromkeys(closest, COMPOUND_WEIGHT)
    weights = dict.fromkeys(_parts(term, lexicon), PART_WEIGHT) | weights
    return [(relative, weight) for relative, weight in weights.items() if relative != term][:RELATIVES]


def _ending_with(term: str, lexicon: Lexicon) -> Iterator[str]:
    """Mietvertrag for Vertrag."""
    for compound in lexicon.ending(term, _CHECKED_TERMS):
        if _is_modifier(compound.removesuffix(term), lexicon):
            yield compound


def _starting_with(term: str, lexicon: Lexicon) -> Iterator[str]:
    """Vertragspartner for Vertrag."""
    for compound in lexicon.starting(term, _CHECKED_TERMS):
        if _continues(compound.removeprefix(term), lexicon):
            yield compound


def _with_inner(term: str, lexicon: Lexicon) -> Iterator[str]:
    """Krankenversicherungskarte for Versicherung."""
    for compound in lexicon.containing(term, _CHECKED_TERMS):
        before, _, after = compound.partition(term)
        if before and after and _is_modifier(before, lexicon) and _continues(after, lexicon):
            yield compound


def _continues(rest: str, lexicon: Lexicon) -> bool:
    """Whether `rest` can follow a part of a compound."""
    heads = [(rest.removeprefix(link), link) for link in _LINKS if rest.startswith(link)]
    return any(_is_head(head, lexicon) or _may_be_head(head, link) for head, link in heads)


def _parts(term: str, lexicon: Lexicon) -> list[str]:
    """Vertrag and Miete for Mietvertrag: the longest head in the lexicon, and the parts of the rest."""
    for cut in range(_KNOWN_LETTERS, len(term) - _WORD_LETTERS + 1):
        modifier, head = term[:cut], term[cut:]
        if _is_head(head, lexicon) and _is_modifier(modifier, lexicon):
            return [head, *_modifier_parts(modifier, lexicon)][:_PARTS]
    return []


def _modifier_parts(modifier: str, lexicon: Lexicon) -> list[str]:
    """Krankenversicherung for krankenversicherungs; Versicherung if that is not in the lexicon."""
    modifiers = [word for word in _known_modifiers(modifier, lexicon) if len(word) >= _WORD_LETTERS]
    if modifiers:
        return modifiers[:1]
    words = (modifier.removesuffix(link) for link in _LINKS if link and modifier.endswith(link))
    return next((parts for word in words if (parts := _parts(word, lexicon))), list[str]())


def _is_head(rest: str, lexicon: Lexicon) -> bool:
    return len(rest) >= _KNOWN_LETTERS and rest not in _NO_HEADS and rest in lexicon


def _may_be_head(rest: str, link: str) -> bool:
    """Accept a head outside the lexicon if a link or its length supports it: vertraglich has neither."""
    if not rest.isalpha() or rest in _NO_HEADS:
        return False
    if not link:
        return len(rest) >= _UNSUPPORTED_LETTERS and not rest.startswith(tuple(_NO_HEADS))
    return len(rest) >= (_KNOWN_LETTERS if link == "s" else _WORD_LETTERS)


def _is_modifier(start: str, lexicon: Lexicon) -> bool:
    if start in _NO_MODIFIERS or not start.isalpha():
        return False
    return len(start) >= _WORD_LETTERS or next(_known_modifiers(start, lexicon), "") != ""


def _known_modifiers(start: str, lexicon: Lexicon) -> Iterator[str]:
    """Words of the lexicon that the first part of a compound can be: Vertrag for vertrags, Sonne for sonnen."""
    for link in _LINKS:
        word = start.removesuffix(link)
        if start.endswith(link) and len(word) >= _KNOWN_LETTERS and (stemmed := stem(word, "de")) in lexicon:
            yield stemmed


# ---------------------------------------------------------------- misspelt words
#
# A word that no item contains may be a typing error, unless it is a common word: in a small store most words of a
# question occur nowhere, and "locked" does not mean "looked". Every spelling that one edit (a letter too many, missing
# or wrong, or two neighbours exchanged) turns it into is looked up among the store's words, so no index is needed
# besides that of the words themselves, and an error is found wherever it is, also in an ending that stemming removes.

CORRECTED_WEIGHT = 0.8
"""Weight of a corrected spelling, compared with 1 for a word that occurs as it was typed."""
MOST_WORDS = 4
"""Maximum number of words of one query that are corrected."""
MOST_SPELLINGS = 3
"""Maximum number of terms that replace one word."""
_LETTERS = range(4, 25)
"""Length of the words that are corrected: a shorter word has too many neighbours."""
_FIRST_LETTER_TOO = 6
"""Length of the words whose first letter is corrected, too."""
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρσςτυφχψω")
Frequencies = Callable[[Sequence[str]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Correction:
    """A word that occurs in no item, and the words that it may mean."""

    surface: str
    """The folded word, as the user typed it."""
    spellings: tuple[str, ...]
    """The most frequent first."""
    terms: tuple[str, ...]
    """Their index terms."""
    items: tuple[int, ...]
    """The number of items that contain each term."""


def corrections(
    unknown: Sequence[QueryWord], languages: Sequence[str], frequencies: Frequencies
) -> dict[str, Correction]:
    """Return the corrections of words that occur in no item, by their surface. One call of `frequencies` for all."""
    words = [word.surface for word in unknown if can_be_corrected(word.surface)][:MOST_WORDS]
    terms = {word: spelling_terms(word, languages or ("",)) for word in words}
    every = list(dict.fromkeys(term for best in terms.values() for term in best))
    counts = dict(zip(every, frequencies(every), strict=True)) if every else {}
    best = {word: _best(word, terms[word], counts) for word in words}
    return {word: correction for word, correction in best.items() if correction is not None}


def can_be_corrected(word: str) -> bool:
    if len(word) not in _LETTERS or not word.isalpha() or _alphabet(word) == "":
        return False
    return word not in _common_words() and not is_strong_verb(word)


@cache
def _common_words() -> frozenset[str]:
    """Words, folded, that the vocabulary of the built-in encoder has as a whole."""
    pieces = files("fourfold").joinpath("embed", "encoders", "vocab.txt").read_text("utf-8").split("\n")
    return frozenset(piece for piece in pieces if piece.isalpha())


def _best(word: str, terms: Mapping[str, str], counts: Mapping[str, int]) -> Correction | None:
    frequent = sorted((term for term in terms if counts[term]), key=lambda term: (-counts[term], term))[:MOST_SPELLINGS]
    spellings, items = tuple(terms[term] for term in frequent), tuple(counts[term] for term in frequent)
    return Correction(word, spellings, tuple(frequent), items) if frequent else None


def spelling_terms(word: str, languages: Iterable[str]) -> dict[str, str]:
    """Return the index terms of all spellings, each with the likeliest spelling that has it."""
    by_term: dict[str, str] = {}
    spellings = edits(word)
    for language in languages:
        terms = stems(spellings, language) if word.isascii() else [stem(each, language) for each in spellings]
        for term, spelling in zip(terms, spellings, strict=True):
            by_term.setdefault(term, spelling)
    return by_term


def edits(word: str) -> list[str]:
    """Return every spelling at one edit, the likeliest kind of error first: exchanged, missing, additional, wrong.

    The first letter of a short word stays: errors are rare there, and many words differ only in it.
    """
    letters = _alphabet(word)
    cuts = range(0 if len(word) >= _FIRST_LETTER_TOO else 1, len(word))
    exchanged = [word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)]
    longer = [word[:i] + letter + word[i:] for i in (*cuts, len(word)) for letter in letters]
    shorter = [word[:i] + word[i + 1 :] for i in cuts]
    replaced = [word[:i] + letter + word[i + 1 :] for i in cuts for letter in letters]
    return [each for each in dict.fromkeys((*exchanged, *longer, *shorter, *replaced)) if each != word]


def _alphabet(word: str) -> str:
    """The alphabet of all letters of a folded word; empty if there is none."""
    return next((alphabet for alphabet in _ALPHABETS if set(word) <= set(alphabet)), "")

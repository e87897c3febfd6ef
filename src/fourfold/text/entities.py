"""Names: how they are stored, which of them a query may mean, and which of them a text mentions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise

from fourfold.text.fold import INVISIBLE, MARKS, fold
from fourfold.text.stopwords import stop_words

NAME_WORDS = 6
"""A query is searched for names of up to this many words."""

QUERY_NAMES = 400
"""So many names are looked up for one query: about its first 70 words, and what is quoted or capitalised anywhere."""

_SHORTEST_MENTION = 3
_CACHED_WORDS = 200_000
_CACHED_LENGTH = 64

_NAME_WORD = re.compile(rf"\w[\w{MARKS}{INVISIBLE}]*+(?:(?:\+\+|\#)(?![\w{MARKS}]))?")
_ASCII_NAME_WORD = re.compile(r"\w++(?:(?:\+\+|#)(?!\w))?", re.ASCII)
_LABELLED = re.compile(r"(?P<name>.*\S)(?<!\\)#(?P<label>[^\W\d_][^#]*)", re.DOTALL)
_QUOTED = re.compile('["“„»«]([^"“”„«»\n]{2,200})["”“«»]|`([^`\n]{2,200})`')
_STOP_WORDS = stop_words("en") | stop_words("de")


class _FoldedWords(dict[str, str]):
    """Words in their folded form, in which they stay one word whatever compatibility forms (½) turn into."""

    def __missing__(self, word: str) -> str:
        folded = "".join(_spelled(fold(word))) or word
        if len(word) <= _CACHED_LENGTH:
            if len(self) >= _CACHED_WORDS:
                self.clear()
            self[word] = folded
        return folded


_FOLDED = _FoldedWords()


def _spelled(text: str) -> list[str]:
    if "_" in text:
        text = text.replace("_", " ")
    return (_ASCII_NAME_WORD if text.isascii() else _NAME_WORD).findall(text)


def normal_name(name: str) -> str:
    """The form under which a name or alias is stored and looked up: folded words, one space between."""
    return " ".join(map(_FOLDED.__getitem__, _spelled(name)))


def split_label(reference: str) -> tuple[str, str | None]:
    """Name and label of a reference to a node, `Ada#person`. A label starts with a letter: `C#` and `PR#12` have none.

    `\\#` belongs to the name.
    """
    found = _LABELLED.fullmatch(reference)
    name, label = (found["name"], found["label"].strip()) if found else (reference, None)
    return name.replace("\\#", "#"), label


def with_label(name: str, label: str) -> str:
    """The reference that `split_label` takes apart."""
    return name.replace("#", "\\#") + f"#{label}"


def title_names(title: str) -> list[str]:
    """The names that a title gives: itself, and without what only tells it from others, as in `Mercury (planet)`."""
    return [name for name in (title, _unqualified(title)) if normal_name(name)]


def _unqualified(title: str) -> str:
    """What stands before the bracket that ends a title; nothing if there is none."""
    start = title.rfind("(")
    ends = title.rstrip().endswith(")") and title.count(")", start) == 1
    return title[:start].strip() if ends and title[:start].endswith(" ") else ""


def query_names(text: str) -> list[str]:
    """The names that a query may mean, in normal form: what is quoted, what is capitalised, then every run of words."""
    spelled = _spelled(text)
    candidates = (*_quoted(text), *_capitalised(spelled), *_runs(spelled))
    return list(dict.fromkeys(filter(None, candidates)))[:QUERY_NAMES]


def spelled_names(text: str) -> list[str]:
    """Those of `query_names` that are spelled as names, not just words which something happens to be called.

    That is what is quoted, and what has a capital (or no case at all) somewhere behind the first word. Who writes all
    in lower case leaves that sign out: then a name of two or more words counts as one.
    """
    spelled = _spelled(text)
    signs = [place > 0 and _is_spelled_as_name(word) for place, word in enumerate(spelled)]
    fewest = 1 if any(signs) else 2
    runs = _runs(spelled, lambda start, end: end - start >= fewest and (fewest == 2 or any(signs[start:end])))
    return list(dict.fromkeys(filter(None, (*_quoted(text), *_capitalised(spelled[1:]), *runs))))[:QUERY_NAMES]


def _quoted(text: str) -> Iterator[str]:
    return (normal_name(found[1] or found[2]) for found in _QUOTED.finditer(text))


def _capitalised(spelled: list[str]) -> Iterator[str]:
    """Neighbouring capitalised words as one name, and each alone, but for a stop word that only starts the text."""
    for capital, group in groupby(enumerate(spelled), key=lambda pair: pair[1][0].isupper()):
        if capital:
            names = [(place, _FOLDED[word]) for place, word in group]
            yield " ".join(name for _, name in names[:NAME_WORDS]) if len(names) > 1 else ""
            yield from (name for place, name in names if place > 0 or name not in _STOP_WORDS)


def _runs(spelled: list[str], wanted: Callable[[int, int], bool] = lambda start, end: True) -> Iterator[str]:
    """Every run of words from one place up to another that is wanted."""
    folded = [_FOLDED[word] for word in spelled[:QUERY_NAMES]]
    for start in range(len(folded)):
        for end in range(min(start + NAME_WORDS, len(folded)), start, -1):
            if (end > start + 1 or folded[start] not in _STOP_WORDS) and wanted(start, end):
                yield " ".join(folded[start:end])


class _Branch(dict[str, "_Branch"]):
    """Names as a tree of words: below each word those that follow it, and END where a name ends."""


_END = ""


class NameFinder:
    """Finds the names that a text mentions, however many names there are: a text is read once, word by word."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` in normal form, here as in `add` and `discard`."""
        self._root = _Branch()
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        for name in filter(_can_be_mentioned, names):
            branch = self._root
            for word in name.split():
                branch = branch.setdefault(word, _Branch())
            branch[_END] = _NOTHING

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            _prune(self._root, name.split())

    def find(self, text: str) -> list[str]:
        """The names mentioned in a text, each once, in order. The longest wins; no word belongs to two."""
        spelled = _spelled(text)
        folded = [*map(_FOLDED.__getitem__, spelled), _END]
        found: dict[str, None] = {}
        free = 0
        for start, branch in self._openings(folded):
            if start >= free and (end := _end(branch, spelled, folded, start)):
                found[" ".join(folded[start:end])] = None
                free = end
        return list(found)

    def _openings(self, folded: list[str]) -> list[tuple[int, _Branch]]:
        """Where a name may start: at one of a single word, or at two words that a name starts with."""
        branches = enumerate(map(self._root.get, folded))
        return [(i, branch) for i, branch in branches if branch and (_END in branch or folded[i + 1] in branch)]


def beginnings(texts: Iterable[str]) -> tuple[set[str], set[str]]:
    """What a name that is mentioned in one of these texts begins with: its only word, or its first two."""
    words: set[str] = set()
    pairs: set[str] = set()
    for text in texts:
        folded = [_FOLDED[word] for word in _spelled(text)]
        words.update(folded)
        pairs.update(map(" ".join, pairwise(folded)))
    return words, pairs


def _end(branch: _Branch, spelled: list[str], folded: list[str], start: int) -> int:
    """Where the longest name that starts here ends; 0 for none."""
    place = start + 1
    end = place if _END in branch and _is_spelled_as_name(spelled[start]) else 0
    while following := branch.get(folded[place]):
        branch, place = following, place + 1
        if _END in branch:
            end = place
    return end


_NOTHING = _Branch()


def _prune(branch: _Branch, words: list[str]) -> None:
    """Takes a name out, and with it every word that only led to it. A name may have a thousand words: no recursion."""
    way = [branch]
    for word in words:
        following = way[-1].get(word)
        if following is None:
            return
        way.append(following)
    way[-1].pop(_END, None)
    for above, word in zip(reversed(way[:-1]), reversed(words), strict=True):
        if above[word]:
            return
        del above[word]


def _can_be_mentioned(name: str) -> bool:
    """Names that would be found everywhere are none: `it`, `2024`, `to be`."""
    has_letter = any(map(str.isalpha, name))
    return len(name) >= _SHORTEST_MENTION and has_letter and not _STOP_WORDS.issuperset(name.split())


def _is_spelled_as_name(word: str) -> bool:
    """Apple and utf8 may be names where apple is a word; text without case has to go without this sign."""
    return not word.islower() or not word.isalpha()

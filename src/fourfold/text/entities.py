"""Names: of graph nodes, in their stored form, in a query and in a text; of files in a query; and links in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise
from typing import Any, cast
from urllib.parse import unquote

from fourfold.limits import NAME_BYTES
from fourfold.text.fold import INVISIBLE, MARKS, fold
from fourfold.text.language import stop_words

NAME_WORDS = 6
"""Maximum number of words of a name in a query."""
LONG_NAME_WORDS = 14
"""The same for a name whose first and last words are spelled as names: The Day They Robbed the Bank of England."""
_MOST_LONG_NAMES = 100
_MENTION_WORDS = 32
"""Maximum number of words of a name that texts are searched for: the cost is this number for each word of a text."""

QUERY_NAMES = 400
"""Maximum number of names looked up for one query: about its first 70 words, and all quoted or capitalised names."""
_SHORTEST_MENTION_LETTERS = 3
_CACHED_WORDS = 200_000
_CACHED_LENGTH = 64

_NAME_WORD = re.compile(rf"\w[\w{MARKS}{INVISIBLE}]*+(?:(?:\+\+|\#)(?![\w{MARKS}]))?")
_ASCII_NAME_WORD = re.compile(r"\w++(?:(?:\+\+|#)(?!\w))?", re.ASCII)
_LABELLED = re.compile(r"(?P<name>.*\S)(?<!\\)#(?P<label>[^\W\d_][^#]*)", re.DOTALL)
_QUOTED = re.compile('["“„»«]([^"“”„«»\n]{2,200})["”“«»]|`([^`\n]{2,200})`')
_PLAIN = re.compile(r"[a-z\s,.;:?!'()/-]*")
"""A query in which nothing is quoted, and no word is spelled as a name."""
_STOP_WORDS = stop_words("en") | stop_words("de")


class _FoldedWords(dict[str, str]):
    """Cache of folded words. A word stays one word, even if a compatibility form (½) folds to several."""

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
    """Return the form in which a name or alias is stored and looked up: folded words separated by one space."""
    return " ".join(map(_FOLDED.__getitem__, _spelled(name)))


def split_label(reference: str) -> tuple[str, str | None]:
    """Split a reference to a node, `Ada#person`, into name and label.

    A label starts with a letter (`C#` and `PR#12` have none); `\\#` is part of the name.
    """
    match = _LABELLED.fullmatch(reference)
    name, label = (match["name"], match["label"].strip()) if match else (reference, None)
    return name.replace("\\#", "#"), label


def with_label(name: str, label: str) -> str:
    """Join name and label to a reference that `split_label` can split."""
    return name.replace("#", "\\#") + f"#{label}"


def title_names(title: str) -> list[str]:
    """Return the names in a title: the title itself, and without a qualifier as in `Mercury (planet)`."""
    return [name for name in (title, _unqualified(title)) if normal_name(name)]


def _unqualified(title: str) -> str:
    """The part of a title before a final bracket; empty if it has none."""
    start = title.rfind("(")
    ends = title.rstrip().endswith(")") and title.count(")", start) == 1
    return title[:start].strip() if ends and title[:start].endswith(" ") else ""


def query_names(text: str) -> list[str]:
    """Return candidate names in a query, in normal form: quoted text, capitalised words, then every run of words."""
    spelled = _spelled(text)
    marked = [] if _PLAIN.fullmatch(text) else [*_quoted(text), *_capitalised(spelled), *_long_names(spelled)]
    return list(dict.fromkeys(marked + _runs(spelled)))[:QUERY_NAMES]


def spelled_names(text: str) -> list[str]:
    """Return those of `query_names` that are spelled as names rather than as ordinary words.

    These are quoted, or contain a word after the first one that is capitalised or has no case. In a query without
    capitals, every name of two or more words counts.
    """
    spelled = _spelled(text)
    if _PLAIN.fullmatch(text):
        return list(dict.fromkeys(_runs(spelled, fewest=2)))[:QUERY_NAMES]
    marked = [place > 0 and _is_spelled_as_name(word) for place, word in enumerate(spelled)]
    runs = _marked_runs(spelled, marked) if any(marked) else _runs(spelled, fewest=2)
    names = [*_quoted(text), *_capitalised(spelled[1:]), *_long_names(spelled), *runs]
    return list(dict.fromkeys(names))[:QUERY_NAMES]


def without_names(text: str, names: Iterable[str]) -> str:
    """Return the words of a query that are in none of these names; empty if only stop words are left."""
    named = {word for name in names for word in name.split()}
    rest = [word for word in _spelled(text) if _FOLDED[word] not in named]
    return " ".join(rest) if any(len(word) > 1 and _FOLDED[word] not in _STOP_WORDS for word in rest) else ""


def _quoted(text: str) -> list[str]:
    if text.isascii() and '"' not in text and "`" not in text:
        return []
    names = [normal_name(match[1] or match[2]) for match in _QUOTED.finditer(text)]
    return [name for name in names if name]


def _capitalised(spelled: list[str]) -> list[str]:
    """Neighbouring capitalised words as one name, and each alone, except a stop word at the start of the text."""
    capitalised: list[str] = []
    if "".join(spelled).islower():
        return capitalised
    capitals = [word[0].isupper() for word in spelled]
    for capital, group in groupby(range(len(spelled)), key=capitals.__getitem__):
        if capital:
            names = [(place, _FOLDED[spelled[place]]) for place in group]
            if len(names) > 1:
                capitalised.append(" ".join(name for _, name in names[:NAME_WORDS]))
            capitalised += [name for place, name in names if place > 0 or name not in _STOP_WORDS]
    return capitalised


def _long_names(spelled: list[str]) -> list[str]:
    """Runs of more than NAME_WORDS words from one that is spelled as a name to another, the longest first."""
    if len(spelled) <= NAME_WORDS:
        return []
    marked = [place for place, word in enumerate(spelled[:QUERY_NAMES]) if _is_spelled_as_name(word)]
    names = (
        " ".join(map(_FOLDED.__getitem__, spelled[start : end + 1]))
        for place, start in enumerate(marked)
        for end in reversed(marked[place + 1 : place + LONG_NAME_WORDS])
        if NAME_WORDS <= end - start < LONG_NAME_WORDS
    )
    return list(islice(names, _MOST_LONG_NAMES))


def _runs(spelled: list[str], *, fewest: int = 1) -> list[str]:
    """Every run of `fewest` to NAME_WORDS words, the longest from each word first; a stop word alone is not a run."""
    folded = [_FOLDED[word] for word in spelled[:QUERY_NAMES]]
    runs: list[str] = []
    for start, run in enumerate(folded):
        longer = [] if fewest > 1 or run in _STOP_WORDS else [run]
        for word in folded[start + 1 : start + NAME_WORDS]:
            run = f"{run} {word}"
            longer.append(run)
        runs += reversed(longer)
    return runs


def _marked_runs(spelled: list[str], marked: Sequence[bool]) -> list[str]:
    """Those of the runs that contain a marked word."""
    folded = [_FOLDED[word] for word in spelled[:QUERY_NAMES]]
    return [
        run
        for start in range(len(folded))
        for end in range(min(start + NAME_WORDS, len(folded)), start, -1)
        if any(marked[start:end]) and (run := " ".join(folded[start:end])) not in _STOP_WORDS
    ]


class _Branch(dict[str, "_Branch"]):
    """Trie of names by word: each word maps to the words that follow it, and END marks the end of a name."""


_END = ""


class NameFinder:
    """Finds the names mentioned in a text in one pass, in time independent of the number of names."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names` must be in normal form, here and in `add` and `discard`."""
        self._root = _Branch()
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        for name in filter(_can_be_mentioned, names):
            branch = self._root
            for word in name.split():
                branch = branch.setdefault(word, _Branch())
            branch[_END] = _EMPTY

    def discard(self, names: Iterable[str]) -> None:
        for name in names:
            _prune(self._root, name.split())

    def find(self, text: str) -> list[str]:
        """Return the names mentioned in a text, each once, in order. The longest wins; names do not overlap."""
        spelled = _spelled(text)
        folded = [*map(_FOLDED.__getitem__, spelled), _END]
        nodes: dict[str, None] = {}
        free = 0
        for start, branch in self._openings(folded):
            if start >= free and (end := _end(branch, spelled, folded, start)):
                nodes[" ".join(folded[start:end])] = None
                free = end
        return list(nodes)

    def _openings(self, folded: list[str]) -> list[tuple[int, _Branch]]:
        """Positions where a name can start: at a name of one word, or at the first two words of a name."""
        branches = enumerate(map(self._root.get, folded))
        return [(i, branch) for i, branch in branches if branch and (_END in branch or folded[i + 1] in branch)]


def beginnings(texts: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return all words, and all pairs of neighbouring words, with which a name mentioned in the texts can start."""
    words: set[str] = set()
    pairs: set[str] = set()
    for text in texts:
        folded = [_FOLDED[word] for word in _spelled(text)]
        words.update(folded)
        pairs.update(map(" ".join, pairwise(folded)))
    return words, pairs


def _end(branch: _Branch, spelled: list[str], folded: list[str], start: int) -> int:
    """End of the longest name that starts at `start`; 0 if there is none."""
    place = start + 1
    end = place if _END in branch and _is_spelled_as_name(spelled[start]) else 0
    while following := branch.get(folded[place]):
        branch, place = following, place + 1
        if _END in branch:
            end = place
    return end


_EMPTY = _Branch()


def _prune(branch: _Branch, words: list[str]) -> None:
    """Remove a name and the branches that only led to it. Not recursive, because a name may have a thousand words."""
    path = [branch]
    for word in words:
        following = path[-1].get(word)
        if following is None:
            return
        path.append(following)
    path[-1].pop(_END, None)
    for above, word in zip(reversed(path[:-1]), reversed(words), strict=True):
        if above[word]:
            return
        del above[word]


def _can_be_mentioned(name: str) -> bool:
    """Reject names that would match everywhere (`it`, `2024`, `to be`), and titles as long as a text."""
    words, has_letter = name.split(), any(map(str.isalpha, name))
    fits = len(name) >= _SHORTEST_MENTION_LETTERS and len(words) <= _MENTION_WORDS
    return fits and has_letter and not _STOP_WORDS.issuperset(words)


def _is_spelled_as_name(word: str) -> bool:
    """Whether a word can be a name: Apple and utf8 can, apple cannot, and words of scripts without case can."""
    return not word.islower() or not word.isalpha()


# ---------------------------------------------------------------- links and headings of Markdown texts

_WITHOUT_HEADINGS = ("code", "exchange")
_HEADINGS = 64
"""Maximum number of headings of an item that become names; likewise for aliases."""
_ALIASES = 64

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?=[ \t])")
_CLOSING_HASHES = re.compile(r"[ \t]#+$")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`).{1,300}?(?<!`)\1(?!`)")
_LINK = re.compile(
    r"\[\[(?P<page>[^\[\]|#\n]{0,400})(?:#(?P<part>[^\[\]|\n]{1,400}))?(?:\|[^\[\]\n]{0,400})?\]\]"
    r"|(?<!!)\[(?P<label>[^\[\]\n]{1,400})\]\([ \t]*<?(?P<target>[^()<>\s]{1,1000})"
)
_EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def links(text: str) -> list[str]:
    """Return the names that the Markdown links and [[wiki links]] of a text point to, each once, in order.

    A page may be known by its file name or by its title, so a link to a file gives two names: that of the file without
    folder and suffix, and the label. External links and links in code are skipped.
    """
    if "](" not in text and "[[" not in text:
        return []
    prose = _INLINE_CODE.sub("", "\n".join(_prose(text)))
    names = (name for match in _LINK.finditer(prose) for name in _names(match))
    return list(dict.fromkeys(filter(None, map(str.strip, names))))


def _names(match: re.Match[str]) -> Iterator[str]:
    if match["target"] is None:
        page = match["page"] or match["part"] or ""
        yield page.removesuffix(".md")
        yield _file_name(page)
    elif not _EXTERNAL.match(match["target"]):
        page, _, part = unquote(match["target"]).partition("#")
        yield _file_name(page) if page else part
        yield match["label"].strip("*_")


def _file_name(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and stem and suffix.isalnum() else name


def headings(text: str) -> list[str]:
    """Return the ATX headings (`# like this`) of a Markdown text, in order, without those in fenced code."""
    if "#" not in text:
        return []
    matches = ((line, _HEADING.match(line)) for line in _prose(text))
    titles = (_CLOSING_HASHES.sub("", line[match.end() :].strip()).strip() for line, match in matches if match)
    return [title for title in titles if title.strip("#")]


def has_headings(kind: str | None) -> bool:
    """Whether a line `# like this` in an item of this kind names something.

    In code it is a comment; an answer of an assistant has headings such as Summary.
    """
    return kind not in _WITHOUT_HEADINGS


def own_names(title: str, text: str, metadata: Mapping[str, Any], kind: str | None) -> list[str]:
    """Return the names of an item: its title, the headings of its text, and the aliases in its metadata."""
    aliases: object = metadata.get("aliases")
    listed = cast("list[object]", aliases) if isinstance(aliases, list) else []
    named = [alias for alias in listed[:_ALIASES] if isinstance(alias, str) and len(alias.encode()) <= NAME_BYTES]
    headed = headings(text)[:_HEADINGS] if has_headings(kind) else []
    return [name for each in (title, *named, *headed) for name in title_names(each)]


def _prose(text: str) -> Iterator[str]:
    """The lines of a text outside fenced code. An unclosed fence extends to the end of the text."""
    fence = ""
    for line in text.split("\n"):
        marks = _FENCE.match(line)
        if not fence and marks:
            fence = marks[1]
        elif not fence:
            yield line
        elif marks and marks[1].startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""


# ---------------------------------------------------------------- file names in queries

_FILE_QUERY_WORDS = 100
"""Number of words of a query that are checked."""
_FILE_NAME_WORDS = 6
"""Maximum number of words in a file name with spaces."""
_IMPOSSIBLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that no stored path contains."""
_PUNCTUATION = "\"'`“”„‚‘’»«,;:?!()[]{}<>*"


def file_names(text: str) -> dict[str, str]:
    """Map each folded possible file name in the query to its spelling there, including folders before it."""
    possible = text if text.isascii() and "\0" not in text else _IMPOSSIBLE.sub(" ", text)
    words = possible.split()[:_FILE_QUERY_WORDS]
    if not words:
        return {}
    spelled = _file_runs(words)[::-1]
    names = list(map(_name, spelled)) if "/" in text or "\\" in text else spelled
    folded = fold("\n".join(names)).split("\n")
    return {name: run for name, run in zip(folded, spelled, strict=True) if name}


def _file_runs(words: Sequence[str]) -> list[str]:
    """Each word, and runs of words that end with a suffix such as .md."""
    runs: list[str] = []
    for end, word in enumerate(words, start=1):
        bare = word.strip(_PUNCTUATION).rstrip(".").rstrip(_PUNCTUATION)
        runs.append(bare)
        if "." in bare.lstrip("."):
            starts = range(max(0, end - _FILE_NAME_WORDS), end - 1)
            runs += [" ".join([*words[start : end - 1], bare]).lstrip(_PUNCTUATION) for start in starts]
    return runs


def _name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def named_files(spelled: Mapping[str, str], names: Sequence[tuple[int, str]]) -> dict[str, list[int]]:
    """Group the chunks (id, path) in `names` by path, keeping files that the query names."""
    files: dict[str, list[int]] = {}
    for item, path in names:
        if _means(spelled.get(fold(_name(path)), ""), path):
            files.setdefault(path, []).append(item)
    return files


def _means(spelled: str, path: str) -> bool:
    """Whether the query means this file: folders must match, and a name without a suffix must match exactly."""
    wanted = spelled.replace("\\", "/").lstrip("./")
    if "/" in wanted:
        return fold(f"/{path}").endswith(fold(f"/{wanted}"))
    return "." in wanted.lstrip(".") or wanted == _name(path)

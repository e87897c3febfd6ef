"""A text as tokens, and a token as the pieces under which it can be found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from fourfold.text.fold import INVISIBLE, MARKS, caseless, visible

_JOINED = r"{w}++(?:[.@+{hyphens}]{w}++){{0,7}}+(?:(?:\+\+|\#)(?!{w}))?"
_ASCII_TOKEN = re.compile(_JOINED.format(w=r"\w", hyphens="-"), re.ASCII)
_TOKEN = re.compile(_JOINED.format(w=rf"[\w{MARKS}{INVISIBLE}]", hyphens="\u2010\u2011-"))

_BLANKS = "".join(character if re.match(r"[\w.@+#-]", character) else " " for character in map(chr, range(128)))
"""For str.translate: what is in no token of an ASCII text becomes a space."""

_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts written without spaces between words (and Korean, whose particles stick to the noun)."""

_SPACELESS_RUN = re.compile(f"([{_SPACELESS}]+)")
_WORD_RUN = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*")
_ASCII_RUN = re.compile("[A-Za-z0-9]+")
_DIGIT = re.compile("[0-9]")
_READ = 256
"""Characters of a token that are read; what is longer is no word but data."""

_JOINT = re.compile("[-_\u2010\u2011]")
_CUT = re.compile("(?<=a)(?=A)|(?<=A)(?=Aa[Aa])|(?<=[Aa]{2})(?=0)|(?<=0)(?=[Aa]{2})")
"""Where a word falls apart, over its shape: capitals as A, digits as 0, all else as a."""

_FOREIGN = re.compile(rf"[^\w{MARKS}.@+#]")
"""What compatibility forms such as ½ may bring into a token."""


def tokens(text: str) -> list[str]:
    """Words, and what is joined by dots, hyphens, @, + or _ as one: `node.js`, `HTTP-429`, `C++`, `a@b.de`."""
    return (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)


def runs(text: str) -> list[str]:
    """Pieces of a text that hold its tokens between them, each whole: quicker had than tokens, and as good as keys."""
    if not text.isascii():
        return _TOKEN.findall(text)
    return text.replace(". ", " ").translate(_BLANKS).split()


def token_spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the tokens stand between two positions; in scripts without spaces, every pair of characters."""
    for found in _TOKEN.finditer(text, start, end):
        if found[0].isascii() or not _SPACELESS_RUN.search(found[0]):
            yield found.span()
        else:
            yield from _spaceless_spans(found[0], found.start())


def _spaceless_spans(token: str, offset: int) -> Iterator[tuple[int, int]]:
    for run in _SPACELESS_RUN.split(token):
        pair = 2 if _SPACELESS_RUN.match(run) else len(run)
        for start in range(max(1, len(run) - pair + 1) if run else 0):
            yield offset + start, offset + min(start + pair, len(run))
        offset += len(run)


def pieces(token: str) -> list[str]:
    """The caseless forms of a token: the whole first, then its parts where it has any."""
    if not token.isascii() and _SPACELESS_RUN.search(token):
        return [piece for run in _SPACELESS_RUN.split(token) if run for piece in _pieces_of_run(run)]
    return _pieces_of_word(token)


def _pieces_of_run(run: str) -> list[str]:
    return bigrams(caseless(run)) if _SPACELESS_RUN.match(run) else _pieces_of_word(run)


def bigrams(run: str) -> list[str]:
    """Every two neighbouring characters; a single one alone."""
    return [run[i : i + 2] for i in range(max(1, len(run) - 1))]


def _pieces_of_word(token: str) -> list[str]:
    if token[1:].islower() and (word := caseless(token)).isalpha():
        return [word]
    token = visible(token[:_READ])
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
    """The same without any function that knows Unicode; where nothing but small letters is joined, none has humps."""
    found = _ASCII_RUN.findall(token)
    if token.islower() and not _DIGIT.search(token):
        return found
    return [hump.lower() for run in found for hump in humps(run)]


def humps(word: str) -> list[str]:
    """The parts of a word without spaces: get User Name, XML Http Request, utf 8; but APIs, v2 and Haus in one."""
    if (word.isalpha() and (word.islower() or word.istitle() or word.isupper())) or word.isdigit():
        return [word]
    shape = word.translate(_SHAPES) if word.isascii() else "".join(map(_shape, word))
    cuts = [0, *(cut.start() for cut in _CUT.finditer(shape)), len(word)]
    return [word[a:b] for a, b in pairwise(cuts)]


def _shape(character: str) -> str:
    return "A" if character.isupper() else "0" if character.isdigit() else "a"


_SHAPES = "".join(map(_shape, map(chr, range(128))))
"""Those of ASCII, for str.translate."""

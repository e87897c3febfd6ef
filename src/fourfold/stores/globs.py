"""Path globs, the same on every store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

_PIECES = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]{1,255}\]|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")
_ROOTED = re.compile(r"/|[A-Za-z]:/|\*\*/")
_FEW = 2
"""So many wildcards a regular expression goes through quickly. It tries all their lengths: eight take a minute."""


def matches(glob: str, path: str | None) -> bool:
    """`*` stays within a folder, `**` crosses folders, `?` is one character, [abc] and [!abc] one of a set.

    A glob that does not begin at a root matches absolute paths from any of their folders on.
    """
    if path is None:
        return False
    if _matcher(glob)(path):
        return True
    return bool(_ABSOLUTE.match(path)) and not _ROOTED.match(glob) and bool(_matcher(f"**/{glob}")(path))


def beginning(glob: str) -> str:
    """What every path that matches begins with."""
    return re.split(r"[*?\[]", glob, maxsplit=1)[0] if _ROOTED.match(glob) else ""


@lru_cache(maxsize=64)
def _matcher(glob: str) -> Callable[[str], object]:
    return matcher(glob)


def matcher(glob: str) -> Callable[[str], object]:
    """Says whether a path matches, in a time that depends on its length alone."""
    source = regex(glob)
    return _AllWays(_PIECES.findall(glob)).match if source is None else re.compile(source, re.DOTALL).fullmatch


def regex(glob: str) -> str | None:
    """The glob as a regular expression (DOTALL, for the whole path); None where that might take for ever."""
    pieces = _PIECES.findall(glob)
    return "".join(map(_regex, pieces)) if sum(piece.startswith("*") for piece in pieces) <= _FEW else None


def _regex(piece: str) -> str:
    return _WILD.get(piece) or _literal(piece)


def _literal(piece: str) -> str:
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece.startswith("[!") and len(piece) > 3
    inside = _SPAN.sub(_span, piece[2 if negated else 1 : -1])
    if not inside:
        return "[^/]" if negated else _NONE
    return f"[{'^' if negated else ''}{inside}]"


_SPAN = re.compile(r"(.)-(.)|.", re.DOTALL)


def _span(found: re.Match[str]) -> str:
    """A character, or a span such as a-z; one that runs backwards holds nothing."""
    if found[1] is None:
        return re.escape(found[0])
    return f"{re.escape(found[1])}-{re.escape(found[2])}" if found[1] <= found[2] else ""


_STEPS = 10_000
_NONE = "(?!)"
_STAYS = {"*": "[^/]", "**": ".", "**/": "."}
_GOES = {"*": _NONE, "**": _NONE, "": _NONE, "**/": "/"}


class _AllWays:
    """Goes through a path once, in all the ways that the glob allows at a time: a bit for each place in the glob."""

    def __init__(self, pieces: Sequence[str]) -> None:
        # `**/` may be left out as a whole: before it stands "", from where it is entered or jumped over
        parts = [part for piece in pieces for part in (("", piece) if piece == "**/" else (piece,))]
        self._end = len(parts)
        self._enter = _bits(part in ("*", "**", "") for part in parts)
        self._jump = _bits(part == "" for part in parts)
        self._stays = [re.compile(_STAYS.get(part, _NONE), re.DOTALL) for part in parts]
        self._goes = [re.compile(_GOES.get(part) or _regex(part), re.DOTALL) for part in parts]
        self._moves: dict[str, tuple[int, int]] = {}
        self._steps: dict[tuple[int, str], int] = {}
        """Where a character leads from some places: paths of one store take the same ways again and again."""

    def match(self, path: str) -> bool:
        ways = self._widened(1)
        for character in path:
            known = self._steps.get((ways, character))
            ways = known if known is not None else self._step(ways, character)
            if not ways:
                return False
        return bool(ways >> self._end & 1)

    def _step(self, ways: int, character: str) -> int:
        stay, go = self._moves.get(character) or self._learned(character)
        if len(self._steps) >= _STEPS:
            self._steps.clear()
        self._steps[ways, character] = found = self._widened(ways & stay | (ways & go) << 1)
        return found

    def _widened(self, ways: int) -> int:
        """With the places that are reached without a character."""
        while (wider := ways | (ways & self._enter) << 1 | (ways & self._jump) << 2) != ways:
            ways = wider
        return ways

    def _learned(self, character: str) -> tuple[int, int]:
        """The places that this character leaves where they are, and those that it moves on."""
        stay, go = (_bits(test.match(character) for test in tests) for tests in (self._stays, self._goes))
        self._moves[character] = stay, go
        return stay, go


def _bits(flags: Iterable[object]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)

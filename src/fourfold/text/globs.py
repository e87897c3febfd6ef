"""Path globs, evaluated alike by every store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

_PIECES = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]{1,255}\]|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")
_ROOTED = re.compile(r"/|[A-Za-z]:/|\*\*/")
_REGEX_WILDCARDS = 2
"""Maximum number of wildcards in a regular expression; backtracking is exponential: with eight it takes a minute."""


def matches(glob: str, path: str | None) -> bool:
    """Match `*` within a folder, `**` across folders, `?` as one character, [abc] and [!abc] as one of a set.

    A relative glob also matches the end of an absolute path, from any of its folders.
    """
    if path is None:
        return False
    if _matcher(glob)(path):
        return True
    return bool(_ABSOLUTE.match(path)) and not _ROOTED.match(glob) and bool(_matcher(f"**/{glob}")(path))


def literal_prefix(glob: str) -> str:
    """Return the prefix that all matching paths have in common."""
    return re.split(r"[*?\[]", glob, maxsplit=1)[0] if _ROOTED.match(glob) else ""


@lru_cache(maxsize=64)
def _matcher(glob: str) -> Callable[[str], object]:
    return matcher(glob)


def matcher(glob: str) -> Callable[[str], object]:
    """Return a function that tests a path in time linear in its length."""
    source = regex(glob)
    return _Automaton(_PIECES.findall(glob)).match if source is None else re.compile(source, re.DOTALL).fullmatch


def regex(glob: str) -> str | None:
    """Return the glob as a regular expression (DOTALL, for the whole path); None if it could backtrack for long."""
    pieces = _PIECES.findall(glob)
    wildcards = sum(piece.startswith("*") for piece in pieces)
    return "".join(map(_regex, pieces)) if wildcards <= _REGEX_WILDCARDS else None


def _regex(piece: str) -> str:
    return _WILD.get(piece) or _literal(piece)


def _literal(piece: str) -> str:
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece.startswith("[!") and len(piece) > 3
    inside = _SPAN.sub(_span, piece[2 if negated else 1 : -1])
    if not inside:
        return "[^/]" if negated else _NEVER
    return f"[{'^' if negated else ''}{inside}]"


_SPAN = re.compile(r"(.)-(.)|.", re.DOTALL)


def _span(match: re.Match[str]) -> str:
    """A character, or a range such as a-z; a reversed range is empty."""
    if match[1] is None:
        return re.escape(match[0])
    return f"{re.escape(match[1])}-{re.escape(match[2])}" if match[1] <= match[2] else ""


_CACHED_TRANSITIONS = 10_000
_NEVER = "(?!)"
_STAYS = {"*": "[^/]", "**": ".", "**/": "."}
_ADVANCES = {"*": _NEVER, "**": _NEVER, "": _NEVER, "**/": "/"}


class _Automaton:
    """Nondeterministic automaton for a glob: bit i of a set of states is set if the first i parts have matched."""

    def __init__(self, pieces: Sequence[str]) -> None:
        # `**/` is optional as a whole: the part "" before it is a state from which it is entered or skipped
        parts = [part for piece in pieces for part in (("", piece) if piece == "**/" else (piece,))]
        self._end = len(parts)
        self._enter = _bits(part in ("*", "**", "") for part in parts)
        self._skip = _bits(part == "" for part in parts)
        self._stays = [re.compile(_STAYS.get(part, _NEVER), re.DOTALL) for part in parts]
        self._advances = [re.compile(_ADVANCES.get(part) or _regex(part), re.DOTALL) for part in parts]
        self._masks: dict[str, tuple[int, int]] = {}
        self._transitions: dict[tuple[int, str], int] = {}
        """Cache: most paths of a store lead through the same transitions."""

    def match(self, path: str) -> bool:
        states = self._closure(1)
        for character in path:
            following = self._transitions.get((states, character))
            states = following if following is not None else self._step(states, character)
            if not states:
                return False
        return bool(states >> self._end & 1)

    def _step(self, states: int, character: str) -> int:
        stay, advance = self._masks.get(character) or self._masks_of(character)
        if len(self._transitions) >= _CACHED_TRANSITIONS:
            self._transitions.clear()
        self._transitions[states, character] = following = self._closure(states & stay | (states & advance) << 1)
        return following

    def _closure(self, states: int) -> int:
        """Add the states that are reached without a character."""
        while (wider := states | (states & self._enter) << 1 | (states & self._skip) << 2) != states:
            states = wider
        return states

    def _masks_of(self, character: str) -> tuple[int, int]:
        """The states in which this character stays, and those from which it advances."""
        stay, advance = (_bits(test.match(character) for test in tests) for tests in (self._stays, self._advances))
        self._masks[character] = stay, advance
        return stay, advance


def _bits(flags: Iterable[object]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)

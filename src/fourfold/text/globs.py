"""Path globs, evaluated alike by every store."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_PIECES = re.compile(r"(?:^|(?<=/))\*\*/|\*\*|\*|\?|\[!?[^\]/]{1,255}\]|.", re.DOTALL)
_SKIPPED = {"": "", "**": ".*?", "**/": "(?:[^/]*+/)*?"}
_LAST_SKIPPED = {"": "", "**": ".*", "**/": "(?:.*/)?"}
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/")
_ROOTED = re.compile(r"/|[A-Za-z]:/|\*\*/")
_SPAN = re.compile(r"(.)-(.)|.", re.DOTALL)
_NEVER = "(?!)"


def matches(glob: str, path: str | None) -> bool:
    """Match `*` within a folder, `**` across folders, `?` as one character, [abc] and [!abc] as one of a set.

    A relative glob also matches the end of an absolute path, from any of its folders.
    """
    if path is None:
        return False
    if matcher(glob)(path):
        return True
    return bool(_ABSOLUTE.match(path)) and not _ROOTED.match(glob) and bool(matcher(f"**/{glob}")(path))


def literal_prefix(glob: str) -> str:
    """Return the prefix that all matching paths have in common."""
    return re.split(r"[*?\[]", glob, maxsplit=1)[0] if _ROOTED.match(glob) else ""


@lru_cache(maxsize=64)
def matcher(glob: str) -> Callable[[str], object]:
    """Return a function that tests a path."""
    return re.compile(regex(glob), re.DOTALL).fullmatch


def regex(glob: str) -> str:
    """Return the glob as a regular expression (DOTALL, for the whole path) that hardly backtracks.

    The first place where a part matches leaves the most to the parts after it, so no other has to be tried: all parts
    but the last are atomic. A part ends at `**`, which may skip anything, and inside of it at `*`, which cannot pass a
    slash.
    """
    parts: list[tuple[str, list[str]]] = [("", [""])]
    for piece in _PIECES.findall(glob):
        if piece in ("**", "**/"):
            parts.append((piece, [""]))
        elif piece == "*":
            parts[-1][1].append("")
        else:
            parts[-1][1][-1] += "[^/]" if piece == "?" else _literal(piece)
    *others, (skipped, (first, *rest)) = parts
    source = "".join(f"(?>{_SKIPPED[lead]}{chunks[0]}{''.join(map(_next, chunks[1:]))})" for lead, chunks in others)
    end = "".join(f"[^/]*{last}" for last in rest[-1:])
    return source + _LAST_SKIPPED[skipped] + first + "".join(map(_next, rest[:-1])) + end


def _next(chunk: str) -> str:
    """The first place of what follows a `*`."""
    return f"(?>[^/]*?{chunk})"


def _literal(piece: str) -> str:
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece.startswith("[!") and len(piece) > 3
    inside = _SPAN.sub(_span, piece[2 if negated else 1 : -1])
    return f"[^/{inside}]" if negated else f"[{inside}]" if inside else _NEVER


def _span(match: re.Match[str]) -> str:
    """A character, or a range such as a-z; a reversed range is empty."""
    if match[1] is None:
        return re.escape(match[0])
    return f"{re.escape(match[1])}-{re.escape(match[2])}" if match[1] <= match[2] else ""

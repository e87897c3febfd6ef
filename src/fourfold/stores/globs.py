"""Path globs, the same on every store."""

from __future__ import annotations

import re
from functools import lru_cache


def matches(glob: str, path: str | None) -> bool:
    return path is not None and _pattern(glob).fullmatch(path) is not None


@lru_cache(maxsize=64)
def _pattern(glob: str) -> re.Pattern[str]:
    """`*` stays within a folder, `**` crosses folders, `?` is one character, [abc] and [!abc] one of a set."""
    pieces = re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", glob, re.DOTALL)
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(wild.get(piece) or _literal(piece) for piece in pieces), re.DOTALL)


def _literal(piece: str) -> str:
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece.startswith("[!")
    inside = re.sub(r"([\\\[\]^&~|])", r"\\\1", piece[2 if negated else 1 : -1])
    return f"[{'^' if negated else ''}{inside}]"

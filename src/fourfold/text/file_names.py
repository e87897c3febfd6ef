"""File names in queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fourfold.text.fold import fold

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


def named_files(spelled: Mapping[str, str], found: Sequence[tuple[int, str]]) -> dict[str, list[int]]:
    """Group the chunks (id, path) in `found` by path, keeping files that the query names."""
    files: dict[str, list[int]] = {}
    for item, path in found:
        if _means(spelled.get(fold(_name(path)), ""), path):
            files.setdefault(path, []).append(item)
    return files


def _means(spelled: str, path: str) -> bool:
    """Whether the query means this file: folders must match, and a name without a suffix must match exactly."""
    wanted = spelled.replace("\\", "/").lstrip("./")
    if "/" in wanted:
        return fold(f"/{path}").endswith(fold(f"/{wanted}"))
    return "." in wanted.lstrip(".") or wanted == _name(path)

"""A query that holds the exact name of a file puts that file first, and its explanation says so (S3.6)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from fourfold.model import Hits
from fourfold.search.fusion import Fusion, Part, fuse
from fourfold.text.fold import fold

SOURCE: Final = "file name"
PRESETS: Final = frozenset({"auto", "files"})

_WORDS: Final = 100
"""Of a query are looked at."""
_LONGEST: Final = 6
"""Words that a file name with spaces may have."""
_IMPOSSIBLE: Final = re.compile("[\x00\ud800-\udfff]")
"""No stored path has these."""
_AROUND: Final = "\"'`“”„‚‘’»«,;:?!()[]{}<>*"


def candidates(text: str) -> dict[str, str]:
    """What may be the name of a file, folded, and how it stands in the query; with the folders before it."""
    words = _IMPOSSIBLE.sub(" ", text).split()[:_WORDS]
    return {fold(_name(spelled)): spelled for spelled in reversed([*_runs(words)]) if _name(spelled)}


def _runs(words: Sequence[str]) -> Iterator[str]:
    """Each word, and runs of words that end with a suffix such as .md."""
    for end, word in enumerate(words, start=1):
        bare = word.strip(_AROUND).rstrip(".").rstrip(_AROUND)
        yield bare
        if "." in bare.lstrip("."):
            for start in range(max(0, end - _LONGEST), end - 1):
                yield " ".join([*words[start : end - 1], bare]).lstrip(_AROUND)


def _name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def chosen(spelled: Mapping[str, str], found: Sequence[tuple[int, str]]) -> dict[str, list[int]]:
    """By path: the chunks (id, path) of files that the query really names."""
    files: dict[str, list[int]] = {}
    for item, path in found:
        if _names(spelled.get(fold(_name(path)), ""), path):
            files.setdefault(path, []).append(item)
    return files


def _names(spelled: str, path: str) -> bool:
    """With folders, they have to be the file's; without a suffix, a name is a word unless it is spelled exactly so."""
    wanted = spelled.replace("\\", "/").lstrip("./")
    if "/" in wanted:
        return fold(f"/{path}").endswith(fold(f"/{wanted}"))
    return "." in wanted.lstrip(".") or wanted == _name(path)


def with_file_names(fusion: Fusion, files: Mapping[str, Sequence[int]]) -> Fusion:
    """The best chunk of each named file gets a line of its own, which is more than anything else has."""
    if not files:
        return fusion
    scores = fusion.scores
    best = np.array(sorted({max(ids, key=lambda id: scores.get(id, 0.0)) for ids in files.values()}), np.int64)
    highest = max(scores.values(), default=0.0)
    bonus = math.ldexp(1.0, math.frexp(highest)[1]) if highest > 0 else 1.0  # a power of two: sums stay exact
    unscored = Hits(best, np.full(len(best), np.nan))
    return fuse([*fusion.parts, Part(SOURCE, 1.0, 0, unscored, np.full(len(best), bonus))], fusion.weights)

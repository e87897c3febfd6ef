"""Stop words by language, read from `stopwords.txt`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from fourfold.text.fold import fold

_LIST = re.compile(r"^([a-z]{2}):([^:#]+)$", re.MULTILINE)
_SAME = {"no": "nb", "nn": "nb"}
"""Languages that use the list of another one."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the folded stop words of a language; empty for a language without a list."""
    return frozenset(map(fold, _lists().get(_SAME.get(language, language), "").split()))


@cache
def _lists() -> dict[str, str]:
    return dict(_LIST.findall(Path(__file__).with_name("stopwords.txt").read_text(encoding="utf-8")))

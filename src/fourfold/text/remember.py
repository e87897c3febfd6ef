"""What a prompt asks to remember, in English and German: explicit requests, outside of quotations and code."""

from __future__ import annotations

import re
from typing import Final

# A sentence such as "note that the API changed" belongs to the task at hand.

REQUESTS: Final = 5
"""Maximum number of requests taken from one prompt."""
TEXT_CHARACTERS: Final = 2000
"""Maximum length of a captured text; longer ones are cut."""
SEARCHED_CHARACTERS: Final = 20_000
"""Number of characters at the beginning of a prompt that are read."""
_ENGLISH: Final = (
    r"(?:remember|don['’]?t\s+forget|do\s+not\s+forget|make\s+a\s+note|(?:save|store|add)(?:\s+(?:this|it|that))?"
    r"\s+(?:to|in)\s+(?:your\s+|the\s+)?memory)"
)
_GERMAN: Final = r"(?:merke?\s+dir|vergiss\s+nicht|denke?\s+daran|notiere?(?:\s+dir)?)"
_ASKED: Final = rf"(?:{_ENGLISH}(?:\s+this)?,?\s+that|{_GERMAN}(?:\s+bitte)?,?\s+dass)\s+"
_COLON: Final = (
    rf"(?:{_ENGLISH}(?:\s+(?:this|the\s+following))?|{_GERMAN}(?:\s+bitte)?(?:\s+(?:folgendes|das))?)\s*:\s*"
)
_REQUEST: Final = re.compile(
    rf"(?:^|(?<=[.!?])[ \t])[ \t]*(?:please,?\s+|bitte\s+|and\s+|also,?\s+|und\s+)?"
    rf"(?:(?P<colon>{_COLON})|(?P<sentence>{_ASKED}))",
    re.IGNORECASE | re.MULTILINE,
)
_MONTH: Final = r"(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)"
_SENTENCE_END: Final = re.compile(rf"[.!?](?!\s+{_MONTH})(?=\s+[A-ZÄÖÜ0-9\"'(]|\s*\n|\s*$)|\n|$")
_PARAGRAPH_END: Final = re.compile(r"\n[ \t]*\n|$")
_FENCED: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)


def own_words(text: str) -> str:
    """The beginning of a text without quoted lines and code, which are not its author's words."""
    return _QUOTED.sub("", _FENCED.sub("", text[:SEARCHED_CHARACTERS]))


def requests(prompt: str) -> list[str]:
    """The texts that a prompt asks to remember, in order."""
    own = own_words(prompt)
    texts: dict[str, None] = {}
    position = 0
    while len(texts) < REQUESTS and (match := _REQUEST.search(own, position)):
        ends = (_PARAGRAPH_END if match["colon"] else _SENTENCE_END).search(own, match.end())
        position = max(match.end(), ends.end() if ends else len(own))
        text = own[match.end() : position].strip()
        if len(text.split()) > 1 and not text.endswith("?"):
            texts[capitalised(text[:TEXT_CHARACTERS].rstrip())] = None
    return list(texts)


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]

"""Whether a question with a time expression asks for what was said or happened then.

"What did we decide last week?" and "notes from March" do; "Plan my next week" and "a budget for March" do not: their
time is a part of the topic, and the answer may have been stored at any time.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from fourfold.text.time_window import Words

_PAST: Final = re.compile(
    r"\b(?:did|were|had|said|told|asked|mentioned|talked|discussed|decided|happened|agreed|wrote|sent|met|went"
    r"|spoke|chose|bought|made|got|came|gave|took|found|saw|heard|[a-z]{3,}ed"
    r"|war|waren|hatte[nst]?|hat|habe|haben|hast|habt|wurde[n]?|sagte[n]?|schrieb|traf|ging|kam|gab|nahm|fand|sah)\b",
    re.IGNORECASE,
)
_WAS: Final = re.compile(r"\bwas\b", re.IGNORECASE)
_GERMAN: Final = re.compile(
    r"\b(?:ich|wir|du|ihr|sie|der|das|dem|ein|eine|ist|sind|soll|kann|muss|und|mit|von|zu|zum|heute|gestern)\b",
    re.IGNORECASE,
)
"""Words by which "was" is German for "what"."""
_PARTICIPLE: Final = re.compile(
    r"\b(?:[a-zäöüß]*ge[a-zäöüß]{2,}(?:t|en)|(?:be|ver|ent|er|zer)[a-zäöüß]{3,}(?:t|en))\b", re.IGNORECASE
)
"""German: also the form of many infinitives, which follow a modal verb."""
_NOT_YET: Final = re.compile(
    r"\b(?:will|shall|should|going to|gonna|plan|want|need|can|could|may|might|must|let's|please|how (?:do|can)|werden?"
    r"|wird|soll(?:en|te)?|will|wollen|möchte|muss|müssen|darf|dürfen|kann|können|plane[n]?)\b",
    re.IGNORECASE,
)
_DATED: Final = re.compile(
    r"\d|\b(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-z]*\b", re.IGNORECASE
)
_FOR: Final = re.compile(r"\b(?:for|für|due|by|until|bis)\s+(?:the\s+|den\s+|die\s+|das\s+)?$", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"(?:(?<!\b\d)(?<!\b\d\d)\.|[!?])\s+|\n+")
"""The end of a sentence: "3. März" has none."""
_HABIT: Final = re.compile(r"\s*(?:do|does|when|how|wann|wie)\b|.*\b(?:is|are|ist|sind|gibt)\b", re.IGNORECASE)
"""Questions about permanent facts: "Is the shop open ...", "When does the train leave ..."."""
_DIGIT: Final = re.compile(r"\d")
_FEW_WORDS: Final = 8
"""Keywords with a time: "meeting notes last week"."""


def asks_when(text: str, found: Words, now: datetime) -> bool:
    if found.start is not None and found.start > now:
        return False
    if _FOR.search(text[: found.first]):
        return False
    sentence = _sentence_at(text, found)
    if len(text) > len(sentence) + 2 and "?" not in text:
        return False  # several sentences that ask nothing
    rest = sentence.replace(found.words, " ")
    later = _NOT_YET.search(rest) is not None
    was = _WAS.search(rest) is not None and _GERMAN.search(sentence) is None
    if was or _PAST.search(rest) or (not later and _PARTICIPLE.search(rest)):
        return True
    if found.repeats and _HABIT.match(sentence) and not _DIGIT.search(found.words):
        return False  # about any Sunday, or any March
    over = found.end is not None and found.end <= now
    if over and _DATED.search(found.words) and sentence.rstrip().endswith("?"):
        return True  # "What does she report on 6 January?"
    return len(text.split()) <= _FEW_WORDS and not later


def _sentence_at(text: str, found: Words) -> str:
    begin = max((match.end() for match in _SENTENCE.finditer(text, 0, found.first)), default=0)
    end = _SENTENCE.search(text, found.first + len(found.words))
    return text[begin : len(text) if end is None else end.start() + 1]

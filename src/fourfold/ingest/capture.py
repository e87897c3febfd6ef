"""What a session may have left to remember: rules of one sentence each, in English and German, and the encoder.

The wordings of the rules are in `capture.txt`. Only the user's own words count: no quotations, code, logs and pasted
texts, no questions, no hypotheses, no irony, and nothing that was taken back later. The encoder compares what the rules
propose with examples of what was worth keeping. notes/capture.md has the figures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from fourfold.ingest.transcripts import USER, Turn
from fourfold.text.language import stop_words
from fourfold.text.remember import TEXT_CHARACTERS, capitalised, own_words, requests

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Kind = Literal["request", "preference", "decision", "correction", "fact"]


class Rule(NamedTuple):
    kind: Kind
    weight: float
    """Log odds."""
    pattern: re.Pattern[str]


def _read_wordings() -> Iterator[tuple[str, list[str]]]:
    """The headings of `capture.txt` with the lines below them."""
    text = Path(__file__).with_name("capture.txt").read_text("utf-8")
    _, *sections = re.sub("^#.*\n", "", text, flags=re.MULTILINE).split("== ")
    parts: dict[str, str] = {}
    for section in sections:
        heading, *lines = filter(None, section.split("\n"))
        if heading.startswith("part "):
            parts[heading.removeprefix("part ")] = lines[0]
        else:
            yield heading, [re.sub("<([A-Z]+)>", lambda name: parts[name[1]], line) for line in lines]


def _any(wordings: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in wordings), re.IGNORECASE)


_WORDINGS: Final = [*_read_wordings()]
RULES: Final = [
    Rule(cast("Kind", kind), float(weight), _any(wordings))
    for heading, wordings in _WORDINGS
    for kind, is_rule, weight in [heading.partition(" ")]
    if is_rule
]
_EXAMPLES: Final = {heading: wordings for heading, wordings in _WORDINGS if heading in ("KEPT", "LEFT")}
"""Of what was worth keeping, and of what was not."""
_SAYS: Final = {
    heading: _any(wordings) for heading, wordings in _WORDINGS if heading.isupper() and heading not in _EXAMPLES
}

LEAST_CONFIDENCE: Final = 0.55
"""Candidates below it are not proposed."""
_FEWEST_WORDS: Final = 4
_MOST_WORDS: Final = 45
_LONG_WORDS: Final = 30
"""Longer sentences are rather pasted."""
_MOST_PROMPTS: Final = 1000
"""Of a longer session, the last ones: those before were read when they were new."""
_RETRACTED_TURNS: Final = 2
"""Earlier turns of the user whose decisions "scrap that" takes back."""
_ASKED_WEIGHT: Final = 4.0
_CHOSEN_WEIGHT: Final = 2.8


class Candidate(NamedTuple):
    text: str
    kind: Kind
    weight: float
    """Log odds of the rules."""
    turn: int
    """Its number among the turns that were read."""
    at: datetime | None


class SessionCandidates(NamedTuple):
    """What the rules make of a session."""

    candidates: list[Candidate]
    retracted: list[Candidate]
    """What the user took back."""
    latest: int
    """The last turn that has a candidate or takes one back; -1 if there is none."""


def candidates_of(turns: Sequence[Turn]) -> SessionCandidates:
    """The candidates of a session in order, and those that were taken back."""
    candidates: list[Candidate] = []
    retracted: list[Candidate] = []
    latest = -1
    mine = [(number, turn) for number, turn in enumerate(turns) if turn.speaker == USER][-_MOST_PROMPTS:]
    for place, (number, turn) in enumerate(mine):
        said = [*sentences(turn.text)]
        if any(_SAYS["RETRACTION"].search(sentence) for sentence in said):
            since = mine[max(place - _RETRACTED_TURNS, 0)][0]
            gone = [each for each in candidates if each.turn >= since and each.kind == "decision"]
            retracted += gone
            candidates = [each for each in candidates if each not in gone]
            latest = number if gone else latest
        asked = requests(turn.text)
        candidates += [Candidate(text, "request", _ASKED_WEIGHT, number, turn.at) for text in asked]
        if place:
            before, question = mine[place - 1]
            candidates += _choices(question, turns[before + 1 : number], turn, number)
        others = [each for each in said if not any(text.lower() in each.lower() for text in asked)]
        candidates += [each for sentence in others for each in _statements(sentence, number, turn.at)]
    return SessionCandidates(candidates, retracted, max([latest, *(each.turn for each in candidates)]))


# ---------------------------------------------------------------- the user's own sentences

_LOG: Final = re.compile(
    r"""^\s*(?:
        \[?\d{2,4}[-:.]\d{2}[-:.\d TZ]*\]?                  # a time
      | (?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|TRACE)\b
      | (?:File\s"|Traceback|at\s[\w.$]+\(|Caused\sby:|warning:|error(?:\[\w+\])?:)
      | \(\w+:\d+\) | [{}\[\]"]
      | (?:-->|\$\s|>>>|\.\.\.\s|\+\+\+|---|@@|[|])
      | [\w.]+(?:Error|Exception)\b
    )""",
    re.VERBOSE,
)
_QUOTATION: Final = re.compile(r"[\"“”„«»][^\"“”„«»\n]{12,}[\"“”„«»]")
_MOST_LINES: Final = 12
"""Of a longer turn, most is pasted: only its first and last lines are read."""
_EDGE_LINES: Final = 3
_BREAK: Final = re.compile(r"(?<=[.!?])(?<!\d\.)\s+|\n+|(?<=\S)\s+[-–—]\s+(?=(?:gerade|just)\b)")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a turn that are the user's own words. What follows a line with a colon is pasted."""
    lines: list[str] = []
    is_pasted = False
    written = own_words(text).strip().split("\n")
    if len(written) > _MOST_LINES:
        written = [*written[:_EDGE_LINES], "", *written[-_EDGE_LINES:]]
    for line in written:
        if not line.strip():
            is_pasted = False
        elif not _LOG.match(line) and (not is_pasted or line.rstrip().endswith("?")):
            lines.append(_QUOTATION.sub('""', line))
            is_pasted = line.rstrip().endswith(":")
    for sentence in _BREAK.split("\n".join(lines)):
        if (spaced := " ".join(sentence.strip(" \t-*•").split())) and '""' not in spaced:
            yield spaced


# ---------------------------------------------------------------- one sentence


def _is_meant(sentence: str) -> bool:
    wrong = ("QUESTION", "HYPOTHETICAL", "NOT_SERIOUS", "RETRACTION")
    return not any(_SAYS[name].search(sentence) for name in wrong)


def _statements(sentence: str, turn: int, at: datetime | None) -> Iterator[Candidate]:
    """The sentence, if a rule applies to it and none excludes it."""
    text = _SAYS["OPENING"].sub("", sentence).strip()
    if not _FEWEST_WORDS <= len(text.split()) <= _MOST_WORDS or not _is_meant(sentence):
        return
    matching = [rule for rule in RULES if rule.pattern.search(sentence) or rule.pattern.search(text)]
    if not matching:
        return
    best = max(matching, key=lambda rule: rule.weight)
    weight = best.weight + 0.5 * sum(rule.kind != best.kind for rule in matching)
    weight += 0.7 * bool(_SAYS["REASON"].search(text)) + 0.4 * bool(_SAYS["GENERAL"].search(text))
    weight -= 1.0 * bool(_SAYS["FLEETING"].search(text)) + 1.2 * bool(_SAYS["TASK"].search(text))
    weight -= 1.6 * bool(_SAYS["DANGLING"].search(text)) + 0.7 * (len(text.split()) > _LONG_WORDS)
    yield Candidate(capitalised(text[:TEXT_CHARACTERS]), best.kind, weight, turn, at)


# ---------------------------------------------------------------- a choice

_QUESTION_CHARACTERS: Final = 1000
"""A longer one asks for more than a choice."""
_CONTEXT_CHARACTERS: Final = 200
_ANSWER_WORDS: Final = 14
_NAME: Final = re.compile(r"[^\W\d_](?:[\w.+-]*\w)?[+#]*|\d+")
_NAME_CHARACTERS: Final = 4


def _choices(asked: Turn, between: Sequence[Turn], answer: Turn, number: int) -> Iterator[Candidate]:
    """A short answer that takes one of what the question or the assistant named, together with the question."""
    if len(asked.text) > _QUESTION_CHARACTERS or not _SAYS["CHOICE"].search(asked.text):
        return
    first, *others = [*sentences(answer.text)] or [""]
    if not 1 <= len(first.split()) <= _ANSWER_WORDS or _SAYS["THANKS"].search(first) or not _is_meant(first):
        return
    if any(_SAYS["RETRACTION"].search(sentence) for sentence in others):
        return
    offered = {name for turn in (asked, *between) for name in _names(turn.text)}
    if offered.isdisjoint(_names(_SAYS["CHOOSES"].sub("", first))):
        return
    if len(first.split()) > _FEWEST_WORDS and not _SAYS["CHOOSES"].search(first):
        return
    question = " ".join(asked.text.split())
    if len(question) > _CONTEXT_CHARACTERS:
        question = next((each for each in sentences(asked.text) if _SAYS["CHOICE"].search(each)), "")
    if question:
        yield Candidate(f"{question} {capitalised(first)}", "decision", _CHOSEN_WEIGHT, number, answer.at)


def _names(text: str) -> set[str]:
    """Names and longer words, but for stop words."""
    words = _NAME.findall(text)
    long = {word.lower() for word in words if len(word) >= _NAME_CHARACTERS or word[1:2].isupper()}
    return long - stop_words("en") - stop_words("de")


# ---------------------------------------------------------------- the encoder

_STEEPNESS: Final = 5.0
_BIAS: Final = -1.5

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]


def judged(candidates: Sequence[Candidate], embed: Embed | None) -> list[tuple[Candidate, float]]:
    """The candidates that are worth proposing, with their confidence. `embed`: None compares with no examples."""
    if not candidates:
        return []
    margins = [0.0] * len(candidates) if embed is None else _margins([each.text for each in candidates], embed)
    rated = [
        (each, 1 / (1 + math.exp(-(_BIAS + each.weight + _STEEPNESS * margin))))
        for each, margin in zip(candidates, margins, strict=True)
    ]
    return [(each, round(confidence, 2)) for each, confidence in rated if confidence >= LEAST_CONFIDENCE]


def _margins(texts: Sequence[str], embed: Embed) -> list[float]:
    """How much nearer each text is to what was worth keeping than to what was not."""
    vectors = embed([*texts, *_EXAMPLES["KEPT"], *_EXAMPLES["LEFT"]])
    kept, left = len(texts) + len(_EXAMPLES["KEPT"]), len(_EXAMPLES["LEFT"])
    own = vectors[: len(texts)]
    near, far = _nearness(own, vectors[len(texts) : kept]), _nearness(own, vectors[-left:])
    return [float(margin) for margin in near - far]


def _nearness(own: NDArray[np.float32], others: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean of the three highest cosines of each text."""
    cosines = own @ others.T
    cosines.sort(axis=1)
    return cosines[:, -3:].mean(axis=1)

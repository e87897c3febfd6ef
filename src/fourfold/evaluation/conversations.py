"""Collections from the published files of LongMemEval and LoCoMo: long conversations, and questions about them.

    LongMemEval   [{"question_id", "question_type", "question", "haystack_session_ids", "haystack_dates",
                  "haystack_sessions": [[{"role", "content", "has_answer"?}]], "answer_session_ids"}]
    LoCoMo        [{"sample_id", "conversation": {"session_1": [{"speaker", "dia_id", "text", "blip_caption"?}],
                  "session_1_date_time", ...}, "qa": [{"question", "evidence": ["D1:3"], "category"}]}]

An item is a session or a turn. The history of a question (LongMemEval) or a conversation (LoCoMo) is a scope: a
question sees nothing else. Questions without an answer in it (ids that end with `_abs`; category 5) are unanswerable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from fourfold.errors import InvalidItem, InvalidQuery, RequestError
from fourfold.evaluation.collection import Collection, Question
from fourfold.model import NewItem
from fourfold.ranking.plan import check_text

Unit = Literal["session", "turn"]
UNITS: Final = get_args(Unit)

_ABSTENTION: Final = "_abs"
_ADVERSARIAL: Final = 5
_EVIDENCE: Final = re.compile(r"D:?(\d+):(\d+)")
_SESSION: Final = re.compile(r"session_(\d+)")
_DATES: Final = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d", "%I:%M %p on %d %B, %Y")
_REMEDY: Final = "Give a file as LongMemEval or LoCoMo publish it"

Row = Mapping[str, Any]


@dataclass(slots=True)
class _Draft:
    """A collection as it grows."""

    unit: Unit
    items: dict[str, NewItem] = field(default_factory=dict[str, NewItem])
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    judgements: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def add(self, key: str, text: str, scope: str, date: datetime | None) -> None:
        if text.strip():
            self.items[key] = NewItem(text, key=key, metadata={"scope": scope}, created_at=date)

    def ask(self, question: Question, answers: Iterator[str]) -> None:
        """`answers`: keys of items; those without a text are left out."""
        check_text(question.text)
        if question.id in self.questions:
            raise InvalidQuery(f"the id {question.id!r} occurs twice", _REMEDY)
        known = {} if question.unanswerable else {key: 1 for key in answers if key in self.items}
        if known or question.unanswerable:
            self.questions[question.id] = question
        if known:
            self.judgements[question.id] = known


def checked_unit(name: str) -> Unit:
    if name not in UNITS:
        raise InvalidQuery(f"there are no items per {name!r}", f"Choose {' or '.join(UNITS)}")
    return cast("Unit", name)


def read_conversations(file: Path, unit: Unit = "session") -> Collection:
    """Reads a file of LongMemEval or LoCoMo; errors name the entry."""
    entries = _entries(file)
    draft = _Draft(unit)
    read = _reader(entries[0], file)
    for number, entry in enumerate(entries, 1):
        with _located(file, number):
            read(draft, entry)
    if not draft.judgements:
        raise InvalidQuery(f"no question of {file} has an answer in its history", _REMEDY)
    name = f"{file.stem}, by {unit}"
    return Collection(name, tuple(draft.items.values()), tuple(draft.questions.values()), draft.judgements)


def _entries(file: Path) -> list[Row]:
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidItem(f"{file} cannot be read as JSON ({error})", _REMEDY) from error
    listed = cast("list[Any]", found) if isinstance(found, list) else [found]
    if not listed or not all(isinstance(entry, dict) for entry in listed):
        raise InvalidItem(f"{file} is not a list of objects", _REMEDY)
    return cast("list[Row]", listed)


def _reader(entry: Row, file: Path) -> Callable[[_Draft, Row], None]:
    if "haystack_sessions" in entry:
        return _long_mem_eval
    if "conversation" in entry:
        return _locomo
    raise InvalidItem(f"{file} has neither haystack_sessions nor conversation", _REMEDY)


@contextmanager
def _located(file: Path, number: int) -> Generator[None]:
    try:
        yield
    except RequestError as error:
        raise type(error)(f"{file.name}, entry {number}: {error.message}", error.remedy) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = f"{file.name}, entry {number}: {type(error).__name__}: {error}"
        raise InvalidItem(what, _REMEDY) from error


# ---------------------------------------------------------------- LongMemEval


def _long_mem_eval(draft: _Draft, entry: Row) -> None:
    scope = str(entry["question_id"])
    sessions = zip(entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"], strict=True)
    answers: list[str] = []
    wanted = {str(name) for name in entry["answer_session_ids"]}
    for place, (name, date, turns) in enumerate(sessions):
        session = f"{scope}/{place}/{name}"
        lines = [f"{turn['role']}: {turn['content']}" for turn in turns]
        if draft.unit == "session":
            draft.add(session, "\n".join(lines), scope, _date(date))
            answers += [session] if str(name) in wanted else []
            continue
        for number, (turn, line) in enumerate(zip(turns, lines, strict=True)):
            draft.add(f"{session}#{number}", line, scope, _date(date))
            answers += [f"{session}#{number}"] if turn.get("has_answer") is True else []
    abstains = scope.endswith(_ABSTENTION)
    kind = str(entry["question_type"])
    draft.ask(Question(scope, str(entry["question"]), kind, scope, unanswerable=abstains), iter(answers))


# ---------------------------------------------------------------- LoCoMo


def _locomo(draft: _Draft, entry: Row) -> None:
    scope, conversation = str(entry["sample_id"]), entry["conversation"]
    turns: dict[tuple[int, int], str] = {}
    for name, session in conversation.items():
        if (numbered := _SESSION.fullmatch(name)) is None:
            continue
        date = _date(conversation.get(f"{name}_date_time", ""))
        if draft.unit == "session":
            draft.add(f"{scope}/{name}", "\n".join(map(_line, session)), scope, date)
        for turn in session:
            place = _place(str(turn["dia_id"])) or (int(numbered[1]), len(turns))
            turns[place] = f"{scope}/{name}" if draft.unit == "session" else f"{scope}/{turn['dia_id']}"
            if draft.unit == "turn":
                draft.add(turns[place], _line(turn), scope, date)
    for number, asked in enumerate(entry["qa"], 1):
        category = asked.get("category")
        evidence = (turns[place] for place in _places(asked.get("evidence") or []) if place in turns)
        question = Question(
            f"{scope}/{number}",
            str(asked["question"]),
            None if category is None else f"category {category}",
            scope,
            unanswerable=category == _ADVERSARIAL,
        )
        draft.ask(question, evidence)


def _line(turn: Row) -> str:
    seen = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{seen}"


def _place(name: str) -> tuple[int, int] | None:
    """The numbers of a session and of a turn in it, from an id such as D1:3."""
    found = _EVIDENCE.search(name)
    return None if found is None else (int(found[1]), int(found[2]))


def _places(evidence: list[Any]) -> Iterator[tuple[int, int]]:
    """Some lists of the published file hold several ids in one string."""
    for entry in evidence:
        for session, turn in _EVIDENCE.findall(str(entry)):
            yield int(session), int(turn)


def _date(text: object) -> datetime | None:
    """The time of a session; None if it is written in an unknown way."""
    for form in _DATES:
        try:
            return datetime.strptime(str(text).strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None

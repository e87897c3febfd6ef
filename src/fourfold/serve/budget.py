"""The size of answers, in bytes and in tokens: the forms of their entries that fit, and cursors to the others."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from fourfold.errors import InvalidQuery
from fourfold.filters import Every, read_where
from fourfold.limits import ANSWER_BYTES, ANSWER_TOKENS, LARGEST_ID
from fourfold.model import Filters, Item, Json
from fourfold.validation import is_whole
from fourfold.wire import compact, encode, time_json

_SEPARATOR_TOKENS: Final = 2
"""Tokens between two entries of a list."""
SMALLEST_TOKENS: Final = 100
"""The smallest valid budget."""
_CHARACTER_BYTES: Final = 4
"""Maximum bytes of a character."""
_READ_ROWS: Final = 64
"""Rows of a page that are read at once."""
_FRAME_BYTES: Final = 64 * 1024
"""Bytes of an answer beside its rows."""
_LARGEST_ROW_BYTES: Final = 8 * 1024 * 1024
"""Room that a row needs at most."""
T = TypeVar("T")
Form = dict[str, Json]

_RUN: Final = re.compile(
    r"(?P<letters>[A-Za-z]+)(?![0-9A-Za-z])|(?P<digits>[0-9]+)(?![0-9A-Za-z])|(?P<mixed>[0-9A-Za-z]+)"
    r"|(?P<space>[ \t\r\n]+)|(?P<wide>[^\x00-\x7f]+)|(?P<signs>[^0-9A-Za-z \t\r\n\x80-\U0010ffff]+)"
)
_TOKEN_CHARACTERS: Final = 16
"""Maximum characters of a token. A text with more characters per token of the budget cannot fit and is not measured."""


# ---------------------------------------------------------------- bytes


def serialised(form: Mapping[str, Json], most_bytes: int = ANSWER_BYTES) -> str:
    """The JSON of an answer; InvalidQuery if it is larger than any answer of the interface may be."""
    text = compact(form)
    if len(text) * _CHARACTER_BYTES > most_bytes and len(text.encode()) > most_bytes:
        raise InvalidQuery(f"the answer has more than {most_bytes:,} bytes", "Ask for fewer or smaller parts of it")
    return text


class Page(Generic[T]):
    """The first rows of a list, as many as fit into an answer, and at least one.

    They are read a few at a time: an answer never needs much more memory than it may have bytes.
    """

    def __init__(
        self, read: Callable[[int, int], Sequence[T]], limit: int, show: Callable[[T], Form], most_bytes: int
    ) -> None:
        """`read`: skips as many rows as its first argument says, and returns at most as many as its second."""
        self.rows: list[T] = []
        self.forms: list[Form] = []
        self.is_cut = False
        """Whether rows were left out because they did not fit."""
        left = most_bytes - _FRAME_BYTES
        while len(self.rows) < limit and not self.is_cut:
            wanted = min(_READ_ROWS, limit - len(self.rows))
            rows = read(len(self.rows), wanted)
            for row in rows:
                form = show(row)
                left -= len(compact(form).encode()) + 1
                if left < 0 and self.rows:
                    self.is_cut = True
                    break
                self.rows.append(row)
                self.forms.append(form)
            if len(rows) < wanted:
                break


def lists_json(
    lists: Mapping[str, Callable[[int, int], Sequence[Any]]], cursor: str | None, most_bytes: int
) -> dict[str, Json]:
    """Several lists of one answer from the cursor on, as many of their rows as fit, and the cursor of the rest."""
    names, forms = [*lists], dict[str, Json]()
    match _decode(cursor):
        case None:
            first, start = 0, 0
        case [str() as name, int() as start] if name in names and 0 <= start < 2**53:
            first = names.index(name)
        case _:
            raise _invalid()
    for name in names[first:]:
        if most_bytes < _LARGEST_ROW_BYTES:
            return {**forms, "next_cursor": _encode([name, 0])}
        read, begin, start = lists[name], start, 0
        page = Page(lambda at, count, read=read, begin=begin: read(begin + at, count), LARGEST_ID, encode, most_bytes)
        forms[name] = page.forms
        if page.is_cut:
            return {**forms, "next_cursor": _encode([name, begin + len(page.rows)])}
        most_bytes -= sum(len(compact(form).encode()) for form in page.forms)
    return {**forms, "next_cursor": None}


# ---------------------------------------------------------------- cursors


def _encode(values: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode().rstrip("=")


def _decode(cursor: str | None) -> Any:
    if cursor is None:
        return None
    try:
        return json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (ValueError, RecursionError) as error:
        raise _invalid() from error


def _invalid() -> InvalidQuery:
    return InvalidQuery("the cursor is not valid", "Send the next_cursor of an answer, unchanged, or none")


def after_row(number: int) -> str:
    return _encode([number])


def offset_of(cursor: str | None) -> int:
    match _decode(cursor):
        case None:
            return 0
        case [int() as offset] if 0 <= offset < 2**53 and not isinstance(offset, bool):
            return offset
        case _:
            raise _invalid()


def after_item(item: Item) -> str:
    return _encode([time_json(item.created_at), item.id])


def from_item(filters: Filters, cursor: str | None) -> Filters:
    """The filters, narrowed to the items after the cursor in the order of `list`: newest first, then by id."""
    match _decode(cursor):
        case None:
            return filters
        case [str() as at, int() as last] if _is_time(at):
            earlier = {"or": [{"created_at": {"lt": at}}, {"created_at": {"eq": at}, "id": {"lt": last}}]}
        case _:
            raise _invalid()
    conditions = [read_where(where) for where in (earlier, filters.where) if where is not None]
    return replace(filters, where=Every(tuple(each for each in conditions if each is not None)))


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- tokens


def tokens(text: str) -> int:
    """Estimate the number of tokens that a language model reads, without a vocabulary.

    For prose, code and JSON the estimate is 5 to 30 % above OpenAI's o200k, for scripts other than Latin up to three
    times as high, and for random characters within 3 % (compared in tests/unit/ranking/test_budget.py).
    """
    return math.ceil(sum(_run_tokens(run) for run in _RUN.finditer(text)))


def _run_tokens(run: re.Match[str]) -> float:
    characters, length = run[0], run.end() - run.start()
    match run.lastgroup:
        case "letters":
            return 1 if length <= 6 else length / 4
        case "digits":
            return length // 3 + 1
        case "mixed":
            return length / 1.5
        case "space":
            return 0 if characters == " " else math.ceil(length / _TOKEN_CHARACTERS)
        case "wide":
            return len(characters.encode("utf-8", "replace")) / (3 if max(characters) <= "\uffff" else 2)
        case _:
            return 1 if length <= 2 else 0.75 * length


def check_budget(budget: int) -> int:
    if not is_whole(budget, SMALLEST_TOKENS) or budget > ANSWER_TOKENS:
        remedy = f"Give a whole number from {SMALLEST_TOKENS} to {ANSWER_TOKENS}"
        raise InvalidQuery(f"max_tokens is {budget!r}", remedy)
    return budget


def fitting(entries: Sequence[Sequence[Form]], budget: int) -> list[Form]:
    """Choose a form of each entry so that all of them fit the budget.

    `entries` lists the forms of each entry, smallest first. All entries get their second form before any gets its
    third, in order. Entries at the end are dropped only if the smallest forms do not fit; the first is never dropped.
    """
    chosen: list[Form] = []
    costs: list[int] = []
    left = budget
    for smallest, *_ in entries:
        cost = _cost(smallest)
        if cost > left and chosen:
            break
        chosen.append(smallest)
        costs.append(cost)
        left -= cost
    for level in range(1, max(map(len, entries), default=1)):
        for index, forms in enumerate(entries[: len(chosen)]):
            if level < len(forms):
                cost = _cost(forms[level], left + costs[index])
                if cost <= left + costs[index]:
                    left -= cost - costs[index]
                    chosen[index], costs[index] = forms[level], cost
    return chosen


def _cost(form: Form, budget: int = ANSWER_TOKENS) -> int:
    text = compact(form)
    return budget + 1 if len(text) > _TOKEN_CHARACTERS * max(budget, 1) else tokens(text) + _SEPARATOR_TOKENS


def shortened(text: str, budget: int) -> str:
    """Return the longest beginning of a text that fits the budget as JSON."""
    low, high = 0, min(len(text), _TOKEN_CHARACTERS * budget)
    if high == len(text) and tokens(compact(text)) <= budget:
        return text
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(compact(text[:middle])) <= budget else (low, middle - 1)
    return text[:low]

"""Windows: a text that is longer than what a model reads is embedded in overlapping parts, cut at sentence borders."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from fourfold.limits import MODEL_TOKENS, WINDOWS
from fourfold.model import Vector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Span: TypeAlias = tuple[int, int]
"""Start and end of a window in `body`."""

_BORDER: Final = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*\s+|[。！？]+|\n\s*")
"""Where sentences end. A run of stops is tried at its beginning only, so a text of nothing else takes linear time."""
_WORD_END: Final = re.compile(r"\s+")
_TITLE_CHARACTERS: Final = 200
"""Of the title, which every window of a text begins with."""
_LEAST_CHARACTERS: Final = 128
"""A window is at least this long, even if the model says that it does not read that much."""
_REPEATED_SHARE: Final = 0.25
"""The last sentence of a window is repeated in the next one, if it is at most this share of the window."""
_REPEATED_WORDS_SHARE: Final = 0.125
"""Repeated of a window that ends within a sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The vectors of a long text."""

    vectors: NDArray[np.float32] = field(repr=False)
    """One row per window."""
    spans: tuple[Span, ...]


def rows_of(vector: Vector | Windows) -> NDArray[np.float32]:
    """The vectors of an item as rows."""
    import numpy as np

    return vector.vectors if isinstance(vector, Windows) else np.asarray(vector, np.float32)[None, :]


def spans_of(vector: Vector | Windows | None) -> tuple[Span, ...]:
    """Empty if the item has a single vector."""
    return vector.spans if isinstance(vector, Windows) else ()


def embedded_text(title: str, text: str) -> str:
    """The text of an item that the model reads."""
    return f"{title}\n{text}" if title and text else title or text


def body(title: str, text: str) -> str:
    """What the spans of an item's windows refer to."""
    return text or title


def read_as(title: str, text: str, truncates: Callable[[str], bool]) -> tuple[list[str], tuple[Span, ...]]:
    """The texts to embed for an item, and the span of each; no spans if one text is enough.

    `truncates`: whether the model reads only the beginning of a text.
    """
    whole = embedded_text(title, text)
    if len(whole) <= MODEL_TOKENS or not truncates(whole):
        return [whole], ()
    head = f"{title[:_TITLE_CHARACTERS]}\n" if title and text else ""
    parts = body(title, text)
    spans = _spans(parts, lambda part: not truncates(head + part))
    texts = [head + parts[start:end] for start, end in spans]
    return (texts, tuple(spans)) if len(spans) > 1 else (texts, ())


def flaw(spans: Sequence[Span], characters: int) -> str | None:
    """What is wrong with the stored spans of a text of this many characters."""
    if len(spans) < 2 or len(spans) > WINDOWS:
        return f"it has {len(spans)} windows"
    if spans[-1][1] > characters:
        return "its windows reach beyond its text"
    starts, ends = zip(*spans, strict=True)
    ascending = all(list(places) == sorted(set(places)) for places in (starts, ends))
    adjacent = all(start <= end for start, end in zip(starts[1:], ends, strict=False))
    if starts[0] != 0 or not ascending or not adjacent or (ends[-1] < characters and len(spans) < WINDOWS):
        return "its windows leave out a part of its text"
    return None


def _spans(text: str, fits: Callable[[str], bool]) -> list[Span]:
    ends = [match.end() for match in _BORDER.finditer(text)]
    if not ends or ends[-1] < len(text):
        ends.append(len(text))
    spans: list[Span] = []
    start = end = 0
    while start < len(text) and len(spans) < WINDOWS:
        end, following = _window(text, start, ends, fits)
        spans.append((start, end))
        start = len(text) if end == len(text) else following
    if len(spans) > 1 and end == len(text):
        spans[-1] = (_earliest(text, spans[-2][0], spans[-1][0], ends, fits), end)
    return spans


def _earliest(text: str, before: int, start: int, ends: Sequence[int], fits: Callable[[str], bool]) -> int:
    """The earliest start of the last window, after the start `before` of the one before it.

    The rest of a text may be one sentence. Its vector is nearer to a query about any of its words than those of full
    windows, so that long items would outrank short ones by the accident of where their windows end.
    """
    borders = [place for place in ends if before < place < start]
    starts = borders or [match.end() for match in _WORD_END.finditer(text, before, start) if match.end() < start]
    starts.reverse()
    number = _last(starts, lambda place: fits(text[place:]))
    return start if number is None else starts[number]


def _window(text: str, start: int, ends: Sequence[int], fits: Callable[[str], bool]) -> Span:
    """The end of the window that starts here, and the start of the next one."""
    least = start + _LEAST_CHARACTERS

    def fit(end: int) -> bool:
        return end <= least or fits(text[start:end])

    first = bisect_right(ends, start)
    number = _last(ends[first:], fit)
    if number is None:
        return _window_of_words(text, start, ends[first], fit)
    end, before = ends[first + number], ends[first + number - 1] if number else start
    is_short = before > start and end - before <= (end - start) * _REPEATED_SHARE
    return end, before if is_short else end


def _window_of_words(text: str, start: int, limit: int, fit: Callable[[int], bool]) -> Span:
    """The same inside a sentence that is longer than a window."""
    ends = [match.end() for match in _WORD_END.finditer(text, start, limit)]
    number = _last(ends, fit)
    if number is None:
        characters = range(start + _LEAST_CHARACTERS, limit)
        number = _last(characters, fit) or 0
        return characters[number], characters[number]
    wanted = ends[number] - (ends[number] - start) * _REPEATED_WORDS_SHARE
    again = ends[min(bisect_right(ends, wanted), number)]
    return ends[number], again


def _last(ends: Sequence[int], fit: Callable[[int], bool]) -> int | None:
    """The index of the last end that fits, if all before it do; None if the first does not."""
    if not ends or not fit(ends[0]):
        return None
    good, step = 0, 1
    while good + step < len(ends) and fit(ends[good + step]):
        good, step = good + step, step * 2
    bad = min(good + step, len(ends))
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fit(ends[middle]) else (good, middle)
    return good

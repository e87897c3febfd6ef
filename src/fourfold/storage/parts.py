"""The windows of long items as stores write them, and the part of a text that is nearest to a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fourfold.embed.windows import Span, Windows
from fourfold.retrieval import Part

if TYPE_CHECKING:
    from fourfold.model import Vector

SPAN_BYTES = 8


def packed(spans: Sequence[Span]) -> bytes | None:
    """Starts and ends as 32-bit numbers; None without spans."""
    return np.array(spans, "<i4").tobytes() if spans else None


def unpacked(content: bytes | None) -> tuple[Span, ...]:
    whole = (content or b"")[: len(content or b"") // SPAN_BYTES * SPAN_BYTES]
    return tuple((start, end) for start, end in np.frombuffer(whole, "<i4").reshape(-1, 2).tolist())


def nearest_part(windows: Windows, query: Vector, characters: int) -> Part:
    """The part whose vector is nearest to the query; of equal ones the first. `characters`: of the text."""
    products = windows.vectors.astype(np.float64) @ np.asarray(query, np.float64)
    best = int(np.round(products, 6).argmax())
    start, end = windows.spans[best]
    return Part(best + 1, len(windows.spans), start, end, max(0, characters - windows.spans[-1][1]))

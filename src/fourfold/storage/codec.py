"""Values as every store writes them: JSON with sorted keys, times in microseconds since 1970, UTC, ids, and windows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fourfold import validation as rules
from fourfold.embed.windows import Span, Windows
from fourfold.errors import StorageFull
from fourfold.fields import DETAILS, Column, Details
from fourfold.model import Json, NewItem
from fourfold.retrieval import Part
from fourfold.text.fold import fold

if TYPE_CHECKING:
    from fourfold.model import Vector


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def dumps(data: Json) -> str:
    return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(text: str) -> bytes:
    """A key of fixed length for a text of any length."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def micros(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


@lru_cache(64)  # items that were stored together have the same time
def moment(stamp: int) -> datetime:
    return _EPOCH + timedelta(microseconds=stamp)


def optional_micros(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def optional_moment(stamp: int | None) -> datetime | None:
    return None if stamp is None else moment(stamp)


def detail_values(item: Details) -> list[Json]:
    """The columns of `DETAILS`, in their order."""
    values = ((column, getattr(item, name)) for name, column in DETAILS.items())
    return [micros(value) if value is not None and column.holds == "time" else value for column, value in values]


def read_optional(values: Iterable[Json], columns: Mapping[str, Column]) -> dict[str, Json]:
    """The fields that are set, from the values of their columns."""
    return {
        column.name: moment(value) if column.holds == "time" else value
        for column, value in zip(columns.values(), values, strict=True)
        if value is not None
    }


def united_details(stored: Sequence[Json], again: NewItem) -> list[Json]:
    """The columns of `DETAILS` of an item whose text is stored again: values that are set replace the stored ones."""
    renewed = dict(zip(DETAILS, stored, strict=True))
    said = dict(zip(DETAILS, detail_values(again), strict=True))
    trusted = rules.most_trusted(renewed["source"], again.source)
    renewed |= {name: value for name, value in said.items() if value is not None}
    return list((renewed | {"expires_at": said["expires_at"], "source": trusted}).values())


def text_identity(title: str, text: str, subject: str | None, attribute: str | None) -> str:
    """The identity of an item without key and path: its text, and the fact of which the text is a value."""
    words = text.strip() or f"\0{title.strip()}"
    return words if subject is None else "\0".join((fold(subject), fold(attribute or ""), words))


def fact_key(subject: str, attribute: str) -> str:
    """Equal for two items that state the same attribute of the same subject, however they are spelled."""
    return f"{fold(subject)}\0{fold(attribute)}"


# ---------------------------------------------------------------- ids
#
# Ids of items, raw records and nodes are unique in a store, and each namespace assigns its own. A namespace takes
# its ids from its own block, so that they reveal nothing about other namespaces. The first namespace has
# the block 0 and the ids 1, 2, 3, ...; an id is never reused.


BLOCK = 1_000_000_000
"""Number of ids in a block. Nine million blocks fit below LARGEST_ID."""

KINDS = ("items", "raw", "nodes")
NUMBERED = (*KINDS, "versions")
"""Tables that hold ids; versions have ids of items."""


def block_of(id: int) -> int:
    return id // BLOCK


def bounds(block: int) -> tuple[int, int]:
    """Exclusive bounds of the ids of a block."""
    return block * BLOCK, (block + 1) * BLOCK


def check_room(last: int, count: int) -> None:
    """`last`: the id that the namespace assigned last."""
    if last % BLOCK + count >= BLOCK:
        raise StorageFull("the namespace has used all of its ids", "Store what follows in another namespace")


# ---------------------------------------------------------------- windows of long items


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

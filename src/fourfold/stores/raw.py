"""Why a raw record cannot be forgotten, said alike by every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fourfold.errors import NotFound, RequestError

SHOWN_ITEMS: Final = 5
"""Items that are named in the refusal."""


def no_raw(record: int) -> NotFound:
    return NotFound(f"no raw record {record}", "fourfold raw list shows what there is")


def still_a_source(record: int, items: Sequence[int]) -> RequestError:
    """`items`: some of those that it is a source of, at most one more than is shown."""
    named = ", ".join(map(str, items[:SHOWN_ITEMS])) + (" and others" if len(items) > SHOWN_ITEMS else "")
    return RequestError(
        f"raw record {record} is a source of item {named}",
        "Forget these items first, or use force: then their source_ids lose it",
    )

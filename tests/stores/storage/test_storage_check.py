"""Checking many items together gives the same result as checking each alone."""

from dataclasses import fields
from datetime import UTC, datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fourfold import FourfoldError, NewItem
from fourfold.validation import checked, checked_many

RANDOM = np.random.default_rng(7)


def unit(dimension=8, scale=1.0, kind=np.float32):
    vector = RANDOM.normal(size=dimension)
    return (vector / np.linalg.norm(vector) * scale).astype(kind)


GOOD_VECTORS = st.sampled_from(
    [None, unit(), unit(), unit(8, 1 + 1e-7), unit(8, 3.0), unit(4), unit(8, 1, np.float64), [3, 4]]
)
BAD_VECTORS = st.sampled_from(
    [
        [], [0, 0], "ab", unit() * np.float32("nan"), np.zeros(8, np.float32), np.ones((2, 2), np.float32),
        unit() * np.inf,
    ]
)  # fmt: skip
ITEMS = st.builds(
    NewItem,
    text=st.sampled_from(
        ["Der Vertrag läuft aus", "the contract ends", "x", "", "a" * 300_000, "\ud800", "ein Haus und"]
    ),
    title=st.sampled_from(["", "Title", "Haus\u0308er", "nul\0"]),
    key=st.sampled_from([None, "k", " k ", ""]),
    tags=st.sampled_from([(), ("a", "A", "b"), ("",)]),
    language=st.sampled_from([None, None, "en", "de", ""]),
    created_at=st.sampled_from([None, datetime(2024, 1, 2, tzinfo=UTC)]),
    chunk_index=st.sampled_from([None, 0, -1]),
    vector=GOOD_VECTORS | BAD_VECTORS,
)


def outcome(work):
    """The fields of all checked items, or the error."""
    try:
        found = work()
    except FourfoldError as error:
        return type(error), str(error)
    return [[_comparable(getattr(item, each.name)) for each in fields(item)] for item in found]


def _comparable(value):
    return (value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else value


@given(st.lists(ITEMS, max_size=5))
def test_checking_many_items_equals_checking_each(items):
    assert outcome(lambda: checked_many(items)) == outcome(lambda: [checked(item) for item in items])

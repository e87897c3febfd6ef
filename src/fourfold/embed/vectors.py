"""Checks of vectors that come from outside: callers, files, endpoints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fourfold import limits
from fourfold.errors import InvalidVector

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float32]
    Numbers: TypeAlias = Sequence[float] | NDArray[Any]

LARGEST = 1e18
SMALLEST = 1e-18
"""Beyond these, squares leave the range of float32, and a similarity would be NaN."""

UNIT = 1e-6
"""A vector whose length differs from 1 by less is stored unchanged, so that export and import preserve every bit."""


def check_vector(values: Numbers, dimension: int | None = None) -> Floats:
    """The values as a float32 unit vector, or InvalidVector. Without a `dimension`, any up to the limit."""
    import numpy as np

    row = as_row(values)
    check_dimension(row.size, dimension)
    vector = row.astype(np.float64, copy=False)
    if row.dtype == np.float32:
        square = float(vector.dot(vector))  # not too large for float64
    else:
        with np.errstate(over="ignore"):  # infinity is refused below
            square = float(vector.dot(vector))
    length = math.sqrt(square) if square >= 0 else math.nan
    if abs(length - 1.0) < UNIT:  # then no number is too large, and one is large enough
        return vector.astype(np.float32)
    check_size(float(np.abs(vector).max()))
    return (vector / length).astype(np.float32)


def check_vectors(given: Sequence[Numbers]) -> list[Floats]:
    """The same of several; those that are unit vectors of one dimension already are looked at together."""
    import numpy as np

    shapes = {(each.shape, each.dtype) if isinstance(each, np.ndarray) else None for each in given}
    shape, kind = next(iter(shapes), None) or ((), None)
    if len(shapes) != 1 or kind != np.float32 or len(shape) != 1 or not 0 < shape[0] <= limits.VECTOR_DIMENSIONS:
        return [check_vector(each) for each in given]
    matrix = np.concatenate(given).reshape(len(given), -1)
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(np.vecdot(matrix, matrix, dtype=np.float64))
    is_unit = (np.abs(lengths - 1.0) < UNIT).tolist()
    return [row if unit else check_vector(row) for row, unit in zip(matrix, is_unit, strict=True)]


def as_row(values: Numbers) -> NDArray[Any]:
    """A flat array of numbers, whatever the caller sent."""
    import numpy as np

    try:
        count = len(values)
        row = np.asarray(values) if count <= limits.VECTOR_DIMENSIONS else None
    except (ValueError, TypeError, OverflowError) as error:
        raise not_numbers() from error
    if row is None:
        raise InvalidVector(f"the embedding has {count} dimensions", f"At most {limits.VECTOR_DIMENSIONS} are taken")
    if row.ndim != 1 or (count and row.dtype.kind not in "fiu"):
        raise not_numbers()
    return row


def not_numbers() -> InvalidVector:
    return InvalidVector("an embedding is a flat list of numbers", "Send it as [0.1, -0.2, ...]")


def check_dimension(found: int, wanted: int | None) -> None:
    if found == 0:
        raise InvalidVector("the embedding is empty", "Send one number a dimension, or leave it out")
    if wanted is not None and found != wanted:
        raise wrong_dimension(found, wanted)


def wrong_dimension(found: int, wanted: int) -> InvalidVector:
    message = f"the embedding has {found} dimensions where {wanted} are expected"
    return InvalidVector(message, "Embed with the model that the namespace was built with, or leave it out")


def check_size(peak: float) -> None:
    """`peak` is the largest magnitude; NaN and infinity come through it too."""
    if not peak <= LARGEST:
        raise InvalidVector("the embedding has NaN, infinite or absurdly large numbers", "Check what made it")
    if peak < SMALLEST:
        raise InvalidVector("the embedding is all zero", "A zero vector has no direction; leave it out")

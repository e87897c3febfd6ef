"""The names that the option `rerank` takes. How a reranker is made is in `fourfold.rerank`."""

from __future__ import annotations

from typing import Final

from fourfold.errors import InvalidQuery

OFF: Final = "off"
AUTO: Final = "auto"
BUILT_IN: Final = "ms-marco"
ENDPOINT: Final = "endpoint"
FOLDER_PREFIX: Final = "onnx:"
RERANKERS: Final = f"{OFF}, {AUTO}, {BUILT_IN}, {ENDPOINT} or {FOLDER_PREFIX}FOLDER"
RERANKERS_REMEDY: Final = f"Choose {RERANKERS}"


def is_rerank(value: object) -> bool:
    """Whether the value names a reranker, or is `off` or `auto`."""
    if not isinstance(value, str):
        return False
    folder = value.removeprefix(FOLDER_PREFIX)
    return value in (OFF, AUTO, BUILT_IN, ENDPOINT) or "" != folder != value


def checked_rerank(value: object) -> str | None:
    """Return the name of a reranker or `auto`, and None for `off`; raise InvalidQuery for anything else."""
    if not is_rerank(value):
        raise InvalidQuery(f"rerank is {value!r}", RERANKERS_REMEDY)
    return None if value == OFF else str(value)

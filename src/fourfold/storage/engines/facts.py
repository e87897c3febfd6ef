"""What an engine knows of items besides words and vectors, so that it can leave out most of what filters exclude."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fourfold.filters import Condition, Every, Some, Test
from fourfold.storage.engines.protocol import Required

_FIELDS = ("kind", "language", "tags")


def fact_hash(field: str, value: str) -> int:
    """A number of 52 bits, which engines that count in floating point compare exactly. No text leaves the store."""
    digest = hashlib.blake2b(f"{field}\0{value}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 12


def item_facts(kind: str | None, language: str, tags: Sequence[str]) -> list[int]:
    facts = [fact_hash("language", language), *(fact_hash("tags", tag) for tag in tags)]
    return facts if kind is None else [*facts, fact_hash("kind", kind)]


def required(condition: Condition | None) -> Required:
    """Groups of facts of which every item that passes has at least one each. The condition itself may say more."""
    match condition:
        case Every():
            return [group for part in condition.parts for group in required(part)]
        case Some():
            parts = [required(part) for part in condition.parts]
            return [[fact for part in parts for fact in part[0]]] if all(parts) else []
        case Test() if condition.op == "in" and condition.field.column is not None:
            name, values = condition.field.column.name, condition.values
            if name in _FIELDS and all(isinstance(value, str) and "\0" not in value for value in values):
                return [[fact_hash(name, value) for value in values]]
            return []
        case _:
            return []

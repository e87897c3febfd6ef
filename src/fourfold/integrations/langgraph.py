"""LangGraph: Fourfold as a long-term store for agents (extra `langgraph`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

from fourfold.errors import InvalidQuery, MissingExtra
from fourfold.filters import Condition, Every, Field, Operator, Some, make_test
from fourfold.integrations import documents
from fourfold.model import Filters, Json, NewItem
from fourfold.model import Item as Stored
from fourfold.validation import checked_metadata

try:
    from langgraph.store import base
    from langgraph.store.base.embed import get_text_at_path
except ImportError as error:
    raise MissingExtra(f"langgraph-checkpoint is missing ({error})", "pip install 'fourfold[langgraph]'") from error

KIND: Final = "langgraph"
"""The kind of the items, and the key of their metadata that has what LangGraph stored."""
_OPERATORS: Final[Mapping[str, Operator]] = {
    "$eq": "eq",
    "$ne": "ne",
    "$gt": "gt",
    "$gte": "gte",
    "$lt": "lt",
    "$lte": "lte",
}
Namespace = tuple[str, ...]


class FourfoldStore(base.BaseStore):
    """A memory as the store of a graph: `builder.compile(store=FourfoldStore(memory))`.

    Namespaces of LangGraph are kept inside the memory's namespace. A value is searched by the text of `fields`, by
    default all of it, and by that of `index` if `put` names other fields. Values are JSON of at most 64 KiB.
    """

    def __init__(self, memory: documents.AnyMemory, *, fields: Sequence[str] = ("$",)) -> None:
        self.memory = memory
        self._fields = list(fields)

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Reads see the state before the writes of the same batch; of several writes to one key, the last counts."""
        results: list[base.Result] = []
        writes: dict[str, base.PutOp] = {}
        for op in ops:
            match op:
                case base.GetOp():
                    items = documents.find(self.memory, [_key(op.namespace, op.key)])
                    results.append(next((base.Item(**_facts(item)) for item in items.values()), None))
                case base.SearchOp():
                    results.append(self._search(op))
                case base.ListNamespacesOp():
                    namespaces = {_namespace(item) for item in documents.each(self.memory, {"kind": KIND})}
                    matching = (
                        name for name in namespaces if all(_matches(name, test) for test in op.match_conditions or ())
                    )
                    results.append(
                        sorted({name[: op.max_depth] for name in matching})[op.offset : op.offset + op.limit]
                    )
                case base.PutOp():
                    writes[_key(op.namespace, op.key)] = op
                    results.append(None)
        self._write(writes)
        return results

    async def abatch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _search(self, op: base.SearchOp) -> list[base.SearchItem]:
        """By the query, best first; without one, the newest first."""
        filters = Filters(kind=KIND, where=_where(op))
        if not op.query:
            listed = self.memory.list(filters, limit=op.limit, offset=op.offset)
            return [base.SearchItem(**_facts(item)) for item in listed]
        results = self.memory.search(op.query, top_k=op.offset + op.limit, filters=filters).results
        return [base.SearchItem(**_facts(result.item), score=result.score) for result in results[op.offset :]]

    def _write(self, writes: Mapping[str, base.PutOp]) -> None:
        """All values in one transaction, then the deletions."""
        new = [self._item(key, op) for key, op in writes.items() if op.value is not None]
        self.memory.add_many(new, wait=True)
        documents.forget(self.memory, [key for key, op in writes.items() if op.value is None])

    def _item(self, key: str, op: base.PutOp) -> NewItem:
        value = checked_metadata(op.value or {})
        fields = [] if op.index is False else self._fields if op.index is None else op.index
        text = "\n".join(part for field in fields for part in get_text_at_path(value, field))
        kept = {
            "namespace": list(op.namespace),
            "prefixes": [_name(op.namespace[:depth]) for depth in range(1, len(op.namespace) + 1)],
            "key": op.key,
            "value": value,
            "updated_at": datetime.now(UTC).isoformat(),
        }
        return NewItem(text, title="" if text.strip() else op.key, key=key, kind=KIND, metadata={KIND: kept})


def _key(namespace: Namespace, key: str) -> str:
    return f"{KIND}:{_name((*namespace, key))}"


def _name(parts: Namespace) -> str:
    return json.dumps(parts, ensure_ascii=False)


def _namespace(item: Stored) -> Namespace:
    return tuple(item.metadata[KIND]["namespace"])


def _facts(item: Stored) -> dict[str, Any]:
    kept = item.metadata[KIND]
    return {
        "namespace": _namespace(item),
        "key": kept["key"],
        "value": kept["value"],
        "created_at": item.created_at,
        "updated_at": datetime.fromisoformat(kept["updated_at"]),
    }


def _matches(name: Namespace, test: base.MatchCondition) -> bool:
    path = tuple(test.path)
    if len(path) > len(name):
        return False
    part = name[: len(path)] if test.match_type == "prefix" else name[len(name) - len(path) :]
    return all(wanted in ("*", actual) for wanted, actual in zip(path, part, strict=True))


def _where(op: base.SearchOp) -> Condition | None:
    parts = _tests(("value",), op.filter or {})
    if op.namespace_prefix:
        parts.append(make_test(Field(None, (KIND, "prefixes")), "eq", _name(op.namespace_prefix)))
    return Every(tuple(parts)) if parts else None


def _tests(path: tuple[str, ...], fields: Mapping[str, Json]) -> list[Condition]:
    """A mapping as conditions on the value: operators such as $gt, nested keys, or equality."""
    parts: list[Condition] = []
    for name, wanted in fields.items():
        if name in _OPERATORS:
            parts.append(make_test(Field(None, (KIND, *path)), _OPERATORS[name], wanted))
        elif name.startswith("$"):
            raise InvalidQuery(f"unknown operator {name!r}", f"Use one of {', '.join(_OPERATORS)}")
        elif isinstance(wanted, Mapping) and wanted:
            parts += _tests((*path, name), cast("Mapping[str, Json]", wanted))
        else:
            parts.append(_equal(Field(None, (KIND, *path, name)), wanted))
    return parts


def _equal(field: Field, wanted: Json) -> Condition:
    """Equality; a key that is missing is None."""
    equal = make_test(field, "eq", wanted)
    return Some((equal, make_test(field, "exists", False))) if wanted is None else equal

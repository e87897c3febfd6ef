"""Names in a filter that no item has, and the names that exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fourfold.filters.conditions import COLUMNS, Condition, Test, leaves
from fourfold.model import Filters

if TYPE_CHECKING:
    from fourfold.stores.base import Store

_SHOWN: Final = 20
_PROBED: Final = 20
"""Names of one filter that are looked up."""
_PLURALS: Final = {"tags": "tags", "kind": "kinds", "language": "languages"}


async def unknown_names(
    store: Store, namespace: str, condition: Condition, *, negated_only: bool = False
) -> tuple[str, ...]:
    """A line for each kind, language, tag or metadata key of the condition that no item of the namespace has.

    `negated_only`: just those that a `not` excludes, which an answer with results can hide.
    """
    lines: dict[str, None] = {}
    probed = 0
    for test, negated in leaves(condition):
        for probe in _probes(test):
            if probed < _PROBED and (negated or not negated_only):
                probed += 1
                if not await store.list(namespace, Filters(where=probe), 1, 0):
                    lines[await _line(store, namespace, probe)] = None
    return tuple(lines)


def _probes(test: Test) -> list[Test]:
    """Tests that hold for an item that has one of the names."""
    column = test.field.column
    if column is None:
        return [Test(test.field, "exists")]
    if column.name not in _PLURALS or test.op != "in":
        return []
    return [Test(test.field, "in", (name,)) for name in test.values if name is not None]


async def _line(store: Store, namespace: str, probe: Test) -> str:
    column = probe.field.column
    if column is None:
        known = await store.vocabulary(namespace, "metadata")
        fields = ", ".join(column.name for column in COLUMNS)
        name = probe.field.name.partition(".")[2]
        return f"no item has the metadata key {name!r}; keys: {_listed(known)}; fields: {fields}"
    if column.name == "tags":
        known = await store.tag_counts(namespace)
    else:
        known = await store.vocabulary(namespace, "kind" if column.name == "kind" else "language")
    what = "tag" if column.name == "tags" else column.name
    return f"no item has the {what} {probe.values[0]!r}; {_PLURALS[column.name]}: {_listed(known)}"


def _listed(known: Mapping[str, int]) -> str:
    """The commonest first."""
    names = sorted(known, key=lambda name: (-known[name], name))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "none"

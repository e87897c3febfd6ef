"""Names in a filter that no item has, such as misspelt tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fourfold.fields import COLUMNS
from fourfold.filters.conditions import Condition, Test, leaves
from fourfold.model import Filters

if TYPE_CHECKING:
    from fourfold.storage.protocols import Rows, Tags

_SHOWN: Final = 20
_PROBED: Final = 20
"""Names of one filter that are looked up."""
_NAMING_COLUMNS: Final = ("tags", "kind", "language")


def unknown_names(rows: Rows, tags: Tags, condition: Condition, *, negated_only: bool = False) -> tuple[str, ...]:
    """A line for each kind, language, tag or metadata key of the condition that no item of the namespace has.

    `negated_only`: only names under a `not`: a misspelt one excludes nothing, and the results do not show it.
    """
    lines: dict[str, None] = {}
    probed = 0
    for test, negated in leaves(condition):
        for probe in _probes(test):
            if probed < _PROBED and (negated or not negated_only):
                probed += 1
                if not rows.list(Filters(where=probe), 1, 0):
                    lines[_line(rows, tags, probe)] = None
    return tuple(lines)


def _probes(test: Test) -> list[Test]:
    """Tests that hold for an item that has one of the names."""
    column = test.field.column
    if column is None:
        return [Test(test.field, "exists")]
    if column.name not in _NAMING_COLUMNS or test.op != "in":
        return []
    return [Test(test.field, "in", (name,)) for name in test.values if name is not None]


def _line(rows: Rows, tags: Tags, probe: Test) -> str:
    column = probe.field.column
    if column is None:
        known = rows.vocabulary("metadata")
        fields = ", ".join(COLUMNS)
        name = probe.field.name.partition(".")[2]
        return f"no item has the metadata key {name!r}; keys: {_listed(known)}; fields: {fields}"
    name = probe.values[0]
    if column.name == "tags":
        return f"no item has the tag {name!r}; tags: {_listed(tags.counts())}"
    known = rows.vocabulary("kind" if column.name == "kind" else "language")
    return f"no item has the {column.name} {name!r}; {column.name}s: {_listed(known)}"


def _listed(known: Mapping[str, int]) -> str:
    """The most frequent first."""
    names = sorted(known, key=lambda name: (-known[name], name))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "none"

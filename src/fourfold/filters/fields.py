"""The fields that filters can test: one description each, from which grammar, SQL, options and tool schemas derive.

A new field takes a `Column` here and a column of the same name in each store. With a `FilterOption` it is also an
option of the command line and an argument of the tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

Holds = Literal["number", "text", "glob", "time", "tags"]


@dataclass(frozen=True, slots=True)
class FilterOption:
    """A filter that callers can set by name instead of writing a condition."""

    name: str
    """The field of `Filters` and the argument of tools; an option without such a field becomes part of `where`."""
    flag: str
    metavar: str
    help: str
    """Text of `--help`."""
    requires: str
    """Condition on items, for the reference."""
    advice: str
    """Description of the argument for language models."""
    listed: bool = False
    """Whether the definitions of tools list the argument; unlisted arguments are accepted."""
    op: Literal["eq", "gte", "lte"] = "eq"
    holds: Holds | Literal["flag", "metadata", "condition"] | None = None
    """Type of the value; None: that of the column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A field that every item has, and that every store keeps in a column (tags: in a table) of this name."""

    name: str
    holds: Holds
    """Type of the values: a `glob` is matched, `tags` are compared in folded form."""
    aliases: tuple[str, ...] = ()
    options: tuple[FilterOption, ...] = ()
    advised: bool = True
    """Whether descriptions for language models mention the field."""
    sparse: bool = False
    """Whether few items have it, so that stores look these up instead of reading every row."""
    otherwise: str | None = None
    """The column that is compared for items that lack this one."""


_TABLE: Final = (
    Column(
        "tags",
        "tags",
        ("tag",),
        (
            FilterOption(
                "tags",
                "--tag",
                "T",
                help="Only items with this tag; repeat for more.",
                requires="carry all of them",
                advice="Has all of these tags.",
                listed=True,
            ),
            FilterOption(
                "any_tag",
                "--any-tag",
                "",
                help="One of the tags is enough.",
                requires="(carry one of them)",
                advice="One of the tags is enough.",
                holds="flag",
            ),
        ),
    ),
    Column(
        "kind",
        "text",
        options=(
            FilterOption(
                "kind",
                "--kind",
                "K",
                help="Only items of this kind.",
                requires="be of this kind",
                advice="Has this kind.",
                listed=True,
            ),
        ),
    ),
    Column(
        "language",
        "text",
        ("lang",),
        (
            FilterOption(
                "language",
                "--lang",
                "L",
                help="Only items in this language, such as de.",
                requires="be in this language",
                advice="ISO 639-1, such as de.",
            ),
        ),
    ),
    Column(
        "path",
        "glob",
        ("file_path",),
        (
            FilterOption(
                "path",
                "--path",
                "GLOB",
                help="Only items of these files.",
                requires="match the glob: `*` within a folder, `**` across folders, `?` one character, `[abc]` one of "
                "these; without a root it matches absolute paths from any folder on",
                advice="File path, such as docs/**.",
            ),
        ),
    ),
    Column("created_at", "time", ("created",)),
    Column(
        "occurred_at",
        "time",
        ("occurred",),
        (
            FilterOption(
                "created_from",
                "--from",
                "D",
                help="Happened (else: created) at or after.",
                requires="have happened then or later; without `occurred_at`: be created then or later",
                advice="Happened (else: created) at this ISO date or time, or later.",
                op="gte",
            ),
            FilterOption(
                "created_to",
                "--to",
                "D",
                help="Happened (else: created) until; a date includes that day.",
                requires="have happened then or earlier; without `occurred_at`: be created then or earlier",
                advice="Happened (else: created) up to this ISO date (that day included) or time.",
                op="lte",
            ),
        ),
        otherwise="created_at",
    ),
    Column("updated_at", "time", ("updated",)),
    Column("expires_at", "time", ("expires",), advised=False, sparse=True),
    Column("superseded_at", "time", ("superseded",), advised=False, sparse=True),
    Column("valid_from", "time", advised=False, otherwise="created_at"),
    Column(
        "source",
        "text",
        options=(
            FilterOption(
                "source",
                "--source",
                "S",
                help="Only items from user, agent, tool, file or import.",
                requires="come from this source: user, agent, tool, file or import",
                advice="Came from: user, agent, tool, file or import.",
            ),
        ),
    ),
    Column(
        "subject",
        "text",
        options=(
            FilterOption(
                "subject",
                "--subject",
                "S",
                help="Only items about this subject.",
                requires="have this subject",
                advice="Is about this subject.",
            ),
        ),
    ),
    Column("attribute", "text", advised=False),
    Column("key", "text"),
    Column("title", "text"),
    Column("id", "number", advised=False),
    Column("chunk_index", "number", ("chunk",), advised=False),
)

COLUMNS: Final[dict[str, Column]] = {column.name: column for column in _TABLE}

_CONDITIONS: Final = (
    FilterOption(
        "metadata",
        "--meta",
        "K=V",
        help="Metadata: K=V, or !=, <, <=, >, >=.",
        requires="pass every `MetadataTest(key, op, value)`; `op` is one of the [operators](#filter-grammar), nested "
        "keys are joined by dots",
        advice='Such as {"floor": 4} or {"floor": {"gte": 2, "lt": 5}}.',
        holds="metadata",
    ),
    FilterOption(
        "where",
        "--where",
        "EXPR",
        help="Such as 'line >= 10 and (kind != code or tag in (a, b))'.",
        requires="satisfy a condition of the [grammar](#filter-grammar), as text or as a mapping",
        advice="Condition on {fields}: created_at >= 2026-01-31 and (path = docs/** or not tag in (a, b)) and floor "
        "exists",
        listed=True,
        holds="condition",
    ),
)


def filter_options() -> dict[str, FilterOption]:
    """Return all options by name, with their types."""
    tests = (
        replace(option, holds=option.holds or column.holds) for column in COLUMNS.values() for option in column.options
    )
    return {option.name: option for option in (*tests, *_CONDITIONS)}


def column_options() -> Iterator[tuple[Column, FilterOption]]:
    """Yield the options that test one column each; those of the tags are combined elsewhere."""
    return ((column, option) for column in COLUMNS.values() if column.holds != "tags" for option in column.options)


def column_named(name: str) -> Column | None:
    """Return the column with this name or alias."""
    return COLUMNS.get(name) or next((column for column in COLUMNS.values() if name in column.aliases), None)


def advised_fields() -> str:
    """Return the fields that a condition can test, for descriptions for language models."""
    advised = (column for column in COLUMNS.values() if column.advised)
    names = (f"{column.name} (glob)" if column.holds == "glob" else column.name for column in advised)
    return f"{', '.join(names)} or keys of the metadata"

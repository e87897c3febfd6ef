"""The fields of an item: one description each.

Rows of the stores, exports, JSON, parameters of commands and tools, the HTTP schema, filters and the reference derive
from the descriptions. A new field is one line of `Details` and one migration of the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias, get_args, get_type_hints

Holds = Literal["number", "text", "glob", "time", "tags"]

Source: TypeAlias = Literal["user", "agent", "tool", "file", "import"]
"""The interface through which an item came in, the most trusted first."""


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

    name: str = ""
    holds: Holds = "text"
    """Type of the values: a `glob` is matched, `tags` are compared in folded form."""
    aliases: tuple[str, ...] = ()
    options: tuple[FilterOption, ...] = ()
    advised: bool = True
    """Whether descriptions for language models mention the field."""
    sparse: bool = False
    """Whether few items have it, so that stores look these up instead of reading every row."""
    otherwise: str | None = None
    """The column that is compared for items that lack this one."""
    help: str = ""
    """What a caller gives, for commands, tools and the reference."""
    metavar: str = ""
    """Placeholder of the value in `--help`."""
    given: bool = True
    """Whether callers give it; others are set by the engine."""
    listed: bool = True
    """Whether the definition of `store_memory` lists it; an unlisted one is accepted."""
    filtered: bool = True
    """Whether filters can test it."""

    @property
    def flag(self) -> str:
        """The option of `fourfold add`: the name without the ending that says that it is a time."""
        return f"--{self.name.removesuffix('_at').replace('_', '-')}"


# ---------------------------------------------------------------- fields that an item may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What can be said about an item beside its text, tags and metadata. Each field is a column of the same name."""

    subject: Annotated[
        str | None,
        Column(help="What it is about, such as a person.", metavar="S", options=(
            FilterOption("subject", "--subject", "S", help="Only items about this subject.",
                requires="have this subject", advice="Is about this subject."),
        )),
    ] = None  # fmt: skip
    attribute: Annotated[
        str | None, Column(help="Which fact about the subject it states, such as address.", metavar="A", advised=False)
    ] = None
    occurred_at: Annotated[
        datetime | None,
        Column(help="ISO date or time at which it happened.", aliases=("occurred",), otherwise="created_at", options=(
            FilterOption("created_from", "--from", "D", help="Happened (else: created) at or after.",
                requires="have happened then or later; without `occurred_at`: be created then or later",
                advice="Happened (else: created) at this ISO date or time, or later.", op="gte"),
            FilterOption("created_to", "--to", "D", help="Happened (else: created) until; a date includes that day.",
                requires="have happened then or earlier; without `occurred_at`: be created then or earlier",
                advice="Happened (else: created) up to this ISO date (that day included) or time.", op="lte"),
        )),
    ] = None  # fmt: skip
    expires_at: Annotated[
        datetime | None,
        Column(help="ISO date or time after which it is not found any more.", aliases=("expires",), advised=False,
            sparse=True, listed=False),
    ] = None  # fmt: skip
    source: Annotated[
        Source | None,
        Column(
            help="Interface it came through; None: `user`, or the least trusted source of its raw records.",
            given=False,
            options=(
                FilterOption("source", "--source", "S", help="Only items from user, agent, tool, file or import.",
                    requires="come from this source: user, agent, tool, file or import",
                    advice="Came from: user, agent, tool, file or import."),
            ),
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class History(Details):
    """A stored item also has a place among versions and values of a fact, which the engine keeps."""

    valid_from: Annotated[datetime | None, Column(given=False, advised=False, otherwise="created_at")] = None
    """Since when it is believed, if that is not `created_at`: the time of the last update."""
    superseded_at: Annotated[
        datetime | None, Column(given=False, aliases=("superseded",), advised=False, sparse=True)
    ] = None
    """Until when it was believed; None: it still is."""
    supersedes: Annotated[int | None, Column(given=False, filtered=False)] = None
    """The value or version before it."""
    version_of: Annotated[int | None, Column(given=False, filtered=False)] = None
    """The item of which this is an earlier version, kept by an update."""


def _described(kind: type) -> dict[str, Column]:
    """The columns of a class of optional fields, with their names and types."""
    columns: dict[str, Column] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        value, column = get_args(hint)
        holds: Holds = "time" if datetime in get_args(value) else "number" if int in get_args(value) else "text"
        columns[name] = replace(column, name=name, holds=holds)
    return columns


DETAILS: Final = _described(Details)
OPTIONAL: Final = _described(History)
"""Fields that JSON and records of an item have only if they are set."""
HISTORY: Final = {name: column for name, column in OPTIONAL.items() if name not in DETAILS}

# ---------------------------------------------------------------- fields that every item has

_ALWAYS: Final = (
    Column("tags", "tags", ("tag",), (
        FilterOption("tags", "--tag", "T", help="Only items with this tag; repeat for more.",
            requires="carry all of them", advice="Has all of these tags.", listed=True),
        FilterOption("any_tag", "--any-tag", "", help="One of the tags is enough.", requires="(carry one of them)",
            advice="One of the tags is enough.", holds="flag"),
    )),
    Column("kind", "text", options=(
        FilterOption("kind", "--kind", "K", help="Only items of this kind.", requires="be of this kind",
            advice="Has this kind.", listed=True),
    )),
    Column("language", "text", ("lang",), (
        FilterOption("language", "--lang", "L", help="Only items in this language, such as de.",
            requires="be in this language", advice="ISO 639-1, such as de."),
    )),
    Column("path", "glob", ("file_path",), (
        FilterOption("path", "--path", "GLOB", help="Only items of these files.",
            requires="match the glob: `*` within a folder, `**` across folders, `?` one character, `[abc]` one of "
            "these; without a root it matches absolute paths from any folder on",
            advice="File path, such as docs/**."),
    )),
    Column("created_at", "time", ("created",)),
    Column("updated_at", "time", ("updated",)),
    Column("key", "text"),
    Column("title", "text"),
    Column("id", "number", advised=False),
    Column("chunk_index", "number", ("chunk",), advised=False),
)  # fmt: skip

COLUMNS: Final[dict[str, Column]] = {
    column.name: column for column in (*_ALWAYS, *OPTIONAL.values()) if column.filtered
}
"""The fields that filters can test."""
_CONDITIONS: Final = (
    FilterOption("metadata", "--meta", "K=V", help="Metadata: K=V, or !=, <, <=, >, >=.",
        requires="pass every `MetadataTest(key, op, value)`; `op` is one of the [operators](#filter-grammar), nested "
        "keys are joined by dots",
        advice='Such as {"floor": 4} or {"floor": {"gte": 2, "lt": 5}}.', holds="metadata"),
    FilterOption("where", "--where", "EXPR", help="Such as 'line >= 10 and (kind != code or tag in (a, b))'.",
        requires="satisfy a condition of the [grammar](#filter-grammar), as text or as a mapping",
        advice="Condition on {fields}: created_at >= 2026-01-31 and (path = docs/** or not tag in (a, b)) and floor "
        "exists", listed=True, holds="condition"),
)  # fmt: skip


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

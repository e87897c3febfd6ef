"""Writes the tables of the reference that derive from descriptions. `--check` fails if one is out of date."""

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fourfold import Memory
from fourfold.cli.commands import COMMANDS
from fourfold.cli.main import app
from fourfold.fields import COLUMNS, DETAILS, filter_options
from fourfold.model import Filters
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.ranking.retrievers import RETRIEVERS, RetrieverSpec

DOCS = Path(__file__).parent.parent / "docs"


def table(header: str, rows: Iterable[tuple[str, ...]]) -> str:
    columns = tuple(header.split(" | "))
    head, *body = (f"| {' | '.join(row)} |" for row in (columns, *rows))
    return "\n".join([head, "|" + "---|" * len(columns), *body])


def option_row(option: SearchOption) -> tuple[str, ...]:
    written = option.spelled or " ".join(filter(None, (option.flag, option.metavar)))
    spelled = ", ".join(f"`{part}`" for part in written.split(", ")).replace(" ...`", "` ...") if written else "-"
    choices = f" One of {', '.join(f'`{choice}`' for choice in option.choices)}." if option.choices else ""
    names = ", ".join(f"`{name}`" for name in RETRIEVERS)
    return f"`{option.name}`", spelled, option.default, option.help.format(retrievers=names) + choices


def retriever_row(spec: RetrieverSpec) -> tuple[str, ...]:
    fields = ", ".join(f"`{field}`" for field in (spec.rank_field, spec.score_field) if field is not None)
    return f"`{spec.name}`", spec.finds, spec.score, fields


def filter_rows() -> Iterable[tuple[str, ...]]:
    for option in filter_options().values():
        yield (
            f"`{option.name}`",
            f"`{getattr(Filters(), option.name)}`",
            option.requires.replace("(#", "(reference-search.md#"),
        )


def detail_rows() -> Iterable[tuple[str, ...]]:
    for column in DETAILS.values():
        metavar = "TIME" if column.holds == "time" else column.metavar
        yield f"`{column.name}`", "`None`", f"`{column.flag} {metavar}`" if column.given else "-", column.help


def field_names() -> str:
    named = (
        f"`{column.name}`" + (f" ({', '.join(f'`{alias}`' for alias in column.aliases)})" if column.aliases else "")
        for column in COLUMNS.values()
    )
    return (
        f"- **Fields**: {', '.join(named)}.\n"
        "  Every other name is a key of the metadata; `metadata.kind` is a metadata key that has the name of a field."
    )


def method_rows() -> Iterable[tuple[str, ...]]:
    for name in dir(Memory):
        if not name.startswith("_") and callable(getattr(Memory, name)):
            yield f"`{name}`", first_paragraph(getattr(Memory, name))


def command_rows() -> Iterable[tuple[str, ...]]:
    for name, place in COMMANDS.items():
        command: Any = app.get_command(None, name)  # pyright: ignore[reportArgumentType]
        inner: dict[str, Any] = getattr(command, "places", {})
        if not inner or command.invoke_without_command:
            yield f"`{name}`", place.help
        yield from ((f"`{name} {called}`", held.help) for called, held in inner.items())


def first_paragraph(described: object) -> str:
    """What a docstring says before its details."""
    return " ".join((inspect.getdoc(described) or "").partition("\n\n")[0].split()).replace("|", "\\|")


TEXT = ("`text`", "`QUERY`", "", "Any text that is not blank.")
PARTS = {
    "options": lambda: table(
        "parameter | on the command line | default | meaning", [TEXT, *map(option_row, OPTIONS.values())]
    ),
    "retrievers": lambda: table(
        "retriever | ranks by | its score | fields of a result", map(retriever_row, RETRIEVERS.values())
    ),
    "methods": lambda: table("method | what it does", method_rows()),
    "commands": lambda: table("command | what it does", command_rows()),
    "filters": lambda: table("field | default | an item must", filter_rows()),
    "details": lambda: table("field | default | on the command line | meaning", detail_rows()),
    "fields": field_names,
}


def reference_pages() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in DOCS.glob("reference*.md")}


def updated(pages: dict[Path, str]) -> dict[Path, str]:
    """The pages with each generated part replaced."""
    for name, make in PARTS.items():
        marks = re.compile(rf"(<!-- {name}: made by scripts/reference_tables.py -->\n).*?(\n<!-- end -->)", re.DOTALL)
        text = make().replace("\\", r"\\")
        replaced = {path: marks.subn(rf"\g<1>{text}\g<2>", page) for path, page in pages.items()}
        if (found := sum(count for _, count in replaced.values())) != 1:
            sys.exit(f"the reference has {found} places for {name}; it must have one")
        pages = {path: page for path, (page, _) in replaced.items()}
    return pages


if __name__ == "__main__":
    before = reference_pages()
    after = updated(before)
    if "--check" in sys.argv[1:] and after != before:
        sys.exit("the reference is out of date: run python scripts/reference_tables.py")
    for path, page in after.items():
        path.write_text(page, encoding="utf-8", newline="\n")

"""The formats that can be imported, and how their content is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fourfold.errors import InvalidQuery

if TYPE_CHECKING:
    from fourfold.integrations.importers.reading import Found
    from fourfold.memory import Memory


class Format(NamedTuple):
    reader: str
    """A function `(path) -> Found` of a module in this package."""
    help: str


FORMATS: Final[Mapping[str, Format]] = {
    "mem0": Format("json_exports.read_mem0", "the JSON of mem0's `get_all()`"),
    "basic-memory": Format("basic_memory.read", "a folder of Markdown notes, or one note"),
    "mcp-memory-service": Format("json_exports.read_mcp_memory_service", "the JSON of its `memory export`"),
    "chroma": Format("chroma.read", "the folder of a Chroma database"),
    "langchain-jsonl": Format("json_exports.read_langchain", "LangChain documents, one JSON object per line"),
    "claude-export": Format("claude_export.read", "the export of claude.ai: zip file, folder or conversations.json"),
}


@dataclass(frozen=True, slots=True)
class ImportReport:
    items: int
    relations: int
    left_out: Mapping[str, int]
    """By reason."""


def read(name: str, path: Path) -> Found:
    """Reads and checks a file completely."""
    if name not in FORMATS:
        raise InvalidQuery(f"unknown format {name!r}", f"The formats are {', '.join(FORMATS)}")
    module, _, function = FORMATS[name].reader.partition(".")
    return getattr(import_module(f"fourfold.integrations.importers.{module}"), function)(path)


def import_from(memory: Memory, name: str, path: Path, *, dry_run: bool = False) -> ImportReport:
    """Stores what a file of another tool holds; a repeated import changes nothing. With `dry_run` nothing is stored.

    Everything is read and checked before anything is stored.
    """
    content = read(name, path)
    if not dry_run:
        store(memory, content)
    return report_of(content)


def store(memory: Memory, found: Found) -> None:
    """All items in one transaction, then all relations in one."""
    memory.add_many(found.items)
    if found.edges:
        memory.add_edges([(edge.source, edge.relation, edge.target, edge.weight) for edge in found.edges])


def report_of(found: Found) -> ImportReport:
    left_out = {reason: count for reason, count in found.left_out.items() if count}
    return ImportReport(len(found.items), len(set(found.edges)), left_out)

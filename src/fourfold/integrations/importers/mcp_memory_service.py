"""mcp-memory-service: the JSON that `memory export` writes (its MemoryExporter)."""

from __future__ import annotations

from pathlib import Path

from fourfold.errors import InvalidItem
from fourfold.integrations.importers.reading import (
    Found,
    JsonText,
    few_tags,
    kept,
    located,
    mapping,
    optional_text,
    read_text,
    text_of,
    texts_of,
    time_of,
)
from fourfold.model import NewItem

_NO_TAG = "untagged"
"""The tag that the service gives to memories without one."""


def read(file: Path) -> Found:
    found = Found()
    text = JsonText(file.name, read_text(file))
    for line, value in text.elements("memories"):
        with located(file.name, line):
            row = mapping(value)
            content = text_of(row, "content")
            if row.get("embedding") is not None:
                found.left_out["vectors, which are computed again"] += 1
            if not content.strip():
                found.left_out["memories without a text"] += 1
                continue
            tags = [tag for tag in texts_of(row, "tags") if tag != _NO_TAG]
            found.add(
                NewItem(
                    content,
                    key=f"mcp-memory-service:{text_of(row, 'content_hash')}",
                    tags=few_tags(tags, found.left_out),
                    kind=optional_text(row, "memory_type") or "memory",
                    metadata={
                        **mapping(row.get("metadata") or {}),
                        **kept(row, "store", "export_source", "updated_at"),
                    },
                    created_at=time_of(row, "created_at"),
                )
            )
    _require_complete(file.name, text, len(found.items) + found.left_out["memories without a text"])
    return found


def _require_complete(name: str, text: JsonText, count: int) -> None:
    """The export says how many memories it has."""
    line, whole = text.whole()
    if not isinstance(whole, dict):
        return
    with located(name, line):
        said = mapping(mapping(whole).get("export_metadata") or {}).get("total_memories")
    if isinstance(said, int) and said != count:
        raise InvalidItem(f"{name}:{line}: {count} memories where {said} were exported", "Export them again")

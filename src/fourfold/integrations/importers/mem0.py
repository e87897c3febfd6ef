"""mem0: the JSON of `Memory.get_all()` (or of an export of its platform), with the relations of its graph."""

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
    read_text,
    text_of,
    texts_of,
    time_of,
)
from fourfold.model import NewItem

_SCOPES = ("user_id", "agent_id", "run_id", "app_id", "actor_id", "role")


def read(file: Path) -> Found:
    found = Found()
    text = JsonText(file.name, read_text(file))
    for line, value in text.elements("results", "memories"):
        with located(file.name, line):
            row = mapping(value)
            content = text_of(row, "memory", "data")
            if not content.strip():
                found.left_out["memories without a text"] += 1
                continue
            found.add(
                NewItem(
                    content,
                    key=f"mem0:{text_of(row, 'id')}",
                    tags=few_tags(texts_of(row, "categories"), found.left_out),
                    kind="memory",
                    metadata={**mapping(row.get("metadata") or {}), **kept(row, *_SCOPES, "updated_at")},
                    created_at=time_of(row, "created_at"),
                )
            )
    _relations(file.name, text, found)
    return found


def _relations(name: str, text: JsonText, found: Found) -> None:
    whole = text.whole().value
    if not isinstance(whole, dict) or not mapping(whole).get("relations"):
        return
    for line, value in text.elements("relations"):
        with located(name, line):
            row = mapping(value)
            ends = text_of(row, "source"), text_of(row, "target", "destination")
            try:
                found.relate(ends[0], text_of(row, "relationship", "relation"), ends[1])
            except InvalidItem as error:
                found.left_out[f"relations: {error.message}"] += 1

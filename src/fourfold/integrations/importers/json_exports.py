"""Exports of other tools that are JSON: mem0, mcp-memory-service and LangChain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

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

_SCOPES = ("user_id", "agent_id", "run_id", "app_id", "actor_id", "role")


def read_mem0(file: Path) -> Found:
    result = Found()
    text = JsonText(file.name, read_text(file))
    for line, value in text.elements("results", "memories"):
        with located(file.name, line):
            row = mapping(value)
            content = text_of(row, "memory", "data")
            if not content.strip():
                result.left_out["memories without a text"] += 1
                continue
            result.add(
                NewItem(
                    content,
                    key=f"mem0:{text_of(row, 'id')}",
                    tags=few_tags(texts_of(row, "categories"), result.left_out),
                    kind="memory",
                    metadata={**mapping(row.get("metadata") or {}), **kept(row, *_SCOPES, "updated_at")},
                    created_at=time_of(row, "created_at"),
                )
            )
    _relations(file.name, text, result)
    return result


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


# ---------------------------------------------------------------- mcp-memory-service


_NO_TAG = "untagged"
"""The tag that the service gives to memories without one."""


def read_mcp_memory_service(file: Path) -> Found:
    result = Found()
    text = JsonText(file.name, read_text(file))
    for line, value in text.elements("memories"):
        with located(file.name, line):
            row = mapping(value)
            content = text_of(row, "content")
            if row.get("embedding") is not None:
                result.left_out["vectors, which are computed again"] += 1
            if not content.strip():
                result.left_out["memories without a text"] += 1
                continue
            tags = [tag for tag in texts_of(row, "tags") if tag != _NO_TAG]
            result.add(
                NewItem(
                    content,
                    key=f"mcp-memory-service:{text_of(row, 'content_hash')}",
                    tags=few_tags(tags, result.left_out),
                    kind=optional_text(row, "memory_type") or "memory",
                    metadata={
                        **mapping(row.get("metadata") or {}),
                        **kept(row, "store", "export_source", "updated_at"),
                    },
                    created_at=time_of(row, "created_at"),
                )
            )
    _require_complete(file.name, text, len(result.items) + result.left_out["memories without a text"])
    return result


def _require_complete(name: str, text: JsonText, count: int) -> None:
    """The export says how many memories it has."""
    line, whole = text.whole()
    if not isinstance(whole, dict):
        return
    with located(name, line):
        said = mapping(mapping(whole).get("export_metadata") or {}).get("total_memories")
    if isinstance(said, int) and said != count:
        raise InvalidItem(f"{name}:{line}: {count} memories where {said} were exported", "Export them again")


# ---------------------------------------------------------------- langchain


def read_langchain(file: Path) -> Found:
    result = Found()
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if not line.strip():
            continue
        value = JsonText(file.name, line, number).whole().value
        with located(file.name, number):
            row = _document(mapping(value))
            metadata = mapping(row.get("metadata") or {})
            text, title, tags = text_of(row, "page_content"), metadata.get("title"), metadata.get("tags")
            if not text.strip():
                result.left_out["documents without a text"] += 1
                continue
            listed = cast("list[Any]", tags) if isinstance(tags, list) else []
            names = [tag for tag in listed if isinstance(tag, str)]
            result.add(
                NewItem(
                    text,
                    title=title if isinstance(title, str) else "",
                    key=optional_text(row, "id"),
                    tags=few_tags(names, result.left_out),
                    kind="document",
                    metadata=metadata,
                )
            )
    return result


def _document(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the document, also in LangChain's form for serialised objects."""
    if row.get("lc") != 1:
        return row
    name: Any = row.get("id")
    if row.get("type") != "constructor" or not isinstance(name, list) or name[-1:] != ["Document"]:
        raise InvalidItem("a serialised object that is not a Document", "Import documents only")
    return mapping(row.get("kwargs"))

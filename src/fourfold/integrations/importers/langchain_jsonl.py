"""LangChain: documents, one per line, as written by `Document.model_dump_json()` or `langchain_core.load.dumps`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from fourfold.errors import InvalidItem
from fourfold.integrations.importers.reading import (
    Found,
    JsonText,
    few_tags,
    located,
    mapping,
    optional_text,
    read_text,
    text_of,
)
from fourfold.model import NewItem


def read(file: Path) -> Found:
    found = Found()
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if not line.strip():
            continue
        value = JsonText(file.name, line, number).whole().value
        with located(file.name, number):
            row = _document(mapping(value))
            metadata = mapping(row.get("metadata") or {})
            text, title, tags = text_of(row, "page_content"), metadata.get("title"), metadata.get("tags")
            if not text.strip():
                found.left_out["documents without a text"] += 1
                continue
            listed = cast("list[Any]", tags) if isinstance(tags, list) else []
            given = [tag for tag in listed if isinstance(tag, str)]
            found.add(
                NewItem(
                    text,
                    title=title if isinstance(title, str) else "",
                    key=optional_text(row, "id"),
                    tags=few_tags(given, found.left_out),
                    kind="document",
                    metadata=metadata,
                )
            )
    return found


def _document(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of the document, also in LangChain's form for serialised objects."""
    if row.get("lc") != 1:
        return row
    name: Any = row.get("id")
    if row.get("type") != "constructor" or not isinstance(name, list) or name[-1:] != ["Document"]:
        raise InvalidItem("a serialised object that is not a Document", "Import documents only")
    return mapping(row.get("kwargs"))

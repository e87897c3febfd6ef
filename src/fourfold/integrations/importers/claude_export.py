"""Claude: the data export of claude.ai, as the zip file, its folder, or its conversations.json.

Every message of a conversation is an item; its path is the conversation and its chunk index the place in it, so that
neighbouring messages can be read. Documents of projects and what Claude remembers are items too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from fourfold import bounded
from fourfold.errors import InvalidItem, NotFound
from fourfold.integrations.importers.reading import (
    Found,
    JsonText,
    Placed,
    decoded,
    kept,
    located,
    mapping,
    optional_text,
    read_bytes,
    rows_of,
    text_of,
    time_of,
)
from fourfold.limits import IMPORT_BYTES
from fourfold.model import NewItem


def read(place: Path) -> Found:
    files = _files(place)
    if "conversations.json" not in files:
        raise NotFound(f"{place} has no conversations.json", "Give the export of claude.ai: the zip file or its folder")
    result = Found()
    for name, content in files.items():
        text = JsonText(name, decoded(content, name))
        for element in text.elements():
            with located(name, element.line):
                _READERS[name](element, result)
    return result


def _files(place: Path) -> dict[str, bytes]:
    """The files that are read, by name."""
    if place.is_dir():
        return {name: read_bytes(place / name) for name in _READERS if (place / name).is_file()}
    if not place.is_file():
        raise NotFound(f"no file {place}", "Check the path")
    if place.suffix != ".zip":
        return {"conversations.json": read_bytes(place)}
    try:
        with place.open("rb") as file:
            archive = bounded.Archive(file, place.stat().st_size, IMPORT_BYTES)
            return {Path(name).name: archive.read(name) for name in archive.names() if Path(name).name in _READERS}
    except (bounded.Unbounded, OSError) as error:
        raise InvalidItem(f"{place.name} is not a readable zip file ({error})", "Download the export again") from error


def _conversation(element: Placed, found: Found) -> None:
    row = mapping(element.value)
    name, identity = optional_text(row, "name") or "", text_of(row, "uuid")
    place = 0
    for message in rows_of(row, "chat_messages"):
        place = _message(message, name, identity, place, found)


def _message(row: Mapping[str, Any], name: str, conversation: str, place: int, found: Found) -> int:
    """Adds the items of a message; returns the place of the next item."""
    common = {"conversation": conversation, **kept(row, "sender", "updated_at"), "message": text_of(row, "uuid")}
    texts = [("message", _text(row, found))]
    for attachment in rows_of(row, "attachments"):
        texts.append(("attachment", optional_text(attachment, "extracted_content") or ""))
    found.left_out["files, which the export does not contain"] += len(rows_of(row, "files"))
    for kind, text in texts:
        if not text.strip():
            found.left_out[f"{kind}s without a text"] += 1
            continue
        found.add(
            NewItem(
                text,
                title=name,
                kind=kind,
                metadata=common,
                created_at=time_of(row, "created_at"),
                path=f"claude/{conversation}",
                chunk_index=place,
            )
        )
        place += 1
    return place


def _text(row: Mapping[str, Any], found: Found) -> str:
    """The text blocks of a message; tool calls and thinking are left out."""
    blocks = rows_of(row, "content")
    texts = [text_of(block, "text") for block in blocks if block.get("type") == "text"]
    if beside := len(blocks) - len(texts):
        found.left_out["blocks that are not text"] += beside
    return "\n\n".join(texts) if texts else optional_text(row, "text") or ""


def _project(element: Placed, found: Found) -> None:
    row = mapping(element.value)
    for document in rows_of(row, "docs"):
        found.add(
            NewItem(
                text_of(document, "content"),
                title=text_of(document, "filename"),
                key=f"claude:{text_of(document, 'uuid')}",
                kind="document",
                metadata=kept(row, "name", "uuid"),
                created_at=time_of(document, "created_at") or time_of(row, "created_at"),
            )
        )


def _memories(element: Placed, found: Found) -> None:
    row = mapping(element.value)
    texts = {"conversations": optional_text(row, "conversations_memory"), **mapping(row.get("project_memories") or {})}
    for scope, text in texts.items():
        if isinstance(text, str) and text.strip():
            found.add(NewItem(text, key=f"claude:memory:{scope}", kind="memory", metadata={"scope": scope}))


_READERS: Final[Mapping[str, Callable[[Placed, Found], None]]] = {
    "conversations.json": _conversation,
    "projects.json": _project,
    "memories.json": _memories,
}

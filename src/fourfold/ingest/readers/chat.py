"""Chats: JSON lines with `role` and `content`, or with a list `messages` of these. Other JSON lines are text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, cast

from fourfold.ingest.document import Document, Line, Section
from fourfold.ingest.readers import plain

_CHECKED_LINES: Final = 20
"""Number of lines in which a chat must have a message."""


def read(text: str, name: str) -> Document:
    lines = text.split("\n")
    if not any(message for line in lines[:_CHECKED_LINES] for message in _messages(line)):
        return plain.read(text, name)
    sections = [
        Section((), [Line(number, part) for part in f"{role}: {content}".split("\n")])
        for number, line in enumerate(lines, start=1)
        for role, content in _messages(line)
    ]
    return Document("", sections, kind="chat")


def _messages(line: str) -> Iterator[tuple[str, str]]:
    """Yield (role, content) of each message in a line."""
    try:
        found = json.loads(line) if line.strip() else None
    except ValueError:
        return
    if isinstance(found, dict):
        row = cast("dict[str, Any]", found)
        messages = row.get("messages")
        for message in cast("list[object]", messages) if isinstance(messages, list) else [row]:
            if isinstance(message, dict):
                known = cast("dict[str, Any]", message)
                role, content = known.get("role"), _content(known.get("content"))
                if isinstance(role, str) and content.strip():
                    yield role[:100], content


def _content(content: object) -> str:
    """Text of a content that is a string, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts = (cast("dict[str, Any]", part).get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))

"""The events of Claude Code and Codex, and the answers that their schemas allow.

Both send one JSON object on stdin and read one from stdout. Fields that Fourfold does not use are ignored, so an event
of a newer version is still understood.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath, PureWindowsPath
from typing import IO, Any, Final, cast

EVENT_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of an event; a larger one is ignored."""
NAMES: Final = {
    "session-start": "SessionStart",
    "prompt": "UserPromptSubmit",
    "stop": "Stop",
    "pre-compact": "PreCompact",
}
"""Names of events here, and the names that agents use."""
_WITH_CONTEXT: Final = ("SessionStart", "UserPromptSubmit")
_TYPED: Final = ("", "user", "sdk")
"""Sources of a prompt that a person or a program of theirs wrote; agents also send prompts of their own."""


class UnreadableEvent(ValueError):
    """The event cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    """The name of the event, a key of NAMES."""
    session: str = ""
    folder: str = ""
    source: str = ""
    prompt: str = ""

    @property
    def project(self) -> str:
        """The name of the folder in which the agent works; its path may be one of Windows."""
        form = PureWindowsPath if "\\" in self.folder else PurePosixPath
        return " ".join(form(self.folder).name.split())

    @property
    def is_typed(self) -> bool:
        return self.source in _TYPED


def read_event(name: str, stream: IO[bytes]) -> Event:
    """Reads the event that stdin has; UnreadableEvent if it is not one."""
    if name not in NAMES:
        raise UnreadableEvent(f"unknown event {name!r}; use {', '.join(NAMES)}")
    content = stream.read(EVENT_BYTES + 1)
    if len(content) > EVENT_BYTES:
        raise UnreadableEvent(f"the event has more than {EVENT_BYTES} bytes")
    try:
        given = json.loads(content.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        raise UnreadableEvent("stdin has no JSON object") from None
    if not isinstance(given, dict):
        raise UnreadableEvent("stdin has no JSON object")
    values = cast("dict[str, Any]", given)
    if values.get("hook_event_name", NAMES[name]) != NAMES[name]:
        raise UnreadableEvent(f"the event is {values['hook_event_name']!r}; use this command for {NAMES[name]}")
    fields = {own: _text(values.get(theirs)) for own, theirs in _FIELDS.items()}
    return Event(name, **fields)


_FIELDS: Final = {"session": "session_id", "folder": "cwd", "source": "source", "prompt": "prompt"}


def _text(value: object) -> str:
    """The text without lone surrogates, which no store accepts, and with line feeds only."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


@dataclass(slots=True)
class Answer:
    """The answer for the agent. It grows while the hook works, and is sent as it is at the deadline."""

    event: str
    context: str = ""
    """For the model."""
    messages: list[str] = field(default_factory=list[str])
    """For the user."""

    def json(self) -> str:
        name, form = NAMES.get(self.event, ""), dict[str, object]()
        if self.context and name in _WITH_CONTEXT:
            form["hookSpecificOutput"] = {"hookEventName": name, "additionalContext": self.context}
        if self.messages:
            form["systemMessage"] = "Fourfold: " + "; ".join(self.messages)
        return json.dumps(form, ensure_ascii=True)

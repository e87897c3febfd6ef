"""A client that sends hook events as Claude Code and Codex do, and checks answers as they do.

The shapes follow the published ones: the types of the package @anthropic-ai/claude-agent-sdk (0.3.325), and the schemas
in codex-rs/hooks/schema/generated of openai/codex. Codex rejects unknown fields, so its rules are the stricter ones.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema

TEXT = {"type": ["string", "null"]}
COMMON = {
    "continue": {"type": "boolean"},
    "suppressOutput": {"type": "boolean"},
    "stopReason": TEXT,
    "systemMessage": TEXT,
}
DECISION = {"decision": {"enum": ["block", None]}, "reason": TEXT}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": [*required]}


def _context(name: str) -> dict[str, Any]:
    own = _closed({"hookEventName": {"const": name}, "additionalContext": {"type": "string"}}, "hookEventName")
    return {"hookSpecificOutput": own}


ANSWERS = {
    "session-start": _closed(COMMON | _context("SessionStart")),
    "prompt": _closed(COMMON | DECISION | _context("UserPromptSubmit")),
    "stop": _closed(COMMON | DECISION),
    "pre-compact": _closed(COMMON),
}
EVENTS: dict[str, dict[str, dict[str, Any]]] = {
    "claude-code": {
        "session-start": {"hook_event_name": "SessionStart", "source": "startup", "model": "m"},
        "prompt": {"hook_event_name": "UserPromptSubmit", "permission_mode": "default", "source": "user"},
        "stop": {"hook_event_name": "Stop", "permission_mode": "default", "stop_hook_active": False,
                 "last_assistant_message": "done", "background_tasks": [], "session_crons": []},
        "pre-compact": {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": None},
    },
    "codex": {
        "session-start": {"hook_event_name": "SessionStart", "source": "startup", "model": "m",
                          "permission_mode": "default"},
        "prompt": {"hook_event_name": "UserPromptSubmit", "model": "m", "permission_mode": "default", "turn_id": "t"},
        "stop": {"hook_event_name": "Stop", "model": "m", "permission_mode": "plan", "turn_id": "t",
                 "stop_hook_active": True, "last_assistant_message": None},
        "pre-compact": {"hook_event_name": "PreCompact", "model": "m", "trigger": "manual", "turn_id": "t"},
    },
}  # fmt: skip


@dataclass
class Agent:
    """One session of an agent in a folder."""

    home: Path
    kind: str = "claude-code"
    folder: str = "/home/ann/shop"
    environment: dict[str, str] = field(default_factory=dict[str, str])

    def send(self, event: str, **changes: Any) -> dict[str, Any]:
        transcript = None if self.kind == "codex" else "/none.jsonl"
        common = {"session_id": "s-1", "transcript_path": transcript, "cwd": self.folder}
        form = {**common, **EVENTS[self.kind][event], **changes}
        return self.send_bytes(event, json.dumps(form, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    def send_bytes(self, event: str, content: bytes, *options: str) -> dict[str, Any]:
        """Runs the hook, which must exit with 0 and write exactly one valid answer."""
        printed = self.run("hook", event, *options, content=content)
        answer = json.loads(printed)
        assert printed.isascii()
        assert printed.count("\n") == 1
        jsonschema.validate(answer, ANSWERS.get(event, _closed(COMMON)))
        return answer

    def run(self, *arguments: str, content: bytes = b"") -> str:
        """What a command prints, which must exit with 0."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("FOURFOLD_")}
        own |= {"FOURFOLD_STORE": str(self.home / "store"), "FOURFOLD_EMBEDDER": "none", "FOURFOLD_HOOK_SECONDS": "120"}
        own |= {"XDG_STATE_HOME": str(self.home / "state"), "XDG_CONFIG_HOME": str(self.home), **self.environment}
        command = [sys.executable, "-m", "fourfold", *arguments]
        done = subprocess.run(command, input=content, env=own, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8")


def context(answer: dict[str, Any]) -> str:
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


def message(answer: dict[str, Any]) -> str:
    return answer.get("systemMessage", "")

"""Sessions that other tools recorded, as turns: what the user and the assistant said, when, and in which project.

Claude Code and Codex append a line to a file for every event, so reading continues at a position in bytes. VS Code and
ChatGPT write whole conversations, so reading continues at a number of turns. Calls of tools and their output, thinking,
reminders of the system, subagents and binary data are left out and counted.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from fourfold import bounded
from fourfold.errors import InvalidItem, InvalidQuery, NotFound
from fourfold.limits import IMPORT_BYTES
from fourfold.model import Json

Row: TypeAlias = Mapping[str, Any]

USER: Final = "user"
ASSISTANT: Final = "assistant"
_LINE_BYTES: Final = 64 * 1024 * 1024
"""Longer lines, which hold output of tools, are left out."""
_TURN_CHARACTERS: Final = 100_000
"""What follows in a turn, such as a pasted log, is left out."""
_DAMAGED: Final = "Export it again with the tool that it comes from; repeat the import, which continues where it ended"


class Said(NamedTuple):
    """What one event of a transcript says."""

    speaker: str
    text: str
    at: datetime | None


class Turn(NamedTuple):
    """What one of the two said, and where reading would start again to read it."""

    speaker: str
    text: str
    at: datetime | None
    project: str
    title: str
    start: int
    """Bytes or turns before it."""
    mark: str
    """Hash of everything before it."""


class Position(NamedTuple):
    """How far a session was read."""

    start: int
    mark: str


@dataclass(frozen=True, slots=True)
class Session(ABC):
    """One recorded conversation."""

    tool: str
    id: str
    folder: str
    """Groups sessions in the paths of their items; empty if the tool has no folders."""
    size: int
    mtime_ns: int
    """With `size`: if both are as they were, so is the session."""
    cost: int
    """Bytes that have to be read, for a progress bar."""

    @property
    def path(self) -> str:
        """The path of its items."""
        return "/".join(part for part in (self.tool, self.folder, self.id) if part).strip()

    @abstractmethod
    def turns(self, position: Position | None, left_out: Counter[str]) -> Iterator[Turn]:
        """The turns from a position on; all of them if what comes before it is not what was read then."""


# ---------------------------------------------------------------- files to which events are appended


class Events(ABC):
    """What the events of one session mean. It knows the project and the title that the events have named so far."""

    def __init__(self) -> None:
        self.project = ""
        self.title = ""

    @abstractmethod
    def said(self, event: Row, left_out: Counter[str]) -> Said | None: ...


@dataclass(frozen=True, slots=True)
class AppendedSession(Session):
    file: Path
    events: Callable[[], Events]

    def turns(self, position: Position | None, left_out: Counter[str]) -> Iterator[Turn]:
        return self._turns(lambda file: _prefix(file, position), left_out)

    def last_turns(self, most_bytes: int) -> Iterator[Turn]:
        """The turns at the end of the file, of which at most this many bytes are read."""
        return self._turns(lambda file: (hashlib.blake2b(digest_size=16), _line_start(file, most_bytes)), Counter())

    def _turns(
        self, begin: Callable[[IO[bytes]], tuple[hashlib.blake2b, int]], left_out: Counter[str]
    ) -> Iterator[Turn]:
        events = self.events()
        try:
            with self.file.open("rb") as file:
                digest, start = begin(file)
                if start:
                    file.seek(0)
                    _say(events, file.readline(_LINE_BYTES), Counter())
                    file.seek(start)
                for line in _whole_lines(file, left_out):
                    if (said := _say(events, line, left_out)) is not None:
                        yield Turn(*said, events.project, events.title, start, digest.hexdigest())
                    digest.update(line)
                    start += len(line)
        except OSError as error:
            left_out[f"files that cannot be read ({error.strerror})"] += 1


def _prefix(file: IO[bytes], position: Position | None) -> tuple[hashlib.blake2b, int]:
    """The hash of what was read before, and where it ends; nothing if the file does not begin with that any more."""
    digest, left = hashlib.blake2b(digest_size=16), position.start if position else 0
    while left and (block := file.read(min(left, 1 << 20))):
        digest.update(block)
        left -= len(block)
    if position is not None and not left and digest.hexdigest() == position.mark:
        return digest, position.start
    file.seek(0)
    return hashlib.blake2b(digest_size=16), 0


def _line_start(file: IO[bytes], most_bytes: int) -> int:
    """Where the first whole line of the last bytes begins."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - most_bytes - 1, 0))
    if size > most_bytes:
        file.readline(most_bytes)
    return file.tell()


def _whole_lines(file: IO[bytes], left_out: Counter[str]) -> Iterator[bytes]:
    """Lines with their ends; a last one without an end is still being written. A part of a line that is too long
    comes as a line of its own, which is not JSON."""
    while line := file.readline(_LINE_BYTES):
        if line.endswith(b"\n"):
            yield line
        elif len(line) == _LINE_BYTES:
            left_out["lines that are too long"] += 1
            yield line


def _say(events: Events, line: bytes, left_out: Counter[str]) -> Said | None:
    if not line.strip():
        return None
    try:
        event: Any = json.loads(line)
        said = events.said(_row(event), left_out) if isinstance(event, dict) else None
    except (ValueError, RecursionError):
        left_out["lines that are not JSON"] += 1
        return None
    return _cleaned(said, left_out) if said is not None else None


# ---------------------------------------------------------------- conversations that are written as a whole


@dataclass(frozen=True, slots=True)
class WholeSession(Session):
    content: Callable[[Counter[str]], Conversation]

    def turns(self, position: Position | None, left_out: Counter[str]) -> Iterator[Turn]:
        conversation, digest = self.content(left_out), hashlib.blake2b(digest_size=16)
        turns: list[Turn] = []
        for said in conversation.said:
            if (cleaned := _cleaned(said, left_out)) is not None:
                place = conversation.project, conversation.title, len(turns)
                turns.append(Turn(*cleaned, *place, digest.hexdigest()))
                digest.update(json.dumps([cleaned.speaker, cleaned.text]).encode())
        first = position.start if position is not None else 0
        is_grown = position is not None and first < len(turns) and turns[first].mark == position.mark
        yield from turns[first:] if is_grown else turns


class Conversation(NamedTuple):
    said: list[Said]
    project: str
    title: str


# ---------------------------------------------------------------- what is not said by anyone

_REMINDERS: Final = re.compile("<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics|local-command-caveat)>")
"""The beginning of what an editor or the tool put between what the user wrote."""
_BINARY: Final = re.compile(r"(?:data:[\w./+-]{1,100};base64,)?(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{400,}={0,2}")
_TERMINAL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def _without_reminders(text: str) -> str:
    """Looks for an end that is missing once only, however often it is missing."""
    kept: list[str] = []
    end = 0
    unclosed: set[str] = set()
    for begun in _REMINDERS.finditer(text):
        if begun.start() < end or begun[1] in unclosed:
            continue
        closed = text.find(f"</{begun[1]}>", begun.end())
        if closed < 0:
            unclosed.add(begun[1])
        else:
            kept.append(text[end : begun.start()])
            end = closed + len(begun[1]) + len("</>")
    return "".join((*kept, text[end:]))


def _cleaned(said: Said, left_out: Counter[str]) -> Said | None:
    """What was said without noise; None if nothing is left."""
    text, binary = _BINARY.subn("[binary data]", _without_reminders(said.text))
    text = _TERMINAL.sub("", text).strip()
    if binary:
        left_out["binary data in texts"] += binary
    if len(text) > _TURN_CHARACTERS:
        left_out[f"ends of turns beyond {_TURN_CHARACTERS:,} characters"] += 1
        text = text[:_TURN_CHARACTERS].rstrip()
    return said._replace(text=text) if text else None


# ---------------------------------------------------------------- Claude Code

_CLAUDE_WRITTEN: Final = (
    "<command-", "<local-command-", "<bash-", "<task-notification", "<user-memory-input", "[Request interrupted by",
    "Caveat: The messages below were generated",
)  # fmt: skip
"""Beginnings of texts in the role of the user that the tool wrote."""
_CLAUDE_ANSWERS: Final = "User has answered your questions:"
"""The result of AskUserQuestion: the user's choice."""
_CLAUDE_CONTINUES: Final = " You can now continue with the user's answers in mind."
_CLAUDE_TITLES: Final[Mapping[str, str]] = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
"""Kinds of events that name the session, with the field that has the name."""


class ClaudeCodeEvents(Events):
    def __init__(self) -> None:
        super().__init__()
        self._questions: set[str] = set()
        """Calls of AskUserQuestion: another tool may return a text that only begins like their results."""

    def said(self, event: Row, left_out: Counter[str]) -> Said | None:
        kind = event.get("type")
        if (field := _CLAUDE_TITLES.get(str(kind))) is not None:
            self.title = _text(event.get(field)) or self.title
            return None
        self.project = _text(event.get("cwd")) or self.project
        if kind not in (USER, ASSISTANT):
            return None
        if event.get("isSidechain"):
            left_out["turns of subagents"] += 1
            return None
        if event.get("isMeta") or event.get("isCompactSummary") or event.get("isApiErrorMessage"):
            left_out["texts that the tool wrote"] += 1
            return None
        message = _row(event.get("message"))
        content = message.get("content")
        blocks: list[Row] = [{"type": "text", "text": content}] if isinstance(content, str) else _rows(content)
        texts = [text for block in blocks if (text := self._text_of(block, str(kind), left_out))]
        return Said(str(kind), "\n\n".join(texts), _time(event.get("timestamp"))) if texts else None

    def _text_of(self, block: Row, speaker: str, left_out: Counter[str]) -> str:
        match block.get("type"):
            case "text":
                text = _text(block.get("text"))
                if speaker == USER and text.lstrip().startswith(_CLAUDE_WRITTEN):
                    left_out["texts that the tool wrote"] += 1
                    arguments, closed, _ = text.partition("<command-args>")[2].partition("</command-args>")
                    return arguments.strip() if closed else ""
                return text
            case "tool_use" if block.get("name") == "ExitPlanMode":
                return _text(_row(block.get("input")).get("plan"))
            case "tool_use" if block.get("name") == "AskUserQuestion":
                self._questions.add(_text(block.get("id")))
                left_out["calls of tools and their output"] += 1
            case "tool_result" if _text(block.get("tool_use_id")) in self._questions and (
                answer := _flat(block.get("content"))
            ).startswith(_CLAUDE_ANSWERS):
                return answer.removesuffix(_CLAUDE_CONTINUES)
            case "tool_use" | "tool_result" | "server_tool_use" | "web_search_tool_result":
                left_out["calls of tools and their output"] += 1
            case "thinking" | "redacted_thinking":
                left_out["thinking"] += 1
            case _:
                left_out["images and other attachments"] += 1
        return ""


def _flat(content: Json) -> str:
    """The text of a result, which is a text or a list of blocks."""
    return (
        _text(content) if isinstance(content, str) else "\n".join(_text(block.get("text")) for block in _rows(content))
    )


_OF_SUBAGENTS: Final = frozenset({"subagents", "tool-results", "workflows"})


def claude_code_sessions(place: Path | None) -> Iterator[Session]:
    root = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"
    for file in _files(place, [root], "*.jsonl", "Claude Code"):
        if not file.name.startswith("agent-") and _OF_SUBAGENTS.isdisjoint(file.parts):
            yield _appended("claude-code", file, file.stem, ClaudeCodeEvents, file.parent.name)


# ---------------------------------------------------------------- Codex

_CODEX_WRITTEN: Final = ("# AGENTS.md instructions for", "<user_action>")
_CODEX_TAG: Final = re.compile(r"<([a-z]+[_ ][a-z_ ]+|skill)>.*</\1>", re.DOTALL)
"""A text that is one element was written by the tool: <environment_context>, <user_instructions>, <turn_aborted>."""
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class CodexEvents(Events):
    def __init__(self) -> None:
        super().__init__()
        self._is_of_subagent = False

    def said(self, event: Row, left_out: Counter[str]) -> Said | None:
        kind, payload = event.get("type"), _row(event.get("payload", event))
        if kind in ("session_meta", "turn_context"):
            self.project = _text(payload.get("cwd")) or self.project
            self._is_of_subagent |= kind == "session_meta" and "subagent" in _row(payload.get("source"))
        if kind == "response_item":
            kind = payload.get("type")
        if kind != "message" or payload.get("role") not in (USER, ASSISTANT):
            if kind in ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"):
                left_out["calls of tools and their output"] += 1
            return None
        if self._is_of_subagent:
            left_out["turns of subagents"] += 1
            return None
        texts = [text for part in _rows(payload.get("content")) if (text := _codex_text(part, left_out))]
        at = _time(event.get("timestamp"))
        return Said(str(payload["role"]), "\n\n".join(texts), at) if texts else None


def _codex_text(part: Row, left_out: Counter[str]) -> str:
    if part.get("type") not in ("input_text", "output_text", "text"):
        left_out["images and other attachments"] += 1
        return ""
    text = _text(part.get("text")).strip()
    if part.get("type") == "input_text" and (text.startswith(_CODEX_WRITTEN) or _CODEX_TAG.fullmatch(text)):
        left_out["texts that the tool wrote"] += 1
        return ""
    return text


def codex_sessions(place: Path | None) -> Iterator[Session]:
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    for file in _files(place, [home / "sessions", home / "archived_sessions"], "*.jsonl", "Codex"):
        name = _UUID.search(file.stem)
        yield _appended("codex", file, name[0] if name else file.stem, CodexEvents)


# ---------------------------------------------------------------- Copilot Chat in VS Code


def copilot_sessions(place: Path | None) -> Iterator[Session]:
    from platformdirs import user_config_path

    users = [user_config_path(roaming=True) / name / "User" for name in ("Code", "Code - Insiders")]
    roots = [user / "globalStorage" / "emptyWindowChatSessions" for user in users]
    roots += [folder for user in users for folder in user.glob("workspaceStorage/*/chatSessions")]
    for file in _files(place, roots, "*.json*", "VS Code"):
        is_older = file.suffix == ".json" and file.with_suffix(".jsonl").exists()
        if file.suffix in (".json", ".jsonl") and file.name != "workspace.json" and not is_older:
            status = file.stat()
            size, read = status.st_size, _copilot_reader(file)
            yield WholeSession("copilot", _text(file.stem), "", size, status.st_mtime_ns, size, read)


def _copilot_reader(file: Path) -> Callable[[Counter[str]], Conversation]:
    def read(left_out: Counter[str]) -> Conversation:
        try:
            data = bounded.read_file(file, IMPORT_BYTES)
            state = _replayed(data) if file.suffix == ".jsonl" else _row(json.loads(data))
        except (
            bounded.Unbounded,
            OSError,
            ValueError,
            RecursionError,
            KeyError,
            IndexError,
            TypeError,
            AttributeError,
        ):
            left_out["files that are damaged, too large, or of another kind"] += 1
            return Conversation([], "", "")
        said = [each for request in _rows(state.get("requests")) for each in _copilot_said(request, left_out)]
        return Conversation(said, _workspace(file.parent.parent), _text(state.get("customTitle")))

    return read


class _Change:
    """Kinds of lines in a log of VS Code."""

    INITIAL, SET, PUSH, DELETE = range(4)


def _replayed(data: bytes) -> Row:
    """The session that a log describes: its first line is a state, the others are changes of it."""
    state: Any = {}
    for line in data.splitlines():
        if not line.strip():
            continue
        change: Any = json.loads(line)
        if change["kind"] == _Change.INITIAL:
            state = change["v"]
            continue
        *path, last = change["k"]
        place: Any = state
        for step in path:
            place = place[step]
        match change["kind"]:
            case _Change.SET:
                place[last] = change.get("v")
            case _Change.PUSH:
                rows: list[Any] = place.get(last) or []
                rows[change.get("i", len(rows)) :] = change.get("v") or []
                place[last] = rows
            case _Change.DELETE:
                place[last] = None
            case _:
                raise ValueError("a change of an unknown kind")
    return _row(state)


def _copilot_said(request: Row, left_out: Counter[str]) -> Iterator[Said]:
    if request.get("isHidden") or request.get("shouldBeRemovedOnSend"):
        left_out["turns that were taken back"] += 1
        return
    message, at = request.get("message"), _time(request.get("timestamp"), 1000)
    yield Said(USER, _text(message) or _text(_row(message).get("text")), at)
    parts = _rows(request.get("response"))
    yield Said(ASSISTANT, "".join(_copilot_part(part, left_out) for part in parts), at)


def _copilot_part(part: Row, left_out: Counter[str]) -> str:
    match part.get("kind"):
        case None:
            return _text(part.get("value"))
        case "markdownContent" | "markdownVuln":
            return _text(_row(part.get("content")).get("value"))
        case "inlineReference":
            reference = _row(part.get("inlineReference"))
            return _text(part.get("name")) or _text(reference.get("path")).rpartition("/")[2]
        case "thinking":
            left_out["thinking"] += 1
        case _:
            left_out["calls of tools and their output"] += 1
    return ""


def _workspace(folder: Path) -> str:
    """The folder that was open, as VS Code notes it beside the sessions."""
    try:
        noted = _row(json.loads(bounded.read_file(folder / "workspace.json", 1 << 20)))
    except (bounded.Unbounded, OSError, ValueError, RecursionError):
        return ""
    address = urlsplit(_text(noted.get("folder") or noted.get("workspace")))
    return unquote(address.path)


# ---------------------------------------------------------------- the export of ChatGPT

_CHATGPT_FILE: Final = re.compile(r"conversations(?:-\d+)?\.json")
"""Large exports are split into conversations-000.json, conversations-001.json, ..."""


def chatgpt_sessions(place: Path | None) -> Iterator[Session]:
    if place is None:
        raise NotFound("ChatGPT keeps no files here", "Export your data on chatgpt.com, and give the zip file")
    for name, stream in _chatgpt_files(place):
        with stream:
            before = 0
            for conversation, end in _elements(stream, name):
                row = _row(conversation)
                identity = _text(row.get("conversation_id")) or _text(row.get("id"))
                if identity:
                    changed = _time(row.get("update_time"))
                    mtime_ns = int(changed.timestamp() * 1e9) if changed is not None else 0
                    size, read = len(_row(row.get("mapping"))), _chatgpt_reader(row)
                    yield WholeSession("chatgpt", identity, "", size, mtime_ns, end - before, read)
                before = end


def _chatgpt_files(place: Path) -> Iterator[tuple[str, IO[bytes]]]:
    try:
        if place.suffix == ".zip":
            with place.open("rb") as file:
                archive = bounded.Archive(file, place.stat().st_size, IMPORT_BYTES)
                names = sorted(name for name in archive.names() if _CHATGPT_FILE.fullmatch(Path(name).name))
                for name in names:
                    yield name, BytesIO(archive.read(name))
        else:
            files = sorted(place.glob("conversations*.json")) if place.is_dir() else [place]
            names = [file.name for file in files]
            for file in files:
                yield file.name, file.open("rb")
    except (bounded.Unbounded, OSError) as error:
        raise InvalidItem(f"{place} cannot be read ({error})", _DAMAGED) from error
    if not names:
        raise NotFound(f"{place} has no conversations.json", "Give the export: the zip file or its folder")


def _chatgpt_reader(row: Row) -> Callable[[Counter[str]], Conversation]:
    def read(left_out: Counter[str]) -> Conversation:
        said = [each for message in _branch(row) if (each := _chatgpt_said(message, left_out)) is not None]
        return Conversation(said, _text(row.get("gizmo_id")), _text(row.get("title")))

    return read


def _branch(row: Row) -> list[Row]:
    """The messages from the first to the current one; answers that were generated again are on other branches."""
    nodes, node, messages = _row(row.get("mapping")), row.get("current_node"), list[Row]()
    for _ in range(len(nodes)):
        if not isinstance(node, str) or node not in nodes:
            break
        messages.append(_row(_row(nodes[node]).get("message")))
        node = _row(nodes[node]).get("parent")
    return messages[::-1]


def _chatgpt_said(message: Row, left_out: Counter[str]) -> Said | None:
    role, content, more = _row(message.get("author")).get("role"), _row(message.get("content")), message.get("metadata")
    if role not in (USER, ASSISTANT, "tool") or _row(more).get("is_visually_hidden_from_conversation"):
        return None
    if role == "tool" or message.get("recipient", "all") != "all":
        left_out["calls of tools and their output"] += 1
        return None
    if content.get("content_type") not in ("text", "multimodal_text"):
        left_out["thinking"] += 1
        return None
    parts: Any = content.get("parts")
    listed = cast("list[Any]", parts) if isinstance(parts, list) else []
    left_out["images and other attachments"] += sum(not isinstance(part, str) for part in listed)
    text = "\n\n".join(text for part in listed if (text := _text(part)))
    return Said(str(role), text, _time(message.get("create_time")))


_BLOCK: Final = 1 << 20


def _elements(stream: IO[bytes], name: str) -> Iterator[tuple[Json, int]]:
    """The elements of a list with the bytes read so far; at most two elements and a block are in memory."""
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8-sig")("replace")
    text, place, wanted, is_end = "", 0, _BLOCK, False
    while text[place : place + 1] != "]":
        if not is_end and len(text) - place < wanted:
            block = stream.read(wanted)
            is_end = not block
            text, place = text[place:] + utf8.decode(block, is_end), 0
        try:
            value, end = decoder.raw_decode(text, place := _skipped(text, place))
        except (ValueError, RecursionError) as error:
            if text[place : place + 1] != "]" and (is_end or wanted > IMPORT_BYTES):
                raise InvalidItem(f"{name}: not a list of conversations ({error})", _DAMAGED) from error
            wanted *= 2
            continue
        yield value, stream.tell()
        place, wanted = _skipped(text, end), _BLOCK


def _skipped(text: str, place: int) -> int:
    """The place of the next element: behind white space, the commas between elements, and the bracket before them."""
    while place < len(text) and text[place] in " \t\r\n,[":
        place += 1
    return place


# ---------------------------------------------------------------- files and values


def _files(place: Path | None, roots: list[Path], pattern: str, tool: str) -> list[Path]:
    """The files of a place, or of the folders where the tool keeps them; links to folders are not followed."""
    if place is not None and place.is_file():
        return [place]
    folders = [place] if place is not None else roots
    existing = [folder for folder in folders if folder.is_dir()]
    if not existing:
        raise NotFound(f"{tool} has no sessions in {folders[0]}", "Name the file or folder that has them")
    return sorted(file for folder in existing for file in folder.rglob(pattern) if file.is_file())


def _appended(tool: str, file: Path, id: str, events: Callable[[], Events], folder: str = "") -> Session:
    status = file.stat()
    size = status.st_size
    return AppendedSession(tool, _text(id), _text(folder), size, status.st_mtime_ns, size, file, events)


def _row(value: Json) -> Row:
    return cast("Row", value) if isinstance(value, dict) else {}


def _rows(value: Json) -> list[Row]:
    return [_row(each) for each in cast("list[Json]", value)] if isinstance(value, list) else []


def _text(value: Json) -> str:
    return _UNSTORABLE.sub("\ufffd", value) if isinstance(value, str) else ""


def _time(value: Json, per_second: int = 1) -> datetime | None:
    """An ISO time, or a number since 1970; None if it is neither."""
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value / per_second, UTC)
        moment = datetime.fromisoformat(_text(value))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


# ---------------------------------------------------------------- the tools


class Tool(NamedTuple):
    sessions: Callable[[Path | None], Iterator[Session]]
    """Those of a file or folder; None: those that the tool keeps on this machine."""
    help: str


TOOLS: Final[Mapping[str, Tool]] = {
    "claude-code": Tool(claude_code_sessions, "sessions of Claude Code"),
    "codex": Tool(codex_sessions, "sessions of Codex"),
    "copilot": Tool(copilot_sessions, "chats with Copilot in VS Code"),
    "chatgpt": Tool(chatgpt_sessions, "the export of ChatGPT: zip file, folder or conversations.json"),
}


def sessions_of(tool: str, place: Path | None) -> Iterator[Session]:
    if tool not in TOOLS:
        raise InvalidQuery(f"{tool!r} records no sessions that can be read", f"Tools that do: {', '.join(TOOLS)}")
    if place is not None and not place.exists():
        raise NotFound(f"no file or folder {place}", "Check the path")
    return TOOLS[tool].sessions(place)

"""Importers: files of other tools become items and relations.

Every message of a conversation is an item; its path is the conversation and its chunk index the place in it, so that
neighbouring messages can be read. Documents of projects and what Claude remembers are items too.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from fourfold import bounded, limits
from fourfold import validation as rules
from fourfold.errors import DamagedStore, FourfoldError, InvalidItem, InvalidQuery, NotFound, RequestError
from fourfold.limits import IMPORT_BYTES
from fourfold.model import Edge, Json, NewItem
from fourfold.yaml_lines import WrongYaml
from fourfold.yaml_lines import value as yaml_value

if TYPE_CHECKING:
    from fourfold.memory import Memory

# ---------------------------------------------------------------- reading

_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_BETWEEN: Final = re.compile(r"[ \t\r\n,:]*")
"""What separates values."""
_DAMAGED: Final = "Write the file again with the tool that it comes from; nothing was imported"


@dataclass
class Content:
    """Everything that a file holds, checked, and what was left out, with the reason."""

    items: list[NewItem] = field(default_factory=list[NewItem])
    edges: list[Edge] = field(default_factory=list[Edge])
    left_out: Counter[str] = field(default_factory=Counter[str])

    def add(self, item: NewItem) -> None:
        self.items.append(rules.checked(replace(item, source="import")))

    def relate(self, source: str, relation: str, target: str) -> None:
        self.edges.append(rules.checked_edge(source, relation, target, 1.0))


class Placed(NamedTuple):
    """A JSON value and the line on which it starts."""

    line: int
    value: Json


class JsonText:
    """The text of a JSON file, which is parsed piece by piece so that errors can name their line."""

    def __init__(self, name: str, text: str, first_line: int = 1) -> None:
        self.name = name
        self._text = text
        self._breaks = [place for place, letter in enumerate(text) if letter == "\n"]
        self._first_line = first_line

    def whole(self) -> Placed:
        start = self._skip(0, _BLANKS)
        value, end = self._value(start)
        if (end := self._skip(end, _BLANKS)) < len(self._text):
            raise self._wrong(end, "text after the end of the JSON value")
        return Placed(self._line(start), value)

    def elements(self, *names: str) -> Iterator[Placed]:
        """The elements of a list: the whole file, or the first of these keys of an object that is the whole file."""
        start = self._skip(0, _BLANKS)
        self._value(start)  # it is well-formed: what follows relies on it
        if names and self._text[start] == "{":
            start = next((place for key, place in self._members(start) if key in names), -1)
            if start < 0:
                raise self._wrong(self._skip(0, _BLANKS), f"the key {names[0]!r} is missing")
        self.whole()
        if self._text[start] != "[":
            raise self._wrong(start, "a list is expected here")
        place = self._skip(start + 1)
        while self._text[place] != "]":
            value, end = self._value(place)
            yield Placed(self._line(place), value)
            place = self._skip(end)

    def _members(self, start: int) -> Iterator[tuple[Json, int]]:
        """The keys of an object, and where their values start."""
        place = self._skip(start + 1)
        while self._text[place] != "}":
            key, end = self._value(place)
            yield key, (value := self._skip(end))
            place = self._skip(self._value(value)[1])

    def _value(self, place: int) -> tuple[Json, int]:
        try:
            return _DECODER.raw_decode(self._text, place)
        except json.JSONDecodeError as error:
            raise self._wrong(error.pos, f"not JSON ({error.msg})") from error
        except (ValueError, RecursionError) as error:
            raise self._wrong(place, f"not JSON ({error})") from error

    def _skip(self, place: int, skipped: re.Pattern[str] = _BETWEEN) -> int:
        match = skipped.match(self._text, place)
        return place if match is None else match.end()

    def _line(self, place: int) -> int:
        return bisect_right(self._breaks, place - 1) + self._first_line

    def _wrong(self, place: int, problem: str) -> InvalidItem:
        return InvalidItem(f"{self.name}:{self._line(place)}: {problem}", _DAMAGED)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)


@contextmanager
def located(name: str, line: int) -> Generator[None]:
    """Adds the place to errors."""
    try:
        yield
    except RequestError as error:
        raise type(error)(f"{name}:{line}: {error.message}", error.remedy or _DAMAGED) from error


def read_text(file: Path, name: str | None = None) -> str:
    return decoded(read_bytes(file), name or file.name)


def read_bytes(file: Path) -> bytes:
    try:
        return bounded.read_file(file, limits.IMPORT_BYTES)
    except bounded.Unbounded as error:
        raise InvalidItem(f"{file} cannot be imported: {error}", "Import its parts one by one") from error
    except OSError as error:
        raise InvalidItem(f"{file} cannot be read ({error.strerror})", "Check the path") from error


def decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidItem(f"{name}:{line}: not UTF-8 text", _DAMAGED) from error


# ---------------------------------------------------------------- fields of records


def mapping(value: Json) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidItem("an object is expected here", _DAMAGED)
    return cast("dict[str, Any]", value)


def text_of(row: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that is there; it has to be a text."""
    value = next((row[name] for name in names if row.get(name) is not None), None)
    if not isinstance(value, str):
        raise InvalidItem(f"{names[0]!r} is missing or not a text", _DAMAGED)
    return value


def optional_text(row: Mapping[str, Any], name: str) -> str | None:
    return None if row.get(name) is None else text_of(row, name)


def texts_of(row: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts; empty if it is missing."""
    values: Any = row.get(name) or []
    if not isinstance(values, list) or not all(isinstance(each, str) for each in cast("list[Any]", values)):
        raise InvalidItem(f"{name!r} is not a list of texts", _DAMAGED)
    return cast("list[str]", values)


def rows_of(row: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of objects; empty if it is missing."""
    values: Any = row.get(name) or []
    if not isinstance(values, list):
        raise InvalidItem(f"{name!r} is not a list", _DAMAGED)
    return [mapping(each) for each in cast("list[Any]", values)]


def time_of(row: Mapping[str, Any], name: str) -> datetime | None:
    """An ISO time, or seconds since 1970; None if it is missing."""
    value: Any = row.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        return rules.in_utc(datetime.fromisoformat(cast("str", value)))
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise InvalidItem(f"{name!r} is {value!r}, which is not a time", _DAMAGED) from error


def kept(row: Mapping[str, Any], *names: str) -> dict[str, Json]:
    """Those of these fields that have a value."""
    return {name: row[name] for name in names if row.get(name) not in (None, "", [], {})}


def few_tags(tags: list[str], left_out: Counter[str]) -> tuple[str, ...]:
    """Tags within the limit of an item; those beyond it are counted."""
    distinct = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if (beyond := len(distinct) - limits.TAGS) > 0:
        left_out["tags beyond the limit of an item"] += beyond
    return tuple(distinct[: limits.TAGS])


# ---------------------------------------------------------------- mem0

_SCOPES = ("user_id", "agent_id", "run_id", "app_id", "actor_id", "role")


def read_mem0(file: Path) -> Content:
    result = Content()
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
    _mem0_relations(file.name, text, result)
    return result


def _mem0_relations(name: str, text: JsonText, content: Content) -> None:
    whole = text.whole().value
    if not isinstance(whole, dict) or not mapping(whole).get("relations"):
        return
    for line, value in text.elements("relations"):
        with located(name, line):
            row = mapping(value)
            ends = text_of(row, "source"), text_of(row, "target", "destination")
            try:
                content.relate(ends[0], text_of(row, "relationship", "relation"), ends[1])
            except InvalidItem as error:
                content.left_out[f"relations: {error.message}"] += 1


# ---------------------------------------------------------------- mcp-memory-service

_NO_TAG = "untagged"
"""The tag that the service gives to memories without one."""


def read_mcp_memory_service(file: Path) -> Content:
    result = Content()
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


def read_langchain(file: Path) -> Content:
    result = Content()
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


# ---------------------------------------------------------------- the export of claude.ai


def read_claude_export(place: Path) -> Content:
    files = _files_of_export(place)
    if "conversations.json" not in files:
        raise NotFound(f"{place} has no conversations.json", "Give the export of claude.ai: the zip file or its folder")
    result = Content()
    for name, content in files.items():
        text = JsonText(name, decoded(content, name))
        for element in text.elements():
            with located(name, element.line):
                _EXPORTED[name](element, result)
    return result


def _files_of_export(place: Path) -> dict[str, bytes]:
    """The files that are read, by name."""
    if place.is_dir():
        return {name: read_bytes(place / name) for name in _EXPORTED if (place / name).is_file()}
    if not place.is_file():
        raise NotFound(f"no file {place}", "Check the path")
    if place.suffix != ".zip":
        return {"conversations.json": read_bytes(place)}
    try:
        with place.open("rb") as file:
            archive = bounded.Archive(file, place.stat().st_size, IMPORT_BYTES)
            return {Path(name).name: archive.read(name) for name in archive.names() if Path(name).name in _EXPORTED}
    except (bounded.Unbounded, OSError) as error:
        raise InvalidItem(f"{place.name} is not a readable zip file ({error})", "Download the export again") from error


def _conversation(element: Placed, content: Content) -> None:
    row = mapping(element.value)
    name, identity = optional_text(row, "name") or "", text_of(row, "uuid")
    place = 0
    for message in rows_of(row, "chat_messages"):
        place = _message(message, name, identity, place, content)


def _message(row: Mapping[str, Any], name: str, conversation: str, place: int, content: Content) -> int:
    """Adds the items of a message; returns the place of the next item."""
    common = {"conversation": conversation, **kept(row, "sender", "updated_at"), "message": text_of(row, "uuid")}
    texts = [("message", _message_text(row, content))]
    for attachment in rows_of(row, "attachments"):
        texts.append(("attachment", optional_text(attachment, "extracted_content") or ""))
    content.left_out["files, which the export does not contain"] += len(rows_of(row, "files"))
    for kind, text in texts:
        if not text.strip():
            content.left_out[f"{kind}s without a text"] += 1
            continue
        content.add(
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


def _message_text(row: Mapping[str, Any], content: Content) -> str:
    """The text blocks of a message; tool calls and thinking are left out."""
    blocks = rows_of(row, "content")
    texts = [text_of(block, "text") for block in blocks if block.get("type") == "text"]
    if beside := len(blocks) - len(texts):
        content.left_out["blocks that are not text"] += beside
    return "\n\n".join(texts) if texts else optional_text(row, "text") or ""


def _project(element: Placed, content: Content) -> None:
    row = mapping(element.value)
    for document in rows_of(row, "docs"):
        content.add(
            NewItem(
                text_of(document, "content"),
                title=text_of(document, "filename"),
                key=f"claude:{text_of(document, 'uuid')}",
                kind="document",
                metadata=kept(row, "name", "uuid"),
                created_at=time_of(document, "created_at") or time_of(row, "created_at"),
            )
        )


def _memories(element: Placed, content: Content) -> None:
    row = mapping(element.value)
    texts = {"conversations": optional_text(row, "conversations_memory"), **mapping(row.get("project_memories") or {})}
    for scope, text in texts.items():
        if isinstance(text, str) and text.strip():
            content.add(NewItem(text, key=f"claude:memory:{scope}", kind="memory", metadata={"scope": scope}))


_EXPORTED: Final[Mapping[str, Callable[[Placed, Content], None]]] = {
    "conversations.json": _conversation,
    "projects.json": _project,
    "memories.json": _memories,
}

# ---------------------------------------------------------------- basic-memory

_RELATION: Final = re.compile(r"\s*[-*]\s+(?P<relation>[^\[\]]*?)\s*\[\[(?P<target>[^\[\]]+)\]\]")
_PART_OF_NOTE: Final = re.compile(r"(?:#[^\s|][^|]*)?(?:\|.*)?$")
_LINK: Final = re.compile(r"\[\[([^\[\]]+)\]\]")
_OBSERVATION: Final = re.compile(r"\s*[-*]\s+\[(?P<category>[^\[\]()]*)\]\s+(?P<text>\S.*)")
_HASHTAG: Final = re.compile(r"(?:^|\s)#([^\s#]+)")
_FENCE: Final = "---"
_CODE_FENCES: Final = ("```", "~~~")
_LINKS_TO: Final = "links_to"


class _Note(NamedTuple):
    front: Mapping[str, Any]
    body: str
    first_line: int
    """Of the body, in the file."""


def read_basic_memory(place: Path) -> Content:
    if not place.exists():
        raise NotFound(f"no file or folder {place}", "Check the path")
    root = place if place.is_dir() else place.parent
    content = Content()
    for file in sorted(place.rglob("*.md")) if place.is_dir() else [place]:
        name = file.relative_to(root).as_posix()
        if any(part.startswith(".") for part in Path(name).parts):
            content.left_out["hidden files"] += 1
        elif not (text := read_text(file, name)).strip():
            content.left_out["empty notes"] += 1
        else:
            note = _split_note(name, text)
            with located(name, 1):
                title = str(note.front.get("title") or file.stem)
                tags = [*_note_tags(note.front.get("tags")), *_observed_tags(note.body)]
                own = {key: each for key, each in note.front.items() if key not in ("title", "type", "tags")}
                content.add(
                    NewItem(
                        note.body.strip() or title,
                        title=title,
                        key=f"basic-memory:{note.front.get('permalink') or name.removesuffix('.md')}",
                        tags=few_tags(tags, content.left_out),
                        kind=str(note.front.get("type") or "note"),
                        metadata={**{key: _plain(each) for key, each in own.items()}, "file": name},
                        created_at=_created(note.front, file),
                    )
                )
            for line, relation, target in _note_relations(note):
                with located(name, line):
                    content.relate(title, relation, target)
    return content


def _split_note(name: str, text: str) -> _Note:
    """Front matter and body."""
    lines = text.splitlines()
    if lines[0].strip() != _FENCE:
        return _Note({}, text, 1)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == _FENCE), None)
    if end is None:
        raise InvalidItem(f"{name}:1: the front matter has no end", "Close it with a line ---; nothing was imported")
    try:
        front = yaml_value("\n".join(lines[1:end]))
    except WrongYaml as error:
        raise InvalidItem(f"{name}:{error.line + 1}: front matter: {error.problem}", "Correct it") from error
    if front is not None and not isinstance(front, dict):
        raise InvalidItem(f"{name}:2: the front matter is not a mapping", "Write it as NAME: VALUE")
    return _Note(cast("dict[str, Any]", front or {}), "\n".join(lines[end + 1 :]), end + 2)


def _note_relations(note: _Note) -> Iterator[tuple[int, str, str]]:
    """(line, relation, target): `- implements [[Target]]`, and links inside texts."""
    is_code = False
    for number, line in enumerate(note.body.split("\n"), note.first_line):
        if line.lstrip().startswith(_CODE_FENCES):
            is_code = not is_code
        elif is_code:
            continue
        elif _OBSERVATION.match(line) is None and (explicit := _RELATION.match(line)) is not None:
            if target := _link_target(explicit["target"]):
                yield number, explicit["relation"].strip() or "relates_to", target
        else:
            yield from ((number, _LINKS_TO, target) for link in _LINK.findall(line) if (target := _link_target(link)))


def _link_target(link: str) -> str:
    """The note that a link names: `[[Note#Heading|shown text]]`. Empty for a heading of the same note."""
    return _PART_OF_NOTE.sub("", link, count=1).strip()


def _observed_tags(body: str) -> list[str]:
    observations = (match["text"] for line in body.split("\n") if (match := _OBSERVATION.match(line)) is not None)
    return [tag for text in observations for tag in _HASHTAG.findall(text)]


def _note_tags(tags: Any) -> list[str]:
    if isinstance(tags, str):
        return [tag.strip().removeprefix("#") for tag in tags.split(",")]
    return [str(tag).removeprefix("#") for tag in cast("list[Any]", tags)] if isinstance(tags, list) else []


def _created(front: Mapping[str, Any], file: Path) -> datetime:
    """The time in the front matter, or that of the file's last change."""
    for name in ("created", "created_at", "date"):
        value = front.get(name)
        if isinstance(value, datetime):
            return value
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, str):
            return time_of({name: value}, name) or datetime.now(UTC)
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def _plain(value: Any) -> Any:
    """YAML values as JSON: dates become texts."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


# ---------------------------------------------------------------- chroma

_PAGE_CHUNKS = 1000


def read_chroma(folder: Path) -> Content:
    """`folder`: the one with chroma.sqlite3, or this file."""
    from fourfold.integrations.chroma import calling, embedded

    place = folder.parent if folder.name == "chroma.sqlite3" else folder
    content = Content()
    try:
        calling(lambda: _read_collections(embedded(place), content))
    except FourfoldError:
        raise
    except Exception as error:  # chromadb and its native part raise errors of many kinds for a damaged file
        what = f"{place / 'chroma.sqlite3'} cannot be read ({type(error).__name__}: {error})"
        raise DamagedStore(what, "Restore it from a backup; nothing was imported") from error
    return content


def _read_collections(client: Any, content: Content) -> None:
    for collection in client.list_collections():
        _read_collection(client.get_collection(collection.name, embedding_function=None), content)


def _read_collection(collection: Any, content: Content) -> None:
    offset = 0
    while ids := (page := collection.get(limit=_PAGE_CHUNKS, offset=offset, include=["documents", "metadatas"]))["ids"]:
        for id, text, metadata in zip(ids, page["documents"], page["metadatas"], strict=True):
            _read_chunk(collection.name, id, text, metadata or {}, content)
        offset += len(ids)
    content.left_out["vectors, which are computed again"] += offset


def _read_chunk(name: str, id: str, text: str | None, metadata: Mapping[str, Any], content: Content) -> None:
    if not text or not text.strip():
        content.left_out["chunks without a text"] += 1
        return
    title, tags = metadata.get("title"), metadata.get("tags")
    listed = cast("list[Any]", tags) if isinstance(tags, list) else tags.split(",") if isinstance(tags, str) else []
    try:
        content.add(
            NewItem(
                text,
                title=title if isinstance(title, str) else "",
                key=f"chroma:{name}:{id}",
                tags=few_tags([tag for tag in listed if isinstance(tag, str)], content.left_out),
                kind="chunk",
                metadata={**metadata, "collection": name},
            )
        )
    except InvalidItem as error:
        raise InvalidItem(f"{name}, id {id!r}: {error.message}", error.remedy) from error


# ---------------------------------------------------------------- the formats


class Format(NamedTuple):
    reader: Callable[[Path], Content]
    help: str


FORMATS: Final[Mapping[str, Format]] = {
    "mem0": Format(read_mem0, "the JSON of mem0's `get_all()`"),
    "basic-memory": Format(read_basic_memory, "a folder of Markdown notes, or one note"),
    "mcp-memory-service": Format(read_mcp_memory_service, "the JSON of its `memory export`"),
    "chroma": Format(read_chroma, "the folder of a Chroma database"),
    "langchain-jsonl": Format(read_langchain, "LangChain documents, one JSON object per line"),
    "claude-export": Format(read_claude_export, "the export of claude.ai: zip file, folder or conversations.json"),
}


@dataclass(frozen=True, slots=True)
class ImportReport:
    items: int
    relations: int
    left_out: Mapping[str, int]
    """By reason."""


def read_foreign(name: str, path: Path) -> Content:
    """Reads and checks a file completely."""
    if name not in FORMATS:
        raise InvalidQuery(f"unknown format {name!r}", f"The formats are {', '.join(FORMATS)}")
    return FORMATS[name].reader(path)


def import_from(memory: Memory, name: str, path: Path, *, dry_run: bool = False) -> ImportReport:
    """Stores what a file of another tool holds; a repeated import changes nothing. With `dry_run` nothing is stored.

    Everything is read and checked before anything is stored.
    """
    content = read_foreign(name, path)
    if not dry_run:
        store(memory, content)
    return report_of(content)


def store(memory: Memory, content: Content) -> None:
    """All items in one transaction, then all relations in one."""
    memory.add_many(content.items)
    if content.edges:
        memory.add_edges([(edge.source, edge.relation, edge.target, edge.weight) for edge in content.edges])


def report_of(content: Content) -> ImportReport:
    left_out = {reason: count for reason, count in content.left_out.items() if count}
    return ImportReport(len(content.items), len(set(content.edges)), left_out)

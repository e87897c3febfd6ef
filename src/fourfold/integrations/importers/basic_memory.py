"""basic-memory: a folder of Markdown notes (or one note) with front matter, observations and relations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from fourfold.errors import InvalidItem, NotFound
from fourfold.integrations.importers.reading import Found, few_tags, located, read_text, time_of
from fourfold.model import NewItem
from fourfold.yaml_lines import WrongYaml, value

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


def read(place: Path) -> Found:
    if not place.exists():
        raise NotFound(f"no file or folder {place}", "Check the path")
    root = place if place.is_dir() else place.parent
    content = Found()
    for file in sorted(place.rglob("*.md")) if place.is_dir() else [place]:
        name = file.relative_to(root).as_posix()
        if any(part.startswith(".") for part in Path(name).parts):
            content.left_out["hidden files"] += 1
        elif not (text := read_text(file, name)).strip():
            content.left_out["empty notes"] += 1
        else:
            _read_note(name, text, file, content)
    return content


def _read_note(name: str, text: str, file: Path, found: Found) -> None:
    note = _split(name, text)
    with located(name, 1):
        title = str(note.front.get("title") or file.stem)
        tags = [*_tags(note.front.get("tags")), *_observed_tags(note.body)]
        own = {key: each for key, each in note.front.items() if key not in ("title", "type", "tags")}
        found.add(
            NewItem(
                note.body.strip() or title,
                title=title,
                key=f"basic-memory:{note.front.get('permalink') or name.removesuffix('.md')}",
                tags=few_tags(tags, found.left_out),
                kind=str(note.front.get("type") or "note"),
                metadata={**{key: _plain(each) for key, each in own.items()}, "file": name},
                created_at=_created(note.front, file),
            )
        )
    for line, relation, target in _relations(note):
        with located(name, line):
            found.relate(title, relation, target)


def _split(name: str, text: str) -> _Note:
    """Front matter and body."""
    lines = text.splitlines()
    if lines[0].strip() != _FENCE:
        return _Note({}, text, 1)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == _FENCE), None)
    if end is None:
        raise InvalidItem(f"{name}:1: the front matter has no end", "Close it with a line ---; nothing was imported")
    try:
        front = value("\n".join(lines[1:end]))
    except WrongYaml as error:
        raise InvalidItem(f"{name}:{error.line + 1}: front matter: {error.problem}", "Correct it") from error
    if front is not None and not isinstance(front, dict):
        raise InvalidItem(f"{name}:2: the front matter is not a mapping", "Write it as NAME: VALUE")
    return _Note(cast("dict[str, Any]", front or {}), "\n".join(lines[end + 1 :]), end + 2)


def _relations(note: _Note) -> Iterator[tuple[int, str, str]]:
    """(line, relation, target): `- implements [[Target]]`, and links inside texts."""
    is_code = False
    for number, line in enumerate(note.body.split("\n"), note.first_line):
        if line.lstrip().startswith(_CODE_FENCES):
            is_code = not is_code
        elif is_code:
            continue
        elif _OBSERVATION.match(line) is None and (explicit := _RELATION.match(line)) is not None:
            if target := _target(explicit["target"]):
                yield number, explicit["relation"].strip() or "relates_to", target
        else:
            yield from ((number, _LINKS_TO, target) for link in _LINK.findall(line) if (target := _target(link)))


def _target(link: str) -> str:
    """The note that a link names: `[[Note#Heading|shown text]]`. Empty for a heading of the same note."""
    return _PART_OF_NOTE.sub("", link, count=1).strip()


def _observed_tags(body: str) -> list[str]:
    observations = (match["text"] for line in body.split("\n") if (match := _OBSERVATION.match(line)) is not None)
    return [tag for text in observations for tag in _HASHTAG.findall(text)]


def _tags(given: Any) -> list[str]:
    if isinstance(given, str):
        return [tag.strip().removeprefix("#") for tag in given.split(",")]
    return [str(tag).removeprefix("#") for tag in cast("list[Any]", given)] if isinstance(given, list) else []


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


def _plain(given: Any) -> Any:
    """YAML values as JSON: dates become texts."""
    if isinstance(given, dict):
        return {str(key): _plain(each) for key, each in cast("dict[Any, Any]", given).items()}
    if isinstance(given, list):
        return [_plain(each) for each in cast("list[Any]", given)]
    return given if given is None or isinstance(given, str | int | float | bool) else str(given)

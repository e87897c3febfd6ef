"""Walk of a folder: its files and what is skipped. Follows no symbolic link, and reads no file but ignore rules."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fourfold.errors import InvalidQuery, NotFound, StoreUnavailable
from fourfold.ingest.formats import BINARY, format_of_suffix
from fourfold.ingest.ignore import Rules, Scope, TooManyRules, by_default
from fourfold.ingest.safe_open import Folder, read_rules
from fourfold.limits import FILE_BYTES, FOLDER_DEPTH, NAME_BYTES

IGNORED = "ignored by rules or by default"
EXCLUDED = "excluded"
LINK = "symbolic link"
SPECIAL = "not a regular file"
BINARY_NAME = "binary, by its name"
EMPTY = "empty"
LARGE = "too large"
LONG = "path too long"
DEEP = "in too many nested folders"
UNREADABLE = "cannot be read"
STORE = "a store of Fourfold"
RULES = "too many ignore rules"
TWICE = "same path as another file after normalisation"


_SHORT_PATH_CHARACTERS = NAME_BYTES // 4
"""Paths up to this length are short enough in any encoding."""
_DATABASE = "fourfold.db"
"""File that marks the folder of a store."""


class Entry(NamedTuple):
    path: str
    """Stored path: absolute, with slashes, in NFC."""
    place: str
    """Path from the root, in the spelling of the file system."""
    size: int
    mtime_ns: int


@dataclass(slots=True)
class Walk:
    root: str
    files: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Stored path to size and modification time."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """Stored path to the path from the root, if the file system spells it differently."""
    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(reason, path)"""
    unseen: list[str] = field(default_factory=list[str])
    """Folders that could not be read, with a final slash; their items in the store are kept."""

    def entry(self, path: str) -> Entry:
        size, mtime_ns = self.files[path]
        return Entry(path, self.places.get(path) or path[len(self.root) :], size, mtime_ns)

    def entries(self) -> list[Entry]:
        """All entries, sorted by path."""
        return [self.entry(path) for path in sorted(self.files)]


class Target(NamedTuple):
    """What to index: everything below a folder, or one file in it."""

    root: Path
    name: str = ""
    """Name of the file; empty for the whole folder."""

    @property
    def prefix(self) -> str:
        """Prefix of the stored paths of the files; for a single file its path."""
        return prefix_of(self.root) + stored_name(self.name)

    def holds(self, path: str) -> bool:
        return not self.name or path == self.prefix


def target_of(path: str | Path) -> Target:
    """Resolve a path given by the caller; links are followed here, since the caller named it."""
    named = Path(path).expanduser()
    if not named.exists():
        raise NotFound(f"no file or folder {named}", "Check the path")
    real = named.resolve()
    if real.is_dir():
        return Target(real)
    if not real.is_file():
        raise InvalidQuery(f"{named} is neither a folder nor a regular file", "Give a folder or a file")
    return Target(real.parent, real.name)


def prefix_of(root: Path) -> str:
    """Return the prefix of the stored paths of all files below a folder."""
    return stored_name(root.as_posix()).rstrip("/") + "/"


def walk(target: Target, exclude: Rules | None = None) -> Walk:
    """Find the files to index. A single file is indexed even if a rule ignores it, but not if it is excluded."""
    walked = Walk(prefix_of(target.root))
    try:
        with Folder.at(target.root) as folder:
            if target.name:
                _named(folder, target.name, walked, exclude)
            else:
                _visit(folder, walked, "", walked.root, Scope(exclude=exclude), 0)
    except OSError as error:
        raise StoreUnavailable(f"cannot read {target.root} ({error.strerror})", "Check its permissions") from error
    return walked


def _named(folder: Folder, name: str, found: Walk, exclude: Rules | None) -> None:
    path = found.root + stored_name(name)
    if exclude is not None and exclude.ignores(name):
        found.skipped.append((EXCLUDED, path))
        return
    for entry in folder.entries():
        if entry.name == name:
            _odd_file(entry, found, "", path)


def _visit(folder: Folder, found: Walk, place: str, path: str, scope: Scope, depth: int) -> None:
    """Visit a folder; `place` and `path` end with a slash."""
    entries = folder.entries()
    names = {entry.name for entry in entries}
    if _DATABASE in names:
        found.skipped.append((STORE, path))
        return
    try:
        if rules := read_rules(folder, names):
            scope = scope.within(rules, len(place))
    except TooManyRules:
        found.unseen.append(path)
        found.skipped.append((RULES, path))
        return
    for below in list(_files(entries, found, place, path, scope)):
        inside = f"{path}{stored_name(below)}/"
        if depth == FOLDER_DEPTH:
            found.skipped.append((DEEP, inside))
            continue
        try:
            with folder.folder(below) as deeper:
                _visit(deeper, found, f"{place}{below}/", inside, scope, depth + 1)
        except OSError:
            found.unseen.append(inside)
            found.skipped.append((UNREADABLE, inside))


def _files(entries: list[os.DirEntry[str]], found: Walk, place: str, path: str, scope: Scope) -> Iterator[str]:
    """Record the files of a folder; yield the names of its subfolders that are not ignored."""
    plain, odd, exclude = not scope.rules, path != found.root + place, scope.exclude
    for entry in entries:
        name = entry.name
        if exclude is not None and exclude.ignores(place + name + "/" * entry.is_dir(follow_symlinks=False)):
            found.skipped.append((EXCLUDED, path + stored_name(name)))
        elif entry.is_file(follow_symlinks=False):
            if by_default(name) if plain else scope.ignores(place + name, name):
                found.skipped.append((IGNORED, path + stored_name(name)))
            elif odd or not name.isascii():
                _odd_file(entry, found, place, path + stored_name(name))
            else:
                _file(entry, found, path + name)
        elif entry.is_symlink():
            found.skipped.append((LINK, path + stored_name(name)))
        elif not entry.is_dir(follow_symlinks=False):
            found.skipped.append((SPECIAL, path + stored_name(name)))
        elif scope.ignores(f"{place}{name}/", f"{name}/"):
            found.skipped.append((IGNORED, f"{path}{stored_name(name)}/"))
        else:
            yield name


def _odd_file(entry: os.DirEntry[str], found: Walk, place: str, path: str) -> None:
    """Record a file whose stored path differs from the file system's spelling."""
    if path in found.files:
        found.skipped.append((TWICE, path))
        return
    _file(entry, found, path)
    if path in found.files:
        found.places[path] = place + entry.name


def _file(entry: os.DirEntry[str], found: Walk, path: str) -> None:
    """Record a file. Runs for every file of every run, so it is optimised for speed."""
    name = entry.name
    dot = name.rfind(".")
    ending = name[dot + 1 :].lower() if dot > 0 else ""
    if ending in BINARY:
        found.skipped.append((BINARY_NAME, path))
        return
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        found.skipped.append((UNREADABLE, path))
        return
    size = status.st_size
    if (0 < size <= FILE_BYTES and len(path) <= _SHORT_PATH_CHARACTERS) or not (reason := _refusal(size, ending, path)):
        found.files[path] = (size, modified_ns(status))
    else:
        found.skipped.append((reason, path))


def _refusal(size: int, ending: str, path: str) -> str:
    if size == 0:
        return EMPTY
    if size > format_of_suffix(ending).most_bytes:
        return LARGE
    return LONG if len(path.encode()) > NAME_BYTES else ""


def stored_name(name: str) -> str:
    """Return the name in NFC, with bytes that are not UTF-8 as \\xNN."""
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        name = os.fsencode(name).decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", name)


def modified_ns(known: os.stat_result) -> int:
    """When a file was changed, within the numbers that stores hold: a file system may have times beyond them."""
    return max(-_LATEST_NS, min(known.st_mtime_ns, _LATEST_NS))


_LATEST_NS = 2**63 - 1

"""Opening of files below a folder, and nothing else, even if files are renamed or replaced by links meanwhile.

Except on Windows, every part of a path is opened from the descriptor of the folder above it, and never through a
symbolic link. A pipe or device cannot block the reader: it is opened without waiting, and closed because it is not a
regular file. On Windows, a file reached through a link or junction is detected after opening, before anything is read.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from fourfold.errors import InvalidQuery, NotFound, StoreUnavailable
from fourfold.ingest.formats import BINARY, format_of_suffix
from fourfold.ingest.ignore import RULE_BYTES, RULE_FILES, Rules, Scope, TooManyRules, by_default, rules_of
from fourfold.limits import FILE_BYTES, FOLDER_DEPTH, NAME_BYTES

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER_FLAGS = _FLAGS | getattr(os, "O_DIRECTORY", 0)
_FILE_FLAGS = _FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class NotRegular(OSError):
    """A pipe, a device, a folder, or a file reached through a link."""


class Folder:
    """An open folder. All errors are OSErrors."""

    def __init__(self, descriptor: int | None, path: Path) -> None:
        """`path` is used only if the system has no descriptors of folders."""
        self._descriptor = descriptor
        self._path = path

    @classmethod
    def at(cls, path: Path) -> Self:
        return cls(os.open(path, _FOLDER_FLAGS) if _BY_DESCRIPTOR else None, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def entries(self) -> list[os.DirEntry[str]]:
        with os.scandir(self._path if self._descriptor is None else self._descriptor) as entries:
            return list(entries)

    def folder(self, name: str) -> Folder:
        if self._descriptor is not None:
            return Folder(os.open(name, _FOLDER_FLAGS, dir_fd=self._descriptor), self._path)
        path = self._path / name
        if not _is_itself(path):
            raise NotRegular(f"{name} is a link")
        return Folder(None, path)

    @contextmanager
    def open(self, name: str) -> Generator[int]:
        """Open a regular file in this folder; return its descriptor."""
        where = name if self._descriptor is not None else self._path / name
        descriptor = os.open(where, _FILE_FLAGS, dir_fd=self._descriptor)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotRegular(f"{name} is not a regular file")
            if self._descriptor is None and not _is_itself(self._path / name):
                raise NotRegular(f"{name} is a link")
            yield descriptor
        finally:
            os.close(descriptor)


def _is_itself(path: Path) -> bool:
    """Whether no part of a path is a link, according to the system."""
    return os.path.normcase(os.path.realpath(path)) == os.path.normcase(path)


class RootFolder:
    """Opens files by their path from a root; the folder of the last file stays open for the next one."""

    def __init__(self, root: Path) -> None:
        self._root = Folder.at(root)
        self._place = ""
        self._folder: Folder | None = None

    def close(self) -> None:
        self._leave()
        self._root.close()

    def _leave(self) -> None:
        if self._folder is not None:
            self._folder.close()
        self._place, self._folder = "", None

    @contextmanager
    def open(self, place: str) -> Generator[int]:
        above, _, name = place.rpartition("/")
        with self._enter(above).open(name) as descriptor:
            yield descriptor

    def _enter(self, place: str) -> Folder:
        if not place:
            return self._root
        if self._folder is None or place != self._place:
            self._leave()
            self._folder, self._place = self._descend(place), place
        return self._folder

    def _descend(self, place: str) -> Folder:
        folder = self._root
        for part in place.split("/"):
            try:
                below = folder.folder(part)
            finally:
                if folder is not self._root:
                    folder.close()
            folder = below
        return folder


def read_up_to(descriptor: int, most: int) -> bytes:
    """Read at most `most` bytes."""
    parts: list[bytes] = []
    left = most
    while left > 0 and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def read_rules(folder: Folder, names: Collection[str]) -> list[Rules]:
    """Read the rules of a folder that contains these names, strongest first. Raises TooManyRules."""
    rules: list[Rules] = []
    for name in reversed(RULE_FILES):
        if name in names:
            with suppress(OSError), folder.open(name) as descriptor:
                data = read_up_to(descriptor, RULE_BYTES + 1)
                if len(data) > RULE_BYTES:
                    raise TooManyRules
                rules.append(rules_of(data.decode("utf-8-sig", "replace")))
    return rules


# ---------------------------------------------------------------- the walk

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
        return prefix_of(self.root) + _file_name(self.name)

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


def _named(folder: Folder, name: str, walked: Walk, exclude: Rules | None) -> None:
    path = walked.root + _file_name(name)
    if exclude is not None and exclude.ignores(name):
        walked.skipped.append((EXCLUDED, path))
        return
    for entry in folder.entries():
        if entry.name == name:
            _odd_file(entry, walked, "", path)


def _visit(folder: Folder, walked: Walk, place: str, path: str, scope: Scope, depth: int) -> None:
    """Visit a folder; `place` and `path` end with a slash."""
    entries = folder.entries()
    names = {entry.name for entry in entries}
    if _DATABASE in names:
        walked.skipped.append((STORE, path))
        return
    try:
        if rules := read_rules(folder, names):
            scope = scope.within(rules, len(place))
    except TooManyRules:
        walked.unseen.append(path)
        walked.skipped.append((RULES, path))
        return
    for below in list(_files(entries, walked, place, path, scope)):
        inside = f"{path}{stored_name(below)}/"
        if depth == FOLDER_DEPTH:
            walked.skipped.append((DEEP, inside))
            continue
        try:
            with folder.folder(below) as deeper:
                _visit(deeper, walked, f"{place}{below}/", inside, scope, depth + 1)
        except OSError:
            walked.unseen.append(inside)
            walked.skipped.append((UNREADABLE, inside))


def _files(entries: list[os.DirEntry[str]], walked: Walk, place: str, path: str, scope: Scope) -> Iterator[str]:
    """Record the files of a folder; yield the names of its subfolders that are not ignored."""
    plain, odd, exclude = not scope.rules, path != walked.root + place, scope.exclude
    for entry in entries:
        name = entry.name
        if exclude is not None and exclude.ignores(place + name + "/" * entry.is_dir(follow_symlinks=False)):
            walked.skipped.append((EXCLUDED, path + stored_name(name)))
        elif entry.is_file(follow_symlinks=False):
            if by_default(name) if plain else scope.ignores(place + name, name):
                walked.skipped.append((IGNORED, path + stored_name(name)))
            elif odd or not name.isascii() or name[-1].isspace():
                _odd_file(entry, walked, place, path + _file_name(name))
            else:
                _file(entry, walked, path + name)
        elif entry.is_symlink():
            walked.skipped.append((LINK, path + stored_name(name)))
        elif not entry.is_dir(follow_symlinks=False):
            walked.skipped.append((SPECIAL, path + stored_name(name)))
        elif scope.ignores(f"{place}{name}/", f"{name}/"):
            walked.skipped.append((IGNORED, f"{path}{stored_name(name)}/"))
        else:
            yield name


def _odd_file(entry: os.DirEntry[str], walked: Walk, place: str, path: str) -> None:
    """Record a file whose stored path differs from the file system's spelling."""
    if path in walked.files:
        walked.skipped.append((TWICE, path))
        return
    _file(entry, walked, path)
    if path in walked.files:
        walked.places[path] = place + entry.name


def _file(entry: os.DirEntry[str], walked: Walk, path: str) -> None:
    """Record a file. Runs for every file of every run, so it is optimised for speed."""
    name = entry.name
    dot = name.rfind(".")
    ending = name[dot + 1 :].lower() if dot > 0 else ""
    if ending in BINARY:
        walked.skipped.append((BINARY_NAME, path))
        return
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        walked.skipped.append((UNREADABLE, path))
        return
    size = status.st_size
    if (0 < size <= FILE_BYTES and len(path) <= _SHORT_PATH_CHARACTERS) or not (reason := _refusal(size, ending, path)):
        walked.files[path] = (size, modified_ns(status))
    else:
        walked.skipped.append((reason, path))


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


def _file_name(name: str) -> str:
    """The name that ends a stored path, without white space at its end, which no name in a store has."""
    name = stored_name(name)
    kept = name.rstrip()
    return kept + "".join(f"\\x{byte:02x}" for byte in name[len(kept) :].encode())


def modified_ns(status: os.stat_result) -> int:
    """When a file was changed, within the numbers that stores hold: a file system may have times beyond them."""
    return max(-_LATEST_NS, min(status.st_mtime_ns, _LATEST_NS))


_LATEST_NS = 2**63 - 1

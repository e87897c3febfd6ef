"""Opening of files below a folder, and nothing else, even if files are renamed or replaced by links meanwhile.

Except on Windows, every part of a path is opened from the descriptor of the folder above it, and never through a
symbolic link. A pipe or device cannot block the reader: it is opened without waiting, and closed because it is not a
regular file. On Windows, a file reached through a link or junction is detected after opening, before anything is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from fourfold.ingest.ignore import RULE_BYTES, RULE_FILES, Rules, TooManyRules, rules_of

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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

"""Files that are mapped into memory, and whether they were modified since they were verified."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fourfold.index.segment_files import Damaged
from fourfold.native.bindings import Stamps


class Mapped:
    """Files that stay mapped after they were verified, with their modification times.

    Mapped bytes change only by a write to the same file, which changes its modification time. If the path is gone or
    leads to another file, the mapped file can no longer be written to through it.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        """Must be created before the files are verified."""
        found = [(str(path), path.stat()) for path in paths]
        stamps = [(file.st_dev, file.st_ino, file.st_mtime_ns) for _, file in found]
        self._stamps = Stamps([path for path, _ in found], stamps)
        self._files = [(path, file.st_ino, file.st_mtime_ns) for path, file in found]
        self.times_before = [time for *_, time in self._files]
        """The result of `times` before the files were verified."""

    def times(self) -> list[int]:
        """The modification time of each file, in nanoseconds."""
        if self._stamps.hold():
            return self.times_before
        return [_modified(path, inode, time) for path, inode, time in self._files]

    def require_unmodified(self) -> None:
        """Raises Damaged if a file was written to. Only for files to which publications do not append."""
        if self.times() != self.times_before:
            raise Damaged("a file was overwritten after it was verified")


def _modified(path: str, inode: int, known: int) -> int:
    try:
        found = os.stat(path)  # noqa: PTH116  (a search may do this for every file: Path is three times slower)
    except OSError:
        return known
    return found.st_mtime_ns if found.st_ino == inode else known

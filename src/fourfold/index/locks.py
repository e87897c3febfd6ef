"""Locks between processes: the lease of a namespace, and folders that are being read.

The operating system releases both when their process dies, however it dies.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fourfold import owner_only
from fourfold.scheduling import Mark, Marks

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lease:
    """The right to publish the indexes of a namespace and to embed its items. One process holds it at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changing = threading.Lock()
        self._file: IO[bytes] | None = None
        self._holders = Marks()

    @property
    def handle(self) -> int | None:
        """The file descriptor through which a child process shares the lease; None if it is not held."""
        return None if self._file is None else self._file.fileno()

    @contextmanager
    def held(self) -> Generator[bool]:
        """Yields whether this process holds the lease; never waits. Threads of one process share it."""
        holder = Mark()
        try:
            yield self._take(holder)
        finally:
            self._release(holder)

    def _take(self, holder: Mark) -> bool:
        with self._changing:
            if self._file is None:
                self._file = _locked(self._path)
            if self._file is not None:
                self._holders.add(holder)
            return self._file is not None

    def _release(self, holder: Mark) -> None:
        with self._changing:
            self._holders.discard(holder)
            if not self._holders and self._file is not None:
                file, self._file = self._file, None
                file.close()


def _locked(path: Path) -> IO[bytes] | None:
    """The open file with the lock, or None. A file object: one that Ctrl-C cuts off is closed by its deallocation."""
    owner_only.make_folder(path.parent)
    file = owner_only.open_file(path, "ab", buffering=0)
    try:
        _lock(file.fileno())
    except OSError:
        file.close()
        return None
    return file


class ReadLock:
    """Keeps a folder from being removed until it is released. OSError if it is being removed.

    Windows needs no lock: it refuses to delete a mapped file.
    """

    def __init__(self, folder: Path) -> None:
        self._handle: int | None = None
        if sys.platform != "win32":
            self._handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    __del__ = release


@contextmanager
def unread(folder: Path) -> Generator[bool]:
    """Yields whether no process reads the folder; if so, none can begin to inside the block."""
    if sys.platform == "win32":
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            _lock(handle)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)

"""Locks between processes: who maintains a namespace, and which files somebody still reads.

The operating system takes both back when their process dies, however it dies.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from fourfold import owner_only

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Lease:
    """The right to work for everyone on a namespace: publish its indexes, embed what waits. One process at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changing = threading.Lock()
        self._handle: int | None = None
        self._holders = 0

    @property
    def handle(self) -> int | None:
        """What a process that shall have it too has to be given; None if it is not held."""
        return self._handle

    @contextmanager
    def held(self) -> Generator[bool]:
        """Whether this process has it; it never waits. Threads of one process have it together."""
        mine = self._take()
        try:
            yield mine
        finally:
            if mine:
                self._release()

    def _take(self) -> bool:
        with self._changing:
            if self._handle is None:
                self._handle = _locked(self._path)
            self._holders += self._handle is not None
            return self._handle is not None

    def _release(self) -> None:
        with self._changing:
            self._holders -= 1
            if not self._holders and self._handle is not None:
                os.close(self._handle)
                self._handle = None


def _locked(path: Path) -> int | None:
    """An open handle that has the lock, or None."""
    owner_only.make_folder(path.parent)
    handle = owner_only.open_descriptor(path, os.O_RDWR | os.O_CREAT)
    try:
        _lock(handle)
    except OSError:
        os.close(handle)
        return None
    return handle


class Hold:
    """Keeps a folder from being removed, until it is let go. OSError if it is being removed.

    On Windows nothing needs to be done: a mapped file cannot be deleted there.
    """

    def __init__(self, folder: Path) -> None:
        self._handle: int | None = None
        if sys.platform != "win32":
            self._handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    __del__ = let_go


@contextmanager
def unheld(folder: Path) -> Generator[bool]:
    """Whether nobody holds the folder; if so, nobody can while the block lasts."""
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

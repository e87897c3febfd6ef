"""Files and folders that only their owner can read or write, whatever the umask.

All files with stored content are created through this module, with mode 0600, and folders with 0700. Windows has no
such modes; there the access list of the folder applies. A name that a user chose becomes a file by `file_name` only.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_GROUP_AND_OTHERS = 0o077
_NAME_CHARACTERS = 120
_UNSAFE = re.compile(rb"[^a-z0-9_-]|^(?=(con|prn|aux|nul|com[0-9]|lpt[0-9])$).")
"""Characters that are escaped, and the first one of names that are devices on Windows."""


def file_name(name: str) -> str:
    """The name of a file or folder for any name, another one for each, on every system.

    Capitals are escaped, too: some systems do not tell them apart. A long name ends in a hash.
    """
    escaped = _UNSAFE.sub(lambda match: b"%%%02x" % match[0][0], name.encode()).decode()
    if len(escaped) <= _NAME_CHARACTERS:
        return escaped
    return f"{escaped[: _NAME_CHARACTERS // 2]}={sha256(name.encode()).hexdigest()}"


def shown_name(file: str) -> str:
    """The name that became this file; the beginning of a long one."""
    start, mark, _ = file.partition("=")
    return unquote(start, errors="ignore") + ("..." if mark else "")


def open_file(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open like the built-in `open`; a new file has mode 0600."""
    return open(path, mode, opener=open_descriptor, **options)


@contextmanager
def replacing(path: Path) -> Generator[IO[str]]:
    """A new content for a text file, which gets it in one step at the end of the block, or stays as it is."""
    aside = path.with_name(path.name + ".part")
    try:
        with open_file(aside, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


def create_file(path: Path) -> None:
    """Create an empty file with mode 0600; an existing file is left unchanged."""
    os.close(open_descriptor(path, os.O_RDWR | os.O_CREAT))


def open_descriptor(path: str | Path, flags: int) -> int:
    """Open like `os.open`; a new file has mode 0600."""
    return os.open(path, flags, _FILE_MODE)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700; existing folders are left unchanged."""
    try:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folder(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def tighten_all(folder: Path) -> None:
    """Tighten everything in a folder, then the folder itself."""
    for path in folder.rglob("*"):
        tighten(path)
    tighten(folder)


def is_loose(path: Path) -> bool:
    """Whether group or others have access to an existing file or folder."""
    return os.name != "nt" and path.exists() and bool(path.stat().st_mode & _GROUP_AND_OTHERS)


def tighten(path: Path) -> None:
    """Remove the access of group and others from a file or folder, if it exists and belongs to this user."""
    with suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        if mode & _GROUP_AND_OTHERS and not stat.S_ISLNK(mode):
            path.chmod(_FOLDER_MODE if stat.S_ISDIR(mode) else _FILE_MODE)

"""Files and folders that only their owner may read or write, whatever the umask says.

Everything that holds stored content is created through this module: a file is 0600 and a folder 0700 from the moment it
exists. A library that creates files by itself (tantivy) gets a folder from here, which others cannot enter, and its
files are tightened before they are published. Windows has no such modes; there the folder's access list decides.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_GROUP_AND_OTHERS = 0o077


def open_file(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Opens like the built-in `open`; a file that is created is 0600."""
    return open(path, mode, opener=open_descriptor, **options)


def create_file(path: Path) -> None:
    """Creates an empty file with mode 0600; one that exists is left as it is."""
    os.close(open_descriptor(path, os.O_RDWR | os.O_CREAT))


def open_descriptor(path: str | Path, flags: int) -> int:
    """Opens like `os.open`; a file that is created is 0600."""
    return os.open(path, flags, _FILE_MODE)


def make_folder(folder: Path) -> None:
    """Creates a folder and its missing parents, all 0700; folders that exist are left as they are."""
    try:
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folder(folder.parent)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)


def tighten_all(folder: Path) -> None:
    """Tightens everything in a folder, then the folder itself."""
    for path in folder.rglob("*"):
        tighten(path)
    tighten(folder)


def is_loose(path: Path) -> bool:
    """Whether group or others have any access to a file or folder that exists."""
    return os.name != "nt" and path.exists() and bool(path.stat().st_mode & _GROUP_AND_OTHERS)


def tighten(path: Path) -> None:
    """Takes the access of group and others from a file or folder, if it exists and belongs to this user."""
    with suppress(FileNotFoundError, PermissionError):
        mode = path.lstat().st_mode
        if mode & _GROUP_AND_OTHERS and not stat.S_ISLNK(mode):
            path.chmod(_FOLDER_MODE if stat.S_ISDIR(mode) else _FILE_MODE)

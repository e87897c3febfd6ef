"""Files and ZIP archives of unknown origin, read within limits that are known before anything is unpacked."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO, Final

from fourfold.limits import PACKED_FILE_BYTES, SMALL_FILE_BYTES

_PARTS: Final = 10_000
"""Maximum number of files in an archive."""
_RATIO: Final = 100
"""Maximum ratio of unpacked to packed bytes, above PACKED_FILE_BYTES: text reaches 20, an attack 1,000."""


class Unbounded(ValueError):
    """The file or archive is larger than it may be, damaged, or not what it should be."""


def open_regular(path: Path) -> IO[bytes]:
    """Opens a file to read it; OSError if it is something else, such as a pipe, for which a reader would wait."""
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  the caller closes it
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(f"{path} is not a regular file")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: Path, most_bytes: int) -> bytes:
    """The content of a regular file; OSError if it cannot be read."""
    if path.exists() and not path.is_file():
        raise Unbounded("not a regular file")
    return _read(path, most_bytes)


def read_text(path: Path, most_bytes: int = SMALL_FILE_BYTES, encoding: str = "utf-8") -> str:
    """The text of any file, also of a pipe; OSError or ValueError if it cannot be read."""
    return _read(path, most_bytes).decode(encoding).replace("\r\n", "\n")


def _read(path: Path, most_bytes: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Unbounded(f"more than {most_bytes:,} bytes")
    return data


class Archive:
    """A ZIP archive, of which at most `most_bytes` are unpacked."""

    def __init__(self, source: IO[bytes], packed_bytes: int, most_bytes: int) -> None:
        import zipfile  # takes milliseconds, and every command reads its settings by this module

        try:
            self._zip = zipfile.ZipFile(source)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise Unbounded("not a ZIP archive, as this format requires") from error
        if len(self._zip.namelist()) > _PARTS:
            raise Unbounded("an archive with too many files")
        self._left = min(most_bytes, max(PACKED_FILE_BYTES, _RATIO * packed_bytes))

    def names(self) -> list[str]:
        return self._zip.namelist()

    def read(self, name: str) -> bytes:
        """KeyError if the archive lacks the part."""
        import zipfile

        if self._zip.getinfo(name).file_size > self._left:
            raise Unbounded("an archive that unpacks to too many bytes")
        try:
            with self._zip.open(name) as part:
                data = part.read(self._left + 1)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as error:
            raise Unbounded("a damaged or encrypted archive") from error
        self._left -= len(data)
        if self._left < 0:
            raise Unbounded("an archive that unpacks to too many bytes")
        return data

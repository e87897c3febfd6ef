"""Index files: append-only columns and small blobs under one manifest that is swapped in at the end.

A crash leaves bytes behind the length that the manifest names; the next append cuts them off. Every file has a checksum
in the manifest and is verified before anything reads it, native code above all.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from fourfold import owner_only

T = TypeVar("T")

FORMAT = 4
_BLOCK = 1 << 20
_ATTEMPTS = 5
_PAUSE_SECONDS = 0.02


class Damaged(Exception):
    """An index that must be rebuilt. It never leaves the store: rows are the truth."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file's valid length and the checksum of that much of it."""

    size: int = 0
    crc: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    generation: int
    seq: int
    """The last change that the index holds."""
    rows: int
    space: str
    """What the content depends on besides the rows: analyser version, or model fingerprint."""
    store: str
    """The store and namespace that this index belongs to."""
    mark: str = ""
    """What the database was told before this took effect: one that was put back has not heard of it."""
    format: int = FORMAT
    covered: int = 0
    """Of vectors, the rows that FAISS knows."""
    parts: Mapping[str, Part] = field(default_factory=dict[str, Part])


def read_manifest(folder: Path) -> Manifest | None:
    """None where there is none; Damaged where it does not say what a manifest says."""
    try:
        data: Any = json.loads(_read_text(folder / "manifest.json"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Damaged(f"unreadable manifest: {error}") from error
    try:
        crc = data.pop("crc")
        if crc != _crc_of(data):
            raise Damaged("the manifest's checksum is wrong")
        parts = {name: Part(**part) for name, part in data.pop("parts").items()}
        known = {each.name for each in fields(Manifest)}  # another version's may say more
        return Manifest(**{name: value for name, value in data.items() if name in known}, parts=parts)
    except (AttributeError, KeyError, TypeError) as error:
        raise Damaged(f"not a manifest: {error}") from error


def _read_text(path: Path) -> str:
    """Windows refuses for a moment to open what is just being replaced."""
    for _ in range(_ATTEMPTS):
        try:
            return path.read_text("utf-8")
        except PermissionError:
            time.sleep(_PAUSE_SECONDS)
    return path.read_text("utf-8")


def fitting(folder: Path, store: str, space: str) -> Manifest | None:
    """The manifest, if it is one of this store and space and of this format."""
    manifest = read_manifest(folder)
    if manifest is None or (manifest.store, manifest.space, manifest.format) != (store, space, FORMAT):
        return None
    return manifest


def load(folder: Path, store: str, space: str, opening: Callable[[Path, Manifest], T]) -> T | None:
    """What is published here for this store and space, as `opening` reads it; None where nothing is.

    Damaged if it cannot be read, unless that is because a newer one took its place meanwhile.
    """
    while True:
        manifest = fitting(folder, store, space)
        if manifest is None:
            return None
        try:
            return opening(folder / f"g{manifest.generation}", manifest)
        except (Damaged, OSError, ValueError, RuntimeError) as error:  # what tantivy and FAISS raise is among them
            if read_manifest(folder) == manifest:
                raise Damaged(str(error)) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Publishes an index: all that it names must be on disk by now."""
    data = asdict(manifest)
    data["crc"] = _crc_of(data)
    replace_file(folder / "manifest.json", json.dumps(data).encode())


def with_part(manifest: Manifest, name: str, part: Part) -> Manifest:
    return replace(manifest, parts={**manifest.parts, name: part})


def _crc_of(data: Any) -> int:
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())


def replace_file(path: Path, content: bytes) -> Part:
    """Written aside, synced, then swapped in: a reader finds the old bytes or the new, never a part."""
    aside = path.with_name(path.name + ".new")
    with owner_only.open_file(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)
    return Part(len(content), zlib.crc32(content))


def sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no handle for this, and orders the rename itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Column:
    """One append-only file, written behind what `part` says is valid."""

    def __init__(self, path: Path, part: Part) -> None:
        self.name = path.name
        self.part = part
        self._file = owner_only.open_file(path, "r+b" if path.exists() else "w+b")
        if self._file.seek(0, os.SEEK_END) > part.size:  # left by a publication that was interrupted
            self._file.truncate(part.size)
        self._file.seek(part.size)

    def append(self, values: Any) -> None:
        content = values.tobytes()
        self._file.write(content)
        self.part = Part(self.part.size + len(content), zlib.crc32(content, self.part.crc))

    def sync(self) -> None:
        """All that was added is on disk when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Mapped:
    """Files that stay mapped after they were verified, and when each was last modified.

    Bytes under a map change only by a write to that very file, which moves its time of modification. A path that leads
    to another file, or to none, says nothing about the mapped one, which can no longer be reached by it.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        """To be made before the files are verified."""
        found = [(str(path), path.stat()) for path in paths]
        self._files = [(path, file.st_ino, file.st_mtime_ns) for path, file in found]
        self.times_before = [time for *_, time in self._files]
        """What `times` was before the files were verified."""

    def times(self) -> list[int]:
        """When each file was last modified, in nanoseconds."""
        return [_modified(path, inode, time) for path, inode, time in self._files]

    def require_unmodified(self) -> None:
        """Raises Damaged if a file was written to; for files that nothing of ours appends to."""
        if self.times() != self.times_before:
            raise Damaged("a file was overwritten after it was verified")


def _modified(path: str, inode: int, known: int) -> int:
    try:
        found = os.stat(path)  # noqa: PTH116  (a search does this for every file: Path is three times slower)
    except OSError:
        return known
    return found.st_mtime_ns if found.st_ino == inode else known


def require(manifest: Manifest, *names: str) -> None:
    missing = [name for name in names if name not in manifest.parts]
    if missing:
        raise Damaged(f"the manifest does not name {missing[0]}")


def verify(path: Path, part: Part, *, whole: bool = False) -> None:
    """Raises Damaged unless the file holds what its part says; `whole`: and nothing behind it."""
    if checksum(path, part.size + whole) != part:
        raise Damaged(f"{path.name} is not what was written")


def read(path: Path, part: Part, *, whole: bool = False) -> bytes:
    """The content that its part describes: what is returned is what was verified. Damaged otherwise, like `verify`."""
    try:
        with path.open("rb") as file:
            content = file.read(part.size + whole)
    except OSError as error:
        raise Damaged(f"{path.name}: {error}") from error
    if Part(len(content), zlib.crc32(content)) != part:
        raise Damaged(f"{path.name} is not what was written")
    return content


def checksum(path: Path, size: int) -> Part:
    crc, left = 0, size
    try:
        with path.open("rb") as file:
            while left and (block := file.read(min(left, _BLOCK))):
                crc = zlib.crc32(block, crc)
                left -= len(block)
    except OSError as error:
        raise Damaged(f"{path.name}: {error}") from error
    return Part(size - left, crc)

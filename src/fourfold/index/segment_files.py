"""Index files: append-only columns and small files under one manifest, which is replaced last.

After a crash a file may be longer than the manifest says; the next append truncates it. The manifest has a checksum of
every file, which is verified before the file is used, in particular by native code.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from fourfold import owner_only
from fourfold.bounded import open_regular
from fourfold.index.locks import unread

T = TypeVar("T")

FORMAT = 5
_BLOCK_BYTES = 1 << 20
_READ_ATTEMPTS = 5
_RETRY_SECONDS = 0.02


class Damaged(Exception):
    """An index cannot be used and must be rebuilt. Stores handle this error: searches then use the items themselves."""


@dataclass(frozen=True, slots=True)
class Part:
    """The valid length of a file, and the checksum of that part."""

    size: int = 0
    crc: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    generation: int
    seq: int
    """The last change that the index holds."""
    rows: int
    space: str
    """What the content depends on besides the items: analyser version, or fingerprint of the embedder."""
    store: str
    """The store and namespace that this index belongs to."""
    mark: str = ""
    """Random; recorded in the database before the publication takes effect. A restored database lacks it."""
    format: int = FORMAT
    covered: int = 0
    """Vector index: the number of rows that FAISS holds."""
    parts: Mapping[str, Part] = field(default_factory=dict[str, Part])


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest in the folder; None if there is none. Raises Damaged if it cannot be read."""
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
        names = {each.name for each in fields(Manifest)}  # a later version may write more
        return Manifest(**{name: value for name, value in data.items() if name in names}, parts=parts)
    except (AttributeError, KeyError, TypeError) as error:
        raise Damaged(f"not a manifest: {error}") from error


def _read_text(path: Path) -> str:
    """Retries, because Windows refuses to open a file while it is being replaced."""
    for _ in range(_READ_ATTEMPTS):
        try:
            return _text_of(path)
        except PermissionError:
            time.sleep(_RETRY_SECONDS)
    return _text_of(path)


def _text_of(path: Path) -> str:
    with open_regular(path) as file:
        return file.read().decode()


def matching_manifest(folder: Path, store: str, space: str) -> Manifest | None:
    """The manifest, if it belongs to this store and space and has this format."""
    manifest = read_manifest(folder)
    if manifest is None or (manifest.store, manifest.space, manifest.format) != (store, space, FORMAT):
        return None
    return manifest


def load(folder: Path, store: str, space: str, opening: Callable[[Path, Manifest], T]) -> T | None:
    """Opens what is published for this store and space with `opening`; None if nothing is.

    Raises Damaged if it cannot be read. Retries if a newer publication has replaced it meanwhile.
    """
    while True:
        manifest = matching_manifest(folder, store, space)
        if manifest is None:
            return None
        try:
            return opening(folder / f"g{manifest.generation}", manifest)
        except (Damaged, OSError, ValueError, RuntimeError) as error:  # includes errors of FAISS
            if read_manifest(folder) == manifest:
                raise Damaged(str(error)) from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Publishes an index. All files that the manifest names must be on disk."""
    data = asdict(manifest)
    data["crc"] = _crc_of(data)
    replace_file(folder / "manifest.json", json.dumps(data).encode())


def with_part(manifest: Manifest, name: str, part: Part) -> Manifest:
    return replace(manifest, parts={**manifest.parts, name: part})


def _crc_of(data: Any) -> int:
    return zlib.crc32(json.dumps(data, sort_keys=True).encode())


def replace_file(path: Path, content: bytes) -> Part:
    """Writes a temporary file, syncs it, and renames it: readers see the old content or the new, never a part."""
    temporary = path.with_name(path.name + ".new")
    with owner_only.open_file(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)
    return Part(len(content), zlib.crc32(content))


def sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot sync folders, and orders renames itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Column:
    """One append-only file, written from the end of its valid part."""

    def __init__(self, path: Path, part: Part) -> None:
        self.name = path.name
        self.part = part
        self._path = path
        self._file = owner_only.open_file(path, "r+b" if path.exists() else "w+b")
        try:
            if self._file.seek(0, os.SEEK_END) > part.size:  # left by an interrupted publication
                self._file.truncate(part.size)
            self._file.seek(part.size)
        except BaseException:
            self._file.close()
            raise

    def append(self, values: Any) -> None:
        content = values.tobytes()
        self._file.write(content)
        self.part = Part(self.part.size + len(content), zlib.crc32(content, self.part.crc))

    def sync(self) -> None:
        """Everything that was appended is on disk when this returns."""
        self._file.flush()
        os.fsync(self._file.fileno())
        note_written(self._path, self.part)

    def close(self) -> None:
        self._file.close()


def require(manifest: Manifest, *names: str) -> None:
    missing = [name for name in names if name not in manifest.parts]
    if missing:
        raise Damaged(f"the manifest lacks {missing[0]}")


NOTED_FILES = 300
"""Ten times the files of an index, since those of earlier publications are never verified again."""
_written: dict[tuple[int, int], tuple[int, Part]] = {}
"""By device and inode, files that this process has written: modification time, and content. The last used is last."""


def note_written(path: Path, part: Part) -> None:
    """This process has just written the file: it need not be verified as long as nobody modifies it."""
    status = path.stat()
    _note((status.st_dev, status.st_ino), (status.st_mtime_ns, part))


def _note(place: tuple[int, int], content: tuple[int, Part]) -> None:
    _written.pop(place, None)
    _written[place] = content
    for oldest in [*_written][:-NOTED_FILES]:
        _written.pop(oldest, None)


def _is_as_written(path: Path, part: Part, *, whole: bool) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    is_long_enough = status.st_size == part.size if whole else status.st_size >= part.size
    place, content = (status.st_dev, status.st_ino), (status.st_mtime_ns, part)
    is_known = is_long_enough and _written.get(place) == content
    if is_known:
        _note(place, content)
    return is_known


def verify(path: Path, part: Part, *, whole: bool = False) -> None:
    """Raises Damaged if the checksum of the file is wrong; with `whole`, also if the file is longer than its part.

    A load that is published every 20,000 changes would otherwise read the whole index each time.
    """
    if not _is_as_written(path, part, whole=whole) and checksum(path, part.size + whole) != part:
        raise Damaged(f"{path.name} has a wrong checksum")


def read(path: Path, part: Part, *, whole: bool = False) -> bytes:
    """The verified content of the file. Raises Damaged like `verify`."""
    try:
        with open_regular(path) as file:
            content = file.read(part.size + whole)
    except OSError as error:
        raise Damaged(f"{path.name}: {error}") from error
    if Part(len(content), zlib.crc32(content)) != part:
        raise Damaged(f"{path.name} has a wrong checksum")
    return content


def checksum(path: Path, size: int) -> Part:
    crc, left = 0, size
    try:
        with open_regular(path) as file:
            while left and (block := file.read(min(left, _BLOCK_BYTES))):
                crc = zlib.crc32(block, crc)
                left -= len(block)
    except OSError as error:
        raise Damaged(f"{path.name}: {error}") from error
    return Part(size - left, crc)


# ---------------------------------------------------------------- generations
#
# Generations of an index: folders `g1`, `g2`, ..., of which the manifest names the current one.
# Unchanged files of a generation are hard links to those of the one before. An interrupted publication leaves a folder
# that no manifest names; `remove_old_generations` deletes it.


def begin_generation(folder: Path, manifest: Manifest | None, rewritten: Sequence[str]) -> Path:
    """A new folder with links to the files of the generation that it continues, except those to be rewritten."""
    if folder.exists() and not folder.is_dir():
        folder.unlink()
    newest = max(map(generation_number, _generations(folder)), default=0)
    target = folder / f"g{newest + 1}"
    owner_only.make_folder(target)
    if manifest is not None:
        _link_files(folder / f"g{manifest.generation}", target, ("*.lock", "*.new", *rewritten))
    return target


def finish_generation(folder: Path, target: Path, manifest: Manifest) -> None:
    """Makes a generation the current one."""
    sync_folder(target)
    write_manifest(folder, manifest)


def generation_number(generation: Path) -> int:
    return int(generation.name[1:])


def has_old_generations(folder: Path) -> bool:
    return len(_generations(folder)) > 1


def remove_old_generations(folder: Path, *, even_if_read: bool = False) -> None:
    """Removes old generations and interrupted ones that no process reads; with `even_if_read`, all of them.

    Mapped files stay readable until they are closed (on Windows, their folder stays).
    """
    try:
        manifest = read_manifest(folder)
    except Damaged:
        return
    current = manifest.generation if manifest is not None else 0
    for path in _generations(folder):
        if generation_number(path) != current:
            with unread(path) as free:
                if free or even_if_read:
                    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def opened_columns(target: Path, manifest: Manifest | None, names: Sequence[str]) -> Generator[list[Column]]:
    """The append-only files of a generation. They are synced when the block ends without an error."""
    parts = manifest.parts if manifest is not None else dict[str, Part]()
    with ExitStack() as opened:
        columns = [opened.enter_context(closing(Column(target / name, parts.get(name, Part())))) for name in names]
        yield columns
        for column in columns:
            column.sync()


def _generations(folder: Path) -> list[Path]:
    return [path for path in folder.glob("g*") if path.name[1:].isdecimal()]


def _link_files(source: Path, target: Path, excluded: Sequence[str]) -> None:
    for path in source.iterdir():
        if not any(path.match(pattern) for pattern in excluded):
            _link(path, target / path.name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)

"""Generations of an index: folders `g1`, `g2`, ..., of which the manifest names the current one.

Unchanged files of a generation are hard links to those of the one before. An interrupted publication leaves a folder
that no manifest names; `remove_old` deletes it.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from fourfold import owner_only
from fourfold.index import segment_files
from fourfold.index.locks import unread
from fourfold.index.segment_files import Column, Manifest, Part


def begin(folder: Path, manifest: Manifest | None, rewritten: Sequence[str]) -> Path:
    """A new folder with links to the files of the generation that it continues, except those to be rewritten."""
    if folder.exists() and not folder.is_dir():
        folder.unlink()
    newest = max(map(number, _all(folder)), default=0)
    target = folder / f"g{newest + 1}"
    owner_only.make_folder(target)
    if manifest is not None:
        _link_files(folder / f"g{manifest.generation}", target, ("*.lock", "*.new", *rewritten))
    return target


def finish(folder: Path, target: Path, manifest: Manifest) -> None:
    """Makes a generation the current one."""
    segment_files.sync_folder(target)
    segment_files.write_manifest(folder, manifest)


def number(generation: Path) -> int:
    return int(generation.name[1:])


def has_old(folder: Path) -> bool:
    return len(_all(folder)) > 1


def remove_old(folder: Path, *, even_if_read: bool = False) -> None:
    """Removes old generations and interrupted ones that no process reads; with `even_if_read`, all of them.

    Mapped files stay readable until they are closed (on Windows, their folder stays).
    """
    try:
        manifest = segment_files.read_manifest(folder)
    except segment_files.Damaged:
        return
    current = manifest.generation if manifest is not None else 0
    for path in _all(folder):
        if number(path) != current:
            with unread(path) as free:
                if free or even_if_read:
                    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def columns(target: Path, manifest: Manifest | None, names: Sequence[str]) -> Generator[list[Column]]:
    """The append-only files of a generation. They are synced when the block ends without an error."""
    parts = manifest.parts if manifest is not None else dict[str, Part]()
    with ExitStack() as opened:
        found = [opened.enter_context(closing(Column(target / name, parts.get(name, Part())))) for name in names]
        yield found
        for column in found:
            column.sync()


def _all(folder: Path) -> list[Path]:
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

"""import, export, copy, move, backup, restore."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fourfold.cli.output import say, warn
from fourfold.cli.session import load_config, run, wait_for
from fourfold.cli.vectors import WaitFlag, finish_vectors
from fourfold.errors import NotFound, RequestError

if TYPE_CHECKING:
    from fourfold.memory import Memory
    from fourfold.moving import Moved

FilePath = Annotated[Path, typer.Argument(metavar="FILE")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="FOLDER or DSN")]
Jsonl = Annotated[Path, typer.Argument(metavar="FILE.jsonl")]


def import_file(ctx: typer.Context, file: Jsonl, wait: WaitFlag = None) -> None:
    _must_exist(file)

    async def work(memory: Memory) -> Mapping[str, int]:
        from fourfold.cli.render import progress_bar

        with progress_bar("import", in_bytes=True) as progress:
            counts = await memory.import_file(file, progress=progress)
        await finish_vectors(memory, wait)
        return counts

    say(f"imported {_listed(run(ctx, work, create=True))}")


def export(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE.jsonl|-", help="- writes to stdout.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    if file == "-":
        warn(f"exported {_listed(run(ctx, _export_to_stdout))}")
        return
    target = Path(file)
    if target.exists() and not force:
        raise RequestError(f"{target} exists", "Choose another name, or replace it with --force")
    say(f"exported {_listed(run(ctx, lambda memory: memory.export(target)))}")


async def _export_to_stdout(memory: Memory) -> Mapping[str, int]:
    """By way of a temporary file: stdout gets a whole export or nothing, and a slow reader holds no transaction."""
    with tempfile.TemporaryDirectory(prefix="fourfold-export-") as folder:
        file = Path(folder) / "export.jsonl"
        counts = await memory.export(file)
        with file.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return counts


def backup(ctx: typer.Context, file: FilePath) -> None:
    async def work(memory: Memory) -> None:
        await memory.backup(file)

    run(ctx, work)
    say(f"backed up to {file}")


def restore(ctx: typer.Context, file: FilePath) -> None:
    from fourfold.memory import Memory

    _must_exist(file)
    wait_for(Memory.restore(file, load_config(ctx).settings.store))
    say(f"restored from {file}")


def copy(ctx: typer.Context, target: Target) -> None:
    say(_copied(_copy(ctx, target)))


def move(
    ctx: typer.Context,
    target: Target,
    delete_source: Annotated[
        bool, typer.Option("--delete-source", help="Remove the source after both were compared.")
    ] = False,
) -> None:
    say(_copied(_copy(ctx, target, delete_source=delete_source)))
    say("the source is removed" if delete_source else "the source is kept: --delete-source removes it")


def _copy(ctx: typer.Context, target: str, *, delete_source: bool = False) -> Moved:
    async def work(memory: Memory) -> Moved:
        from fourfold.cli.render import progress_bar

        with progress_bar("copy", in_bytes=True) as progress:
            return await memory.move(target, progress=progress, delete_source=delete_source)

    return run(ctx, work)


def _copied(moved: Moved) -> str:
    return f"copied {_listed(moved.counts)}\nchecksum {moved.checksum}"


def _must_exist(file: Path) -> None:
    if not file.is_file():
        raise NotFound(f"there is no file {file}", "Check the path")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items()) or "nothing"

"""import, export, move, backup, restore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fourfold.cli.output import say
from fourfold.cli.session import load_config, run, wait_for
from fourfold.cli.vectors import WaitFlag, finish_vectors
from fourfold.errors import NotFound

if TYPE_CHECKING:
    from fourfold.memory import Memory
    from fourfold.moving import Moved

FilePath = Annotated[Path, typer.Argument(metavar="FILE")]
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


def export(ctx: typer.Context, file: Jsonl) -> None:
    say(f"exported {_listed(run(ctx, lambda memory: memory.export(file)))}")


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


def move(ctx: typer.Context, target: Annotated[str, typer.Argument(metavar="TARGET", help="FOLDER or DSN")]) -> None:
    async def work(memory: Memory) -> Moved:
        from fourfold.cli.render import progress_bar

        with progress_bar("move", in_bytes=True) as progress:
            return await memory.move(target, progress=progress)

    moved = run(ctx, work)
    say(f"moved {_listed(moved.counts)}")
    say(f"checksum {moved.checksum}")


def _must_exist(file: Path) -> None:
    if not file.is_file():
        raise NotFound(f"there is no file {file}", "Check the path")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items()) or "nothing"

"""index."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from fourfold.cli.commands import argument, option
from fourfold.cli.options import JsonFlag
from fourfold.cli.output import one_line, say, say_json, warn
from fourfold.cli.session import open_memory
from fourfold.cli.vectors import WaitFlag, finish_vectors
from fourfold.errors import FourfoldError

if TYPE_CHECKING:
    from fourfold.ingest.report import IndexReport


def index(
    ctx: click.Context,
    folders: Annotated[list[Path], argument(metavar="PATH...", help="Folders or files to index.")],
    exclude: Annotated[
        list[str] | None, option("--exclude", metavar="GLOB", help="Leave this out, as .gitignore would; repeat.")
    ] = None,
    tag: Annotated[list[str] | None, option("--tag", metavar="T", help="A tag for all of them; repeat.")] = None,
    watch: Annotated[bool, option("--watch", help="Stay, and follow changes until interrupted.")] = False,
    verify: Annotated[bool, option("--verify", help="Compare contents, not only sizes and times.")] = False,
    wait: WaitFlag = None,
    as_json: JsonFlag = False,
) -> None:
    from fourfold.cli.render import progress_bar
    from fourfold.ingest.sync import watch as watching

    globs, tags = exclude or (), tag or ()
    with open_memory(ctx, create=True, background=watch) as memory:
        with progress_bar("files") as progress:
            report = memory.index_folders(folders, exclude=globs, tags=tags, verify=verify, progress=progress)
        _say(report, as_json=as_json)
        if watch:
            _watch(watching(lambda: memory.index_folders(folders, exclude=globs, tags=tags)), as_json=as_json)
        else:
            finish_vectors(memory, wait)


def _watch(runs: Generator[IndexReport | FourfoldError], *, as_json: bool) -> None:
    failed = ""
    for done in runs:
        if isinstance(done, FourfoldError):
            if str(done) != failed:
                warn(f"error: {done}; still watching")
            failed = str(done)
        else:
            failed = ""
            if done.touched:
                _say(done, as_json=as_json)


def _say(report: IndexReport, *, as_json: bool) -> None:
    from fourfold.ingest.report import reasons

    if as_json:
        from fourfold.wire import index_json

        say_json(index_json(report))
        return
    say(
        f"{_files(report.files)}: {report.new} new, {report.changed} changed, {report.moved} moved, "
        f"{report.removed} removed, {report.unchanged} unchanged; {report.chunks} chunks stored"
    )
    for title, found in (("note on", report.notes), ("skipped", report.skipped)):
        for reason, few in reasons(found):
            examples = ", ".join(one_line(path) for path in few.examples[:3])
            more = ", ..." if few.count > 3 else ""
            say(f"  {title} {few.count}: {one_line(reason)} ({examples}{more})")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"

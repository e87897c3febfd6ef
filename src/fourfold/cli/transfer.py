"""index, import, export, copy, move, backup, restore."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from fourfold.cli.commands import ADDRESS, argument, load_config, open_memory, open_pair, option
from fourfold.cli.options import JsonFlag
from fourfold.cli.output import counted, one_line, progress_bar, say, say_json, warn
from fourfold.cli.vectors import WaitFlag, finish_vectors
from fourfold.errors import FourfoldError, NotFound, RequestError, StoreBusy, StoreNotFound
from fourfold.ingest.sync import IndexReport, reasons
from fourfold.ingest.transcripts import TOOLS
from fourfold.integrations.importers import FORMATS
from fourfold.wire import index_json

if TYPE_CHECKING:
    from fourfold.memory import Memory
    from fourfold.storage.exchange import Moved


# ---------------------------------------------------------------- files


def index(
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
    from fourfold.ingest.sync import watch as watching

    globs, tags = exclude or (), tag or ()
    with open_memory(create=True, background=watch) as memory:
        report = _read_files(memory, folders, exclude=globs, tags=tags, verify=verify)
        _say(report, as_json=as_json)
        if watch:
            _watch(watching(lambda: memory.index_folders(folders, exclude=globs, tags=tags)), as_json=as_json)
        else:
            finish_vectors(memory, wait)


def _read_files(memory: Memory, folders: Sequence[Path], **options: Any) -> IndexReport:
    """Says after Ctrl-C how far it came, and leaves the vectors of what is stored to a worker."""
    read = 0

    def count(done: int, total: int) -> None:
        nonlocal read
        read = done
        show(done, total)

    try:
        with progress_bar("files") as show:
            return memory.index_folders(folders, progress=count, **options)
    except KeyboardInterrupt:
        warn(f"interrupted after {counted(read, 'file')}, which are stored; the same command reads the others")
        finish_vectors(memory, wait=False)
        raise


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
    if as_json:
        say_json(index_json(report))
        return
    say(
        f"{counted(report.files, 'file')}: {report.new} new, {report.changed} changed, {report.moved} moved, "
        f"{report.removed} removed, {report.unchanged} unchanged; {report.chunks} chunks stored"
    )
    for title, by_reason in (("note on", report.notes), ("skipped", report.skipped)):
        for reason, few in reasons(by_reason):
            examples = ", ".join(one_line(path) for path in few.examples[:3])
            more = ", ..." if few.count > 3 else ""
            say(f"  {title} {few.count}: {one_line(reason)} ({examples}{more})")


# ---------------------------------------------------------------- the whole store

FilePath = Annotated[Path, argument(metavar="FILE")]
Target = Annotated[str, argument(metavar="TARGET", help="FOLDER or DSN", type=ADDRESS)]
Foreign = Annotated[
    str | None,
    option("--from", metavar="TOOL", help=f"What another tool wrote, one of {', '.join((*FORMATS, *TOOLS))}."),
]


def import_file(
    file: Annotated[
        Path | None, argument(metavar="[FILE]", help="Sessions of a tool on this machine are found without it.")
    ] = None,
    tool: Foreign = None,
    dry_run: Annotated[bool, option("--dry-run", help="With --from: only report what would be stored.")] = False,
    skip_invalid: Annotated[
        bool, option("--skip-invalid", help="List invalid rows, and store the others; otherwise one refuses all.")
    ] = False,
    yes: Annotated[bool, option("--yes", help="Do not ask before sessions that were found are imported.")] = False,
    wait: WaitFlag = None,
) -> None:
    if tool is not None and tool in TOOLS:
        _import_sessions(tool, file, dry_run=dry_run, yes=yes, wait=wait)
        return
    if file is None:
        raise click.UsageError("Missing argument 'FILE'.")
    if tool is not None:
        _import_from(tool, file, dry_run=dry_run, wait=wait)
        return
    if dry_run:
        raise RequestError("--dry-run works with --from only", "Name the tool that wrote the file: --from TOOL")
    _must_exist(file)
    with open_memory(create=True) as memory:
        with progress_bar("import", in_bytes=True) as progress:
            skipped: list[str] = []
            skip = skipped.append if skip_invalid else None
            counts = memory.import_file(file, progress=progress, skip=skip)
        for problem in skipped:
            warn(f"skipped {one_line(problem)}")
        finish_vectors(memory, wait)
    say(f"imported {_listed(counts)}" + (f", skipped {_listed({'row': len(skipped)})}" if skipped else ""))


def _import_from(tool: str, place: Path, *, dry_run: bool, wait: bool | None) -> None:
    from fourfold.integrations.importers import read_foreign, report_of, store

    contents = read_foreign(tool, place)
    if not dry_run:
        with open_memory(create=True) as memory:
            store(memory, contents)
            finish_vectors(memory, wait)
    report = report_of(contents)
    say(f"{'would import' if dry_run else 'imported'} {_listed({'item': report.items, 'relation': report.relations})}")
    for reason, count in report.left_out.items():
        say(f"left out {count}: {reason}")


def _import_sessions(tool: str, place: Path | None, *, dry_run: bool, yes: bool, wait: bool | None) -> None:
    """Asks first if nobody named the place."""
    with _planned_memory() if dry_run else open_memory(create=True) as memory:
        planned = memory.import_sessions(tool, place, dry_run=True)
        plan = (
            f"{_listed({'new session': planned.new, 'changed session': planned.changed})} "
            f"({planned.bytes / 1e6:,.1f} MB) of {tool}; {planned.unchanged} unchanged"
        )
        if dry_run:
            say(f"would import {plan}")
            return
        if place is None and planned.sessions and not yes:
            if not sys.stdin.isatty():
                raise RequestError(f"this would import {plan}", "Repeat it with --yes")
            click.confirm(f"Import {plan}?", abort=True, err=True)
        with progress_bar("import", in_bytes=True) as progress:
            report = memory.import_sessions(tool, place, progress=progress)
        finish_vectors(memory, wait)
    counts = {"session": report.sessions, "turn": report.turns, "item": report.items}
    say(f"imported {_listed(counts)}; {report.unchanged} unchanged")
    for reason, count in report.left_out.items():
        if count:
            say(f"left out {count}: {reason}")


def _planned_memory() -> Memory:
    """The store, or an empty one where there is none: a plan creates nothing."""
    from fourfold.memory import Memory

    try:
        return open_memory()
    except StoreNotFound:
        return Memory.open(":memory:", embedder="none", background=False)


def export(
    file: Annotated[str, argument(metavar="FILE.jsonl|-", help="- writes to stdout.", type=ADDRESS)],
    force: Annotated[bool, option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    target, to_stdout = Path(file), file == "-"
    if not to_stdout and target.exists() and not force:
        raise RequestError(f"{target} exists", "Choose another name, or replace it with --force")
    with open_memory() as memory:
        counts = _export_to_stdout(memory) if to_stdout else memory.export(target)
    (warn if to_stdout else say)(f"exported {_listed(counts)}")


def _export_to_stdout(memory: Memory) -> Mapping[str, int]:
    """Exports to a temporary file first: stdout gets a whole export or nothing, and a slow reader blocks no store."""
    with tempfile.TemporaryDirectory(prefix="fourfold-export-") as folder:
        file = Path(folder) / "export.jsonl"
        counts = memory.export(file)
        with file.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return counts


def backup(file: FilePath) -> None:
    with open_memory() as memory:
        memory.backup(file)
    say(f"backed up to {file}")


def restore(file: FilePath) -> None:
    from fourfold.memory import Memory

    _must_exist(file)
    Memory.restore(file, load_config().settings.store)
    say(f"restored from {file}")


def copy(target: Target) -> None:
    say(_copied(_copy(target)))


def move(
    target: Target,
    delete_source: Annotated[
        bool, option("--delete-source", help="Remove the source after both were compared.")
    ] = False,
) -> None:
    say(_copied(_copy(target, delete_source=delete_source)))
    say("the source is removed" if delete_source else "the source is kept: --delete-source removes it")


def sync(
    peer: Annotated[str, argument(metavar="PEER", help="FOLDER, DSN or http(s)://HOST:PORT", type=ADDRESS)],
    wait: WaitFlag = None,
    as_json: JsonFlag = False,
) -> None:
    complete = True
    for memory, other in open_pair(peer):
        with progress_bar("sync") as progress:
            report = memory.sync(other, progress=progress)
        finish_vectors(memory, wait)
        complete &= report.complete
        if as_json:
            say_json({"namespace": memory.namespace, **asdict(report)})
            continue
        changed = f"sent {_listed(report.sent)}; received {_listed(report.received)}"
        say(f"namespace {one_line(memory.namespace)}: {changed if report.sent or report.received else 'no change'}")
        if report.conflicts:
            say(f"  {counted(report.conflicts, 'item')} changed on both sides; the other states are in their history")
        if not report.complete:
            warn("others wrote to these stores meanwhile: repeat the command")
        if report.purged:
            say("  what was purged on one side is purged on the other")
    if not complete:
        click.get_current_context().exit(StoreBusy.exit_code)


def _copy(target: str, *, delete_source: bool = False) -> Moved:
    with open_memory() as memory, progress_bar("copy", in_bytes=True) as progress:
        return memory.move(target, progress=progress, delete_source=delete_source)


def _copied(moved: Moved) -> str:
    return f"copied {_listed(moved.counts)}\nchecksum {moved.checksum}"


def _must_exist(file: Path) -> None:
    if not file.is_file():
        raise NotFound(f"no file {file}", "Check the path")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(counted(count, name) for name, count in counts.items()) or "nothing"

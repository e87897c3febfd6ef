"""What reaches stdout and stderr without rich. Stored text is data: it never moves the cursor or sets a colour."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

if TYPE_CHECKING:
    from datetime import datetime

    from fourfold.model import Item, Json, RawRecord
    from fourfold.retrieval import Result, SearchResponse, TimeWindow

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, without tab and newline
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, direction of writing
    "\ud800-\udfff\U000e0000-\U000e007f\U000e0100-\U000e01ef]"  # half characters, tags, variants that show nothing
)
_SHOWN_COPIES: Final = 3
_SHORT_SECONDS: Final = 10
_MINUTES_FROM_SECONDS: Final = 90
T = TypeVar("T")


def clean(text: str) -> str:
    """The text without terminal sequences, control characters and characters that hide or reorder others."""
    return _INVISIBLE.sub("", _SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    return " ".join(clean(text).split())


def speak_utf8() -> None:
    """Uses UTF-8 on every system and in every pipe, since a code page would damage JSON."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller; reopened so that no other file gets its descriptor
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def on_terminal() -> bool:
    return sys.stdout.isatty()


def say(text: str) -> None:
    click.echo(clean(text))


def warn(text: str) -> None:
    """A message on stderr; a terminal gets it in lines that end between words."""
    click.echo(_wrapped(clean(text)) if sys.stderr.isatty() else clean(text), err=True)


def _wrapped(text: str) -> str:
    width = shutil.get_terminal_size().columns
    lines = (line if len(line) <= width else _indented(line, width) for line in text.split("\n"))
    return "\n".join(lines)


def _indented(line: str, width: int) -> str:
    """Paths and other long words stay whole, so that they can be copied."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, width, subsequent_indent=indent or "  ", break_long_words=False, break_on_hyphens=False)


def say_json(value: Json) -> None:
    """Prints one JSON object; control characters are escaped, which means the same in JSON."""
    from fourfold.wire import dumps

    click.echo(_INVISIBLE.sub(_escaped, dumps(value)))


def _escaped(match: re.Match[str]) -> str:
    utf16 = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{utf16[at : at + 2].hex()}" for at in range(0, len(utf16), 2))


def say_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = False) -> None:
    """A table on a terminal, tab-separated lines in a pipe.

    `header`: also in a pipe, for tables whose numbers mean nothing without it.
    """
    lines = [[one_line(str(cell)) for cell in row] for row in rows]
    if on_terminal():
        from fourfold.cli.render import print_table

        print_table(columns, lines)
    else:
        named = [list(columns), *lines] if header else lines
        click.echo("".join("\t".join(line) + "\n" for line in named), nl=False)


def progress_bar(title: str, *, in_bytes: bool = False) -> AbstractContextManager[Callable[[int, int], None]]:
    """Gives `progress(done, total)`; drawn on stderr while it lasts, and only if that is a terminal."""
    from fourfold.cli.render import draw_progress

    return draw_progress(title, in_bytes=in_bytes)


def say_list(
    name: str,
    values: Sequence[T],
    columns: Sequence[str],
    row: Callable[[T], Sequence[object]],
    *,
    as_json: bool,
    empty: str = "",
    **facts: Json,
) -> None:
    """One JSON object with the values in full, or a table with a row for each, or `empty` on stderr."""
    if as_json:
        from fourfold.wire import encode

        say_json({"status": "success", "count": len(values), **facts, name: [encode(value) for value in values]})
    elif values:
        say_rows(columns, map(row, values))
    else:
        warn(empty or f"no {name} found")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def waiting_for_vectors(count: int) -> str:
    return f"{counted(count, 'item')} {'waits for its vector' if count == 1 else 'wait for their vectors'}"


def duration(seconds: float) -> str:
    """A time that is an estimate, in words."""
    if seconds < _SHORT_SECONDS:
        return "a few seconds"
    if seconds < _MINUTES_FROM_SECONDS:
        return f"about {round(seconds, -1):.0f} seconds"
    minutes = seconds / 60
    return f"about {counted(round(minutes), 'minute')}" if minutes < 90 else f"about {minutes / 60:.1f} hours"


def warn_degraded(response: SearchResponse) -> None:
    for degraded in response.degraded:
        remedy = " (`fourfold embed` makes them)" if degraded.pending and degraded.retriever == "semantic" else ""
        warn(f"degraded: {degraded.retriever}: {degraded.reason}{remedy}")
    if response.time_window is not None and response.time_window.applied is not None:
        warn(f"time: {_window(response.time_window)}")
    for note in response.notes:
        warn(f"note: {note}")


def _window(window: TimeWindow) -> str:
    bounds = [f"from {local_time(window.start)}"] if window.start is not None else []
    bounds += [f"to {local_time(window.end)}"] if window.end is not None else []
    return f"{one_line(window.words)!r} is {' '.join(bounds)}; --time off ignores it"


def heading(item: Item) -> str:
    """The label of an item in a list: its title, or else the beginning of its text."""
    return one_line(item.title) or one_line(item.text)[:80]


def raw_heading(record: RawRecord) -> str:
    """The id, the speaker, the session and the time of a record."""
    said = ", ".join(one_line(part) for part in (record.speaker, record.session_id) if part)
    return f"raw record {record.id}{f' ({said})' if said else ''}, {local_time(record.created_at)}"


def remarks(result: Result) -> list[str]:
    """The fact that a result states, and whether it is superseded or outside of the time that the query names."""
    item = result.item
    fact = one_line(" / ".join(filter(None, (item.subject, item.attribute))))
    until = "" if item.superseded_at is None else f"superseded {local_time(item.superseded_at)}"
    return [remark for remark in (fact, until, "outside of the time" if result.outside_window else "") if remark]


def located(result: Result) -> str:
    """The location of a result, `path:line`, and other files with the same text; empty if it is not from a file."""
    places = [_from_here(place) for place in (result.item.location, *result.also_in) if place is not None]
    if not places:
        return ""
    first, *others = places
    shown = ", ".join(others[:_SHOWN_COPIES])
    more = f" and {len(others) - _SHOWN_COPIES} more" if len(others) > _SHOWN_COPIES else ""
    return first + (f" (also in {shown}{more})" if others else "")


def _from_here(place: str) -> str:
    """A path below the working folder is shown relative to it, so that terminals and editors can open it."""
    here = str(Path.cwd()).rstrip("/") + "/"
    return one_line(place.removeprefix(here))


def local_time(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")

"""The child process that reads files, so that a hostile file cannot harm the parent.

A request is a line of JSON (name, size, CPU seconds, whether to read as plain text) followed by the file's bytes; the
answer is a line of JSON. The operating system limits memory and CPU time, which also ends C code that never returns.
The process can neither write files nor start processes, and exits at the end of its input. An answer with `last` is
the last one of this process.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import warnings
from contextlib import suppress
from typing import Any, BinaryIO, Final

from fourfold.ingest.document import Unreadable
from fourfold.ingest.formats import TEXT, ChunkedFile, read_chunks
from fourfold.limits import READ_MEMORY_BYTES

READY: Final = b"ready\n"
TOO_MUCH_MEMORY: Final = "needs too much memory to read"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and closes the input
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    requests, answers = sys.stdin.buffer, _own_output()
    _limit()
    answers.write(READY)
    answers.flush()
    while header := requests.readline():
        name, size, seconds, as_text = json.loads(header)
        data = requests.read(size)
        _limit_time(seconds)
        answer = _answer(name, data, as_text=as_text)
        encoded = _encoded(answer)
        _limit_time(0)
        answers.write(encoded)
        answers.flush()
        if answer["last"]:
            return


def _own_output() -> BinaryIO:
    """Return the pipe to the parent; output of libraries to stdout is discarded."""
    pipe = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as null:  # noqa: PTH123
        os.dup2(null.fileno(), 1)
    return pipe


def _limit() -> None:
    """Limit memory, files and processes. Windows has no such limits; only the parent's timeout applies there."""
    if sys.platform == "win32":
        return
    import resource

    # macOS refuses this limit on some machines; the parent's timeout applies there, too.
    with suppress(*((OSError, ValueError) if sys.platform == "darwin" else ())):
        resource.setrlimit(resource.RLIMIT_AS, (READ_MEMORY_BYTES, READ_MEMORY_BYTES))
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(kind, (0, 0))


def _limit_time(seconds: float) -> None:
    """Let the operating system end this process (SIGPROF) after this CPU time; 0 removes the limit."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _answer(name: str, data: bytes, *, as_text: bool) -> dict[str, Any]:
    try:
        return {**_as_json(read_chunks(name, data, TEXT if as_text else None)), "last": _is_large()}
    except Unreadable as reason:
        return {"skipped": str(reason), "last": _is_large()}
    except MemoryError:
        return {"skipped": TOO_MUCH_MEMORY, "last": True}
    except Exception as error:  # noqa: BLE001  a crafted file can make a parser raise anything; the summary names it
        return {"skipped": f"cannot be parsed ({type(error).__name__})", "last": _is_large()}


def _is_large() -> bool:
    """Whether more than half of the memory limit is still in use after a file; known on Linux only."""
    try:
        with open("/proc/self/statm", "rb") as sizes:  # noqa: PTH123
            pages = int(sizes.read().split()[0])
    except OSError:
        return False
    return pages * os.sysconf("SC_PAGESIZE") > READ_MEMORY_BYTES // 2


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    except MemoryError:
        return _encoded({"skipped": TOO_MUCH_MEMORY, "last": answer["last"]})
    except (ValueError, TypeError, RecursionError) as error:
        return _encoded({"skipped": f"cannot be stored ({error})", "last": answer["last"]})


def _as_json(file: ChunkedFile) -> dict[str, Any]:
    document = file.document
    return {
        "title": document.title,
        "tags": document.tags,
        "aliases": document.aliases,
        "metadata": document.metadata,
        "unit": document.unit,
        "kind": document.kind,
        "note": document.note,
        "chunks": [[each.headings, each.text, each.first, each.last, each.metadata, each.tags] for each in file.chunks],
    }

"""The process that reads files: it pays for what a hostile file does to a parser.

A request is a line of JSON (name, bytes, seconds, whether to read plain text) and the file's bytes; the answer is a
line of JSON.
The operating system limits memory and processor time, so code in C that never returns is ended, too. The process can
neither write files nor start processes, and ends with its input. An answer with `last` asks for a new process.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import warnings
from typing import Any, BinaryIO, Final

from fourfold.ingest.chunk import Chunk
from fourfold.ingest.document import Unreadable
from fourfold.ingest.formats import TEXT
from fourfold.ingest.reading import CutFile, cut
from fourfold.limits import READ_MEMORY_BYTES

READY: Final = b"ready\n"
TOO_MUCH_MEMORY: Final = "takes too much memory to read"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes the input
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
    """The pipe to the parent; what a library prints goes nowhere."""
    pipe = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
    return pipe


def _limit() -> None:
    """Windows has no such limits: there the parent's watch over the time is the only one."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (READ_MEMORY_BYTES, READ_MEMORY_BYTES))
    for kind in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
        resource.setrlimit(kind, (0, 0))


def _limit_time(seconds: float) -> None:
    """After that much processor time, the operating system ends this process (SIGPROF). 0 takes the limit away."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _answer(name: str, data: bytes, *, as_text: bool) -> dict[str, Any]:
    try:
        return {**_as_json(cut(name, data, TEXT if as_text else None)), "last": _is_large()}
    except Unreadable as reason:
        return {"skipped": str(reason), "last": _is_large()}
    except MemoryError:
        return {"skipped": TOO_MUCH_MEMORY, "last": True}
    except Exception as error:  # noqa: BLE001  a crafted file may make a parser raise anything; the summary names it
        return {"skipped": f"cannot be parsed ({type(error).__name__})", "last": _is_large()}


def _is_large() -> bool:
    """Whether much of the memory limit is still taken after a file. Known on Linux, where the limit acts."""
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


def _as_json(file: CutFile) -> dict[str, Any]:
    document = file.document
    return {
        "title": document.title,
        "tags": document.tags,
        "aliases": document.aliases,
        "metadata": document.metadata,
        "unit": document.unit,
        "kind": document.kind,
        "note": document.note,
        "chunks": [_chunk_as_json(chunk) for chunk in file.chunks],
    }


def _chunk_as_json(chunk: Chunk) -> list[Any]:
    return [chunk.headings, chunk.text, chunk.first, chunk.last, chunk.metadata, chunk.tags]

"""Reading of files in a child process, which is reused, and replaced if a file crashes it.

A hostile file cannot harm the parent. A request is a line of JSON (name, size, CPU seconds, whether to read as plain
text) followed by the file's bytes; the answer is a line of JSON. The operating system limits memory and CPU time, which
also ends C code that never returns. The child can neither write files nor start processes, and exits at the end of its
input. An answer with `last` is the last one of this process.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import IO, Any, BinaryIO, Final, NamedTuple, TypeVar, cast

from fourfold import child_process
from fourfold.errors import StoreUnavailable
from fourfold.ingest.document import Chunk, Document, Unreadable
from fourfold.ingest.formats import TEXT, ChunkedFile, format_of, read_chunks
from fourfold.limits import READ_MEMORY_BYTES, cpu_seconds_for

_T = TypeVar("_T")

READY: Final = b"ready\n"
TOO_MUCH_MEMORY: Final = "needs too much memory to read"
TOO_LONG: Final = "takes too long to read"
CRASHED: Final = "crashes the parser"
_START_SECONDS: Final = 60.0
_CLOCK_SECONDS_PER_CPU_SECOND: Final = 10
"""Timeout by the clock for each second of CPU time, since other programs may use the machine."""
_CPU_LIMIT_REACHED: Final = -signal.SIGPROF if sys.platform != "win32" else None
_ANSWER_BYTES: Final = 128 * 1024 * 1024


class Request(NamedTuple):
    name: str
    data: bytes
    as_text: bool = False
    """Read as plain text, whatever the file name."""


class ReaderProcess:
    """Not thread-safe, except for `close`."""

    def __init__(self, cpu_seconds_for: Callable[[int], float] = cpu_seconds_for) -> None:
        """`cpu_seconds_for` returns the CPU time allowed for a file of a number of bytes."""
        self._cpu_seconds_for = cpu_seconds_for
        self._child: _Child | None = None
        self._closed = False
        self.started = 0
        """Number of processes started so far."""

    def read(self, requests: Sequence[Request]) -> Iterator[ChunkedFile | Unreadable]:
        """Yield one result for each request, in order. The process gets all requests at once.

        If it ends, the first unanswered file is the cause if its time was up. Otherwise that file is retried alone in
        a new process, since the old one may have been killed from outside.
        """
        waiting = deque(requests)
        retry = False
        while waiting:
            answers, failure = self._exchange([waiting[0]] if retry else list(waiting))
            retry = failure == CRASHED and not (retry and not answers)
            for answer in answers:
                yield self._result(waiting.popleft(), answer, str(answer.get("skipped", "")))
            if failure and not retry:
                yield self._result(waiting.popleft(), None, failure)

    def close(self) -> None:
        self._closed = True
        self._end()

    def _exchange(self, requests: Sequence[Request]) -> tuple[list[dict[str, Any]], str]:
        """Return the answers to the first requests, and why the next one failed; empty if it was not tried."""
        if self._child is None:
            if self._closed:
                raise StoreUnavailable("the reader of files was closed", "Run the index again")
            self._child = _Child()
            self.started += 1
        answers, failure = self._child.exchange(
            [(request, self._cpu_seconds_for(len(request.data))) for request in requests]
        )
        if failure or (answers and answers[-1].get("last")):
            self._end()
        return answers, failure

    def _result(self, request: Request, answer: dict[str, Any] | None, failure: str) -> ChunkedFile | Unreadable:
        """Convert an answer; source code that crashes its parser is read again as plain text."""
        is_code = format_of(request.name).kind == "code"
        if is_code and not request.as_text and failure in (TOO_LONG, CRASHED, TOO_MUCH_MEMORY):
            (result,) = self.read([request._replace(as_text=True)])
            return result
        return Unreadable(failure[:200]) if failure or answer is None else _decoded(answer)

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


_OF_DOCUMENT: Final = [each.name for each in fields(Document) if each.name != "sections"]


def _as_json(file: ChunkedFile) -> dict[str, Any]:
    about = {name: getattr(file.document, name) for name in _OF_DOCUMENT}
    return {**about, "chunks": [[getattr(chunk, each.name) for each in fields(Chunk)] for chunk in file.chunks]}


def _decoded(answer: dict[str, Any]) -> ChunkedFile | Unreadable:
    try:
        chunks = [
            Chunk(tuple(headings), text, int(first), int(last), metadata, tuple(tags))
            for headings, text, first, last, metadata, tags in answer["chunks"]
        ]
        about: dict[str, Any] = {
            name: tuple(answer[name]) if isinstance(answer[name], list) else answer[name] for name in _OF_DOCUMENT
        }
        return ChunkedFile(Document(sections=(), **about), chunks)
    except (KeyError, TypeError, ValueError):
        return Unreadable(CRASHED)


class _Child:
    """The process, and a thread that writes to it while its answers are read."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = child_process.start(__name__, stdin=pipe, stdout=pipe)
        except child_process.CannotStart as error:
            raise _cannot_read(str(error)) from error
        stdin, stdout = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        self._frames: queue.SimpleQueue[Sequence[bytes]] = queue.SimpleQueue()
        self._answers = stdout
        self._is_late = False
        self._writer = threading.Thread(target=self._write, args=(stdin,), daemon=True)
        self._writer.start()
        if self._within(_START_SECONDS, stdout.readline) != READY:
            self.end()
            raise _cannot_read("it exits at once")

    def exchange(self, requests: Sequence[tuple[Request, float]]) -> tuple[list[dict[str, Any]], str]:
        """Send requests with their CPU times; return the answers, and why they are incomplete."""
        frames: list[bytes] = []
        for request, seconds in requests:
            header = [request.name, len(request.data), seconds, request.as_text]
            frames += [json.dumps(header).encode() + b"\n", request.data]
        self._frames.put(frames)
        timeout = _CLOCK_SECONDS_PER_CPU_SECOND * sum(seconds for _, seconds in requests)
        return self._within(timeout, lambda: self._read(len(requests)))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._frames.put(())
        self._writer.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # unwritten data has no reader
                cast("IO[bytes]", pipe).close()

    def _within(self, seconds: float, work: Callable[[], _T]) -> _T:
        """Run `work`, and kill the process if that takes longer, which ends its output."""
        timer = threading.Timer(seconds, self._time_out)
        timer.daemon = True
        timer.start()
        try:
            return work()
        finally:
            timer.cancel()

    def _time_out(self) -> None:
        self._is_late = True
        self._process.kill()

    def _read(self, count: int) -> tuple[list[dict[str, Any]], str]:
        answers: list[dict[str, Any]] = []
        while len(answers) < count:
            line = self._answers.readline(_ANSWER_BYTES)
            if not line.endswith(b"\n"):
                self._process.kill()
                code = self._process.wait()
                return answers, TOO_LONG if self._is_late or code == _CPU_LIMIT_REACHED else CRASHED
            try:
                answer: object = json.loads(line)
            except ValueError:
                return answers, CRASHED
            if not isinstance(answer, dict):
                return answers, CRASHED
            answers.append(cast("dict[str, Any]", answer))
            if answers[-1].get("last"):
                break
        return answers, ""

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError):  # the process is gone; the reader notices the end of its output
            while frames := self._frames.get():
                for part in frames:
                    pipe.write(part)
                pipe.flush()


def _cannot_read(reason: str) -> StoreUnavailable:
    return StoreUnavailable(f"cannot start the child process that reads files ({reason})", "Run Fourfold with `python`")


# ---------------------------------------------------------------- in the child


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

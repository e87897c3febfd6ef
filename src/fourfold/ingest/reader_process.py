"""Reads files in one child process that is used again and again, and replaced when a file has broken it."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, Final, NamedTuple, TypeVar, cast

from fourfold import child_process
from fourfold.errors import StoreUnavailable
from fourfold.ingest.chunk import Chunk
from fourfold.ingest.document import Document, Unreadable
from fourfold.ingest.formats import format_of
from fourfold.ingest.reader_child import READY, TOO_MUCH_MEMORY
from fourfold.ingest.reading import CutFile
from fourfold.limits import cpu_seconds_for

_T = TypeVar("_T")

TOO_LONG: Final = "takes too long to read"
CRASHED: Final = "breaks the parser"
_START_SECONDS: Final = 60.0
_PATIENCE: Final = 10
"""Seconds of the clock for each second of processor time: others may be using the machine."""
_CPU_LIMIT_REACHED: Final = -signal.SIGPROF if sys.platform != "win32" else None
_MOST_ANSWER_BYTES: Final = 128 * 1024 * 1024


class Request(NamedTuple):
    name: str
    data: bytes
    as_text: bool = False
    """Read as plain text, whatever the name says."""


class ReaderProcess:
    """Not for several threads at once, but for `close`."""

    def __init__(self, cpu_seconds_for: Callable[[int], float] = cpu_seconds_for) -> None:
        """`cpu_seconds_for`: the processor time that reading a file of so many bytes may take."""
        self._cpu_seconds_for = cpu_seconds_for
        self._child: _Child | None = None
        self._closed = False
        self.started = 0
        """Processes so far."""

    def read(self, requests: Sequence[Request]) -> Iterator[CutFile | Unreadable]:
        """One result for each request, in their order. The process gets all of them at once.

        A file that it has not answered when it ends is the culprit if the time was up. Otherwise the file gets a new
        process, alone: the old one may have been killed from outside.
        """
        waiting = deque(requests)
        again = False
        while waiting:
            answers, failure = self._exchange([waiting[0]] if again else list(waiting))
            again = failure == CRASHED and not (again and not answers)
            for answer in answers:
                yield self._result(waiting.popleft(), answer, str(answer.get("skipped", "")))
            if failure and not again:
                yield self._result(waiting.popleft(), None, failure)

    def close(self) -> None:
        self._closed = True
        self._end()

    def _exchange(self, requests: Sequence[Request]) -> tuple[list[dict[str, Any]], str]:
        """The answers to the first of these requests, and why the next one has none; empty if it was not tried."""
        if self._child is None:
            if self._closed:
                raise StoreUnavailable("the reader of files was closed", "Index again")
            self._child = _Child()
            self.started += 1
        answers, failure = self._child.exchange(
            [(request, self._cpu_seconds_for(len(request.data))) for request in requests]
        )
        if failure or (answers and answers[-1].get("last")):
            self._end()
        return answers, failure

    def _result(self, request: Request, answer: dict[str, Any] | None, failure: str) -> CutFile | Unreadable:
        """Source code that a parser cannot cope with is read once more, without it."""
        is_code = format_of(request.name).kind == "code"
        if is_code and not request.as_text and failure in (TOO_LONG, CRASHED, TOO_MUCH_MEMORY):
            (result,) = self.read([request._replace(as_text=True)])
            return result
        return Unreadable(failure[:200]) if failure or answer is None else _decoded(answer)

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _decoded(answer: dict[str, Any]) -> CutFile | Unreadable:
    try:
        chunks = [
            Chunk(tuple(headings), text, int(first), int(last), metadata, tuple(tags))
            for headings, text, first, last, metadata, tags in answer["chunks"]
        ]
        document = Document(
            title=answer["title"],
            sections=(),
            tags=tuple(answer["tags"]),
            aliases=tuple(answer["aliases"]),
            metadata=answer["metadata"],
            unit=answer["unit"],
            kind=answer["kind"],
            note=answer["note"],
        )
        return CutFile(document, chunks)
    except (KeyError, TypeError, ValueError):
        return Unreadable(CRASHED)


class _Child:
    """The process, and a thread that writes to it while its answers are read."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = child_process.start("fourfold.ingest.reader_child", stdin=pipe, stdout=pipe)
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
            raise _cannot_read("it ends at once")

    def exchange(self, requests: Sequence[tuple[Request, float]]) -> tuple[list[dict[str, Any]], str]:
        """Each request with its processor time. The answers so far, and why there are not more."""
        frames: list[bytes] = []
        for request, seconds in requests:
            header = [request.name, len(request.data), seconds, request.as_text]
            frames += [json.dumps(header).encode() + b"\n", request.data]
        self._frames.put(frames)
        patience = _PATIENCE * sum(seconds for _, seconds in requests)
        return self._within(patience, lambda: self._read(len(requests)))

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._frames.put(())
        self._writer.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was left to be written has no reader
                cast("IO[bytes]", pipe).close()

    def _within(self, seconds: float, work: Callable[[], _T]) -> _T:
        """Ends the process if that takes longer, which ends its output."""
        timer = threading.Timer(seconds, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            return work()
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        self._is_late = True
        self._process.kill()

    def _read(self, count: int) -> tuple[list[dict[str, Any]], str]:
        answers: list[dict[str, Any]] = []
        while len(answers) < count:
            line = self._answers.readline(_MOST_ANSWER_BYTES)
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
        with suppress(OSError):  # the process is gone, which its output tells, too
            while frames := self._frames.get():
                for part in frames:
                    pipe.write(part)
                pipe.flush()


def _cannot_read(reason: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"files are read by a child process, which cannot be started ({reason})", "Run Fourfold with `python`"
    )

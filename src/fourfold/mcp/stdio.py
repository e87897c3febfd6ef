"""MCP over stdin and stdout, which belong to the protocol alone."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from fourfold.mcp.offers import Level
from fourfold.mcp.server import build

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from fourfold.config import Settings

_ESCAPES = re.compile(rb"\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)", re.DOTALL)


def serve_stdio(settings: Callable[[], Settings], level: Level) -> None:
    """Until stdin is closed. Threads that are still at work are not waited for."""
    give_back = _reserve()
    server, _ = build(settings, level, started=give_back)
    server.run("stdio")
    os._exit(0)


def _reserve() -> Callable[[], None]:
    """The protocol gets both streams for itself, to the end of the process; whatever else is printed goes to stderr.

    (The SDK diverts them too, but gives them back before the last threads are gone.) It takes what it serves from
    `sys`: what this returns puts the ordinary ones back there.
    """
    ordinary = sys.stdin, sys.stdout
    asked, said = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.dup2(2, 1)
    except OSError:  # there is no stderr
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdin, sys.stdout = cast("Any", SimpleNamespace(buffer=io.BufferedReader(Lines(asked)))), said

    def give_back() -> None:
        sys.stdin, sys.stdout = ordinary
        said.detach()  # its bytes belong to the transport now

    return give_back


class Lines(io.RawIOBase):
    """Lines of JSON, readable for everyone: JavaScript writes half an emoji as a lone surrogate, which is no Unicode;
    such a line would be dropped, and who sent it would wait for ever."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        self._rest = self._rest or repaired(self._source.readline())
        part = self._rest[: len(view)]
        view[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)


def repaired(line: bytes) -> bytes:
    """With the replacement character where an escape is half a character."""
    return _ESCAPES.sub(_whole, line) if b"\\ud" in line or b"\\uD" in line else line


def _whole(escape: re.Match[bytes]) -> bytes:
    lone = len(escape[1]) == len("ud800")
    return rb"\ufffd" if lone else escape[0]

"""MCP over stdin and stdout, which belong to the protocol alone."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from fourfold.serve.mcp.offers import Level
from fourfold.serve.mcp.server import build

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from fourfold.config import Settings

_ESCAPES = re.compile(rb"\\(u[dD][89abAB]..\\u[dD][c-fC-F]..|u[dD][89a-fA-F]..|.)", re.DOTALL)


def serve_stdio(settings: Callable[[], Settings], level: Level) -> None:
    """Serves until stdin is closed, and does not wait for threads that are still running."""
    give_back = _reserve()
    server, _ = build(settings, level, started=give_back)
    server.run("stdio")
    os._exit(0)


def _reserve() -> Callable[[], None]:
    """Reserves both streams for the protocol until the process ends; anything else that is printed goes to stderr.

    The SDK diverts them too, but restores them before the last threads have ended. It takes the streams from `sys`; the
    returned function restores the ordinary ones there.
    """
    ordinary = sys.stdin, sys.stdout
    asked, said = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.dup2(2, 1)
    except OSError:  # without a stderr
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdin, sys.stdout = cast("Any", SimpleNamespace(buffer=io.BufferedReader(Lines(asked)))), said

    def give_back() -> None:
        sys.stdin, sys.stdout = ordinary
        said.detach()  # the transport owns its bytes now

    return give_back


class Lines(io.RawIOBase):
    """Repairs lines of JSON: JavaScript writes half an emoji as a lone surrogate, which is not valid Unicode.

    Such a line would be dropped, and its sender would never get an answer.
    """

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
    """Replaces escapes of half a character by the replacement character."""
    return _ESCAPES.sub(_whole, line) if b"\\ud" in line or b"\\uD" in line else line


def _whole(escape: re.Match[bytes]) -> bytes:
    lone = len(escape[1]) == len("ud800")
    return rb"\ufffd" if lone else escape[0]

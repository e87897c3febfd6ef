"""MCP over stdin and stdout, which belong to the protocol alone."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from mcp_types import INVALID_REQUEST, PARSE_ERROR, JSONRPCNotification, jsonrpc_message_adapter

from fourfold.limits import HTTP_BODY_BYTES
from fourfold.serve.mcp.server import build
from fourfold.serve.mcp.tools import Level

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
    sys.stdin, sys.stdout = (
        cast("Any", SimpleNamespace(buffer=io.BufferedReader(Lines(asked, cast("Any", said.buffer))))),
        said,
    )

    def give_back() -> None:
        sys.stdin, sys.stdout = ordinary
        said.detach()  # the transport owns its bytes now

    return give_back


class Lines(io.RawIOBase):
    """Lines that are messages of the protocol. Any other would be dropped by the SDK, and its sender would wait: here
    it is answered with an error.

    Repairs what JavaScript writes for half an emoji, a lone surrogate, which is not valid Unicode.
    """

    def __init__(self, source: BinaryIO, answers: BinaryIO) -> None:
        self._source = source
        self._answers = answers
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        self._rest = self._rest or self._message()
        part = self._rest[: len(view)]
        view[: len(part)] = part
        self._rest = self._rest[len(part) :]
        return len(part)

    def _message(self) -> bytes:
        """The next message; nothing at the end."""
        while line := self._source.readline(HTTP_BODY_BYTES):
            if len(line) == HTTP_BODY_BYTES and not line.endswith(b"\n"):
                while (more := self._source.readline(HTTP_BODY_BYTES)) and not more.endswith(b"\n"):
                    pass
                self._refuse(None, INVALID_REQUEST, f"the line has more than {HTTP_BODY_BYTES >> 20} MiB")
            elif line.strip() and self._is_message(line := repaired(line)):
                return line
        return b""

    def _is_message(self, line: bytes) -> bool:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            message = None
        if message is None or (isinstance(message, JSONRPCNotification) and "id" in json.loads(line)):
            self._refuse_line(line)
            return False
        return True

    def _refuse_line(self, line: bytes) -> None:
        try:
            read = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, PARSE_ERROR, "the line is not JSON, or is nested too deeply")
            return
        known = cast("dict[str, Any]", read).get("id") if isinstance(read, dict) else None
        id = known if isinstance(known, int | str) and not isinstance(known, bool) else None
        self._refuse(id, INVALID_REQUEST, "the line is not a JSON-RPC message, or is nested too deeply")

    def _refuse(self, id: int | str | None, code: int, message: str) -> None:
        """Each message is one write of a buffered stream, which is atomic among threads."""
        form = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
        self._answers.write(json.dumps(form).encode() + b"\n")
        self._answers.flush()


def repaired(line: bytes) -> bytes:
    """Replaces escapes of half a character by the replacement character."""
    return _ESCAPES.sub(_whole, line) if b"\\ud" in line or b"\\uD" in line else line


def _whole(escape: re.Match[bytes]) -> bytes:
    lone = len(escape[1]) == len("ud800")
    return rb"\ufffd" if lone else escape[0]

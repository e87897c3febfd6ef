"""Logs of the command line and the servers: lines of text or JSON on stderr.

A record of Fourfold has its fields in `record.fourfold`: names and numbers, never queries or stored data. An exception
is logged with its type and traceback, but without its message, which may quote data.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, cast

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]

log = logging.getLogger("fourfold")


def configure(level: Level, form: Format) -> None:
    """Send the log of this process to stderr, from `level` on for Fourfold and from `warning` on for libraries."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Stderr)]:
        root.removeHandler(handler)
    handler = _Stderr()
    handler.setFormatter(_Json() if form == "json" else _Text())
    root.addHandler(handler)
    log.setLevel(level.upper())


def event(message: str, **fields: Any) -> None:
    """Log an event with its fields."""
    log.info(message, extra={"fourfold": fields})


def announce(message: str, **fields: Any) -> None:
    """Write a line in the configured format, whatever the level."""
    record = log.makeRecord(log.name, logging.INFO, "", 0, message, (), None, extra={"fourfold": fields})
    handlers = [each for each in logging.getLogger().handlers if isinstance(each, _Stderr)]
    for handler in handlers:
        handler.emit(record)


class _Stderr(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        return json.dumps(line, ensure_ascii=False, default=str)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_word(value)}" for name, value in _fields(record).items())
        message = record.getMessage().replace("\n", " ")
        return f"{_time(record)} {record.levelname.lower()} {record.name}: {message}{fields}"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = cast("dict[str, Any]", getattr(record, "fourfold", {}))
    if not record.exc_info or record.exc_info[1] is None:
        return extra
    error = record.exc_info[1]
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {**extra, "exception": type(error).__name__, "traceback": places}


def _word(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return json.dumps(text, ensure_ascii=False) if " " in text and isinstance(value, str) else text


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")

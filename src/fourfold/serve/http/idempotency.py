"""Idempotency-Key: a write that is sent again, also after the server was killed, is done once.

Every write of the API can be repeated without harm: items are identified by key or text, edges by their ends, changes
and deletions end in the same state (a deletion that finds nothing after an interrupted attempt is answered as done).
The exception is a raw record, which carries the key of its request in its metadata
(`idempotency_key`); if the first attempt was interrupted, that record is looked up before the request is repeated.

So this table only has to know, durably, that a request began, and what was answered. It is a SQLite file; the rows that
survive are bounded in number and age. Long answers are not kept: the request is carried out again.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fourfold import owner_only
from fourfold.config import Settings
from fourfold.serve.guard import token_of
from fourfold.serve.http.own_files import own_path
from fourfold.serve.http.problems import HttpError
from fourfold.text.secrets import masked_json, masks_in
from fourfold.wire import dumps

KEY_HEADER: Final = "idempotency-key"
KEPT_ROWS: Final = 10_000
KEPT_SECONDS: Final = 24 * 3600.0
KEPT_ANSWER_BYTES: Final = 64 * 1024
KEY_CHARACTERS: Final = 255
_LOCK_SECONDS: Final = 10
_FILE: Final = "requests.db"
_HEADERS: Final = ("etag", "location")
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY AUTOINCREMENT, caller TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL,
    begun REAL NOT NULL, status INTEGER, headers TEXT, media TEXT, body BLOB, UNIQUE (caller, key)
)
"""


class Requests:
    """The table of keyed requests. It is opened with the first of them."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._lock = Lock()
        self._running: set[tuple[str, str]] = set()
        self._db: sqlite3.Connection | None = None

    async def once(
        self, request: Request, key: str, digest: bytes, carry_out: Callable[[datetime | None], Awaitable[Response]]
    ) -> Response:
        """The recorded answer to the request with this key, or what `carry_out` answers, which is then recorded.

        `digest`: of the body. `carry_out` gets the time of an interrupted attempt.
        """
        if not 0 < len(key) <= KEY_CHARACTERS or not key.isascii() or not key.isprintable():
            raise HttpError(400, "the Idempotency-Key is not valid", f"Send 1 to {KEY_CHARACTERS} ASCII characters")
        caller = sha256((token_of(request.headers) or "").encode()).hexdigest()
        parts = (request.method, request.url.path, request.url.query, request.headers.get("if-match", ""))
        fingerprint = sha256("\0".join(parts).encode() + b"\0" + digest).hexdigest()
        if (caller, key) in self._running:
            raise HttpError(409, "a request with this key is running", "Wait for its answer", {"retry-after": "1"})
        self._running.add((caller, key))
        try:
            known, begun = await asyncio.to_thread(self._begin, caller, key, fingerprint)
            if known is not None:
                return known
            response = await carry_out(begun)
            if response.status_code < 500:
                await asyncio.to_thread(self._record, caller, key, response)
            return response
        finally:
            self._running.discard((caller, key))

    def _begin(self, caller: str, key: str, fingerprint: str) -> tuple[Response | None, datetime | None]:
        """The recorded answer, or None; and the time of an interrupted attempt, or None."""
        with self._lock, self._opened() as db:
            sql = "SELECT fingerprint, begun, status, headers, media, body FROM requests WHERE caller = ? AND key = ?"
            row = db.execute(sql, (caller, key)).fetchone()
            if row is None:
                insert = "INSERT INTO requests (caller, key, fingerprint, begun) VALUES (?, ?, ?, ?)"
                last = db.execute(insert, (caller, key, fingerprint, time.time())).lastrowid or 0
                old = (last - KEPT_ROWS, time.time() - KEPT_SECONDS)
                db.execute("DELETE FROM requests WHERE number <= ? OR begun < ?", old)
                return None, None
        if row[0] != fingerprint:
            raise HttpError(422, "this key was used for another request", "Use a new Idempotency-Key for each request")
        if row[2] is None:
            return None, datetime.fromtimestamp(row[1], UTC)
        return Response(row[5], row[2], {**json.loads(row[3]), "idempotent-replayed": "true"}, row[4]), None

    def _record(self, caller: str, key: str, response: Response) -> None:
        if len(response.body) > KEPT_ANSWER_BYTES:
            return
        headers = {name: response.headers[name] for name in _HEADERS if name in response.headers}
        values = (response.status_code, json.dumps(headers), response.media_type, bytes(response.body), caller, key)
        with self._lock, self._opened() as db:
            db.execute(
                "UPDATE requests SET status = ?, headers = ?, media = ?, body = ? WHERE caller = ? AND key = ?", values
            )

    def _opened(self) -> sqlite3.Connection:
        """Opens the file. A killed process loses nothing; a crash of the machine may lose the last keys."""
        if self._db is None:
            file = self._folder() / _FILE
            owner_only.create_file(file)
            self._db = sqlite3.connect(file, timeout=_LOCK_SECONDS, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute(_SCHEMA)
        return self._db

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None


# ---------------------------------------------------------------- upkeep, also while a server runs


def scan(settings: Settings, *, mask: bool) -> list[str]:
    """One line for each secret in a recorded answer. `mask`: masks them in every byte; lists what was done."""
    lines: list[str] = []
    with _recorded(settings, rewrite=mask) as db:
        for number, body in db.execute("SELECT number, body FROM requests WHERE length(body) > 0").fetchall():
            before = json.loads(body)
            hidden = masked_json(before)
            if hidden == before:
                continue
            found = [f"http: answer {number} to a keyed request: {kind}" for kind in masks_in(dumps(hidden))]
            lines += [f"masked: {line}" for line in found] if mask else found
            if mask:
                db.execute("UPDATE requests SET body = ? WHERE number = ?", (dumps(hidden).encode(), number))
    return lines


def purge(settings: Settings) -> list[str]:
    """Removes every recorded answer, which may hold texts that were forgotten; a repeated request is carried out."""
    with _recorded(settings, rewrite=True) as db:
        sql = "UPDATE requests SET status = NULL, headers = NULL, media = NULL, body = NULL WHERE status IS NOT NULL"
        removed = db.execute(sql).rowcount
    return [f"removed {removed} recorded answers to keyed requests"] if removed > 0 else []


@contextmanager
def _recorded(settings: Settings, *, rewrite: bool) -> Generator[sqlite3.Connection]:
    """The table, if there is one, in a transaction. `rewrite`: leaves no byte of what was changed or deleted."""
    file = own_path(settings) / _FILE
    place = file if file.is_file() else ":memory:"
    with closing(sqlite3.connect(place, timeout=_LOCK_SECONDS)) as db:
        db.execute(_SCHEMA)
        with db:
            yield db
        if rewrite:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

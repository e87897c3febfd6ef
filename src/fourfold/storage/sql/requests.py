"""The table of keyed requests that were carried out. Every method runs inside a transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from fourfold.storage.codec import micros
from fourfold.storage.sql.dialect import Db

KEPT: Final = timedelta(days=1)


class CarriedOut:
    """`ns`: None while the namespace does not exist; then nothing was carried out in it."""

    def __init__(self, db: Db, ns: int | None) -> None:
        self._db = db
        self._ns = ns

    def find(self, name: bytes) -> tuple[bytes, list[int]] | None:
        sql = "SELECT fingerprint, outcome FROM requests WHERE ns = ? AND name = ?"
        for fingerprint, outcome in [] if self._ns is None else self._db.rows(sql, self._ns, name):
            return bytes(fingerprint), json.loads(outcome)
        return None

    def record(self, name: bytes, fingerprint: bytes, outcome: Sequence[int], now: datetime) -> None:
        if self._ns is None:
            return
        self._db.run("DELETE FROM requests WHERE ns = ? AND done_at < ?", self._ns, micros(now - KEPT))
        row = (self._ns, name, fingerprint, json.dumps(list(outcome)), micros(now))
        self._db.run("INSERT INTO requests (ns, name, fingerprint, outcome, done_at) VALUES (?, ?, ?, ?, ?)", *row)

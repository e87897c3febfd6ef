"""A namespace in one snapshot of the database: what every part of a search asks first, read once."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Self

import apsw

from fourfold.model import Ranking
from fourfold.stores.base import Size, Space
from fourfold.stores.sqlite import spaces

_SQL = (
    "SELECT name, id, items, vectors, fingerprint, dimension, (SELECT max(seq) FROM changes WHERE ns = namespaces.id), "
    "EXISTS (SELECT 1 FROM files WHERE ns = namespaces.id) FROM namespaces WHERE "
)
_BY_NAME, _BY_NUMBER = f"{_SQL}name = ?", f"{_SQL}id = ?"


@dataclass
class Moment:
    """Only inside the transaction of `db`."""

    db: apsw.Connection
    namespace: str
    ns: int
    size: Size
    space: Space | None
    last: int
    """The last change."""
    has_files: bool
    ahead: Future[Ranking] | None = None
    """What is nearest to the vector of the query, being looked for."""

    @classmethod
    def read(cls, db: apsw.Connection, namespace: str | int) -> Self | None:
        """By name or number; None where there is no such namespace."""
        row = db.execute(_BY_NAME if isinstance(namespace, str) else _BY_NUMBER, (namespace,)).fetchone()
        if row is None:
            return None
        name, ns, items, vectors, fingerprint, dimension, last, has_files = row
        space = None if fingerprint is None else Space(fingerprint, dimension)
        return cls(db, name, ns, Size(items, vectors), space, last or 0, bool(has_files))

    @property
    def languages(self) -> Mapping[str, int]:
        """With the number of their items, the commonest first."""
        return spaces.languages(self.db, self.ns)

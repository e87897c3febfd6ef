"""Export and import of a SQLite store: what differs from `storage.sql.portable`."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from fourfold.errors import RequestError, StoreReplaced
from fourfold.index.source import Change
from fourfold.storage import records as formats
from fourfold.storage.codec import optional_micros
from fourfold.storage.parts import unpacked
from fourfold.storage.sql import portable
from fourfold.storage.sql.portable import NamespaceRow, SqlPortable
from fourfold.storage.sqlite import changes, items, spaces, vectors, versions
from fourfold.storage.sqlite import folder as folders
from fourfold.storage.sqlite.connection import Connection
from fourfold.storage.sqlite.database import Database
from fourfold.storage.sqlite.links import SqliteLinkRows
from fourfold.storage.values import Record
from fourfold.text.entities import links, normal_name


def records(db: Connection, namespace: str | None = None) -> Iterator[Record]:
    """All records, or those of one namespace, in an order that depends on the content alone."""
    return portable.records(db, namespace, _items)


def _items(db: Connection, ns: NamespaceRow, page: Sequence[int]) -> Iterator[Record]:
    sql = f"SELECT id, linked, vector, spans FROM items LEFT JOIN vectors ON item = id WHERE id {db.any_id}"  # noqa: S608  (constants)
    stored = {item: row for item, *row in db.rows(sql, db.ids(page))}
    known = items.get(db, ns.name, ns.id, page)
    for item in page:
        linked, vector, spans = stored[item]
        yield formats.item_record(known[item], linked=bool(linked), vector=vector, spans=unpacked(spans))


class SqlitePortable(SqlPortable[Connection]):
    def __init__(
        self, folder: Path, database: Database, writing: threading.Lock, catch_up: Callable[[int], None]
    ) -> None:
        """`catch_up`: completes the links of a namespace (by its number), which an export contains."""
        super().__init__(writing)
        self._folder = folder
        self._db = database
        self._catch_up = catch_up

    def export(self, write: Callable[[Record], None], *, namespace: str | None = None) -> None:
        with self._db.read() as db:
            namespaces = db.rows("SELECT id, name FROM namespaces ORDER BY name")
        for ns, name in namespaces:
            if namespace in (None, name):
                self._catch_up(ns)
        with self._db.read() as db:
            for record in records(db, namespace):
                write(record)

    def writing(self) -> AbstractContextManager[Connection]:
        return self._db.write()

    def _loader(self, tx: Connection, namespace: str) -> _Loader:
        return _Loader(tx, namespace)

    def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        """Deletes the files of the store while no other process can write to it.

        Processes that have it open get a StoreReplaced with their next call: nothing is confirmed and lost.
        """
        with self._turn, suppress(StoreReplaced), self._db.write() as db:
            if not is_copied(records(db)):
                raise RequestError("the store changed after it was copied", "Nothing was removed. Repeat the command")
            for file in (*self._folder.glob(f"{folders.DATABASE}*"), *folders.old_copies(self._folder)):
                file.unlink(missing_ok=True)
        shutil.rmtree(self._folder / folders.INDEX, ignore_errors=True)
        with suppress(OSError):
            self._folder.rmdir()


class _Loader:
    def __init__(self, db: Connection, namespace: str) -> None:
        self._db = db
        self.id = spaces.ensure(db, namespace)

    def load_space(self, fingerprint: str | None, dimension: int | None) -> None:
        sql = "UPDATE namespaces SET fingerprint = ?, dimension = ? WHERE id = ?"
        self._db.run(sql, fingerprint, dimension, self.id)

    def load_items(self, part: Sequence[Record]) -> None:
        changed: list[tuple[int, Change]] = []
        pointed: dict[int, set[str]] = {}
        for record in part:
            item, made = record["id"], formats.vector(record)
            updated = formats.moment(record["updated_at"])
            items.insert(self._db, self.id, formats.new_item(record), updated, item_id=item)
            if place := formats.version_fields(record):
                times = (optional_micros(place.get(name)) for name in ("valid_from", "superseded_at"))
                versions.restore(self._db, item, (*times, place.get("supersedes"), place.get("version_of")))
            items.set_linked(self._db, [item], record["linked"])
            if record["linked"]:
                pointed[item] = {normal_name(name) for name in links(record["text"])}
            if made is not None:
                vectors.put(self._db, self.id, item, made)
            changed.append((item, Change.TEXT if made is None else Change.TEXT | Change.VECTOR))
        self._db.run("UPDATE namespaces SET items = items + ? WHERE id = ?", len(part), self.id)
        SqliteLinkRows(self._db, self.id).set_pointers(pointed, [])
        changes.log(self._db, self.id, changed)

    def finish(self) -> None:
        self._db.run("UPDATE namespaces SET names = names + 1 WHERE id = ?", self.id)
        changes.log(self._db, self.id, [(0, Change.LABELS)])  # nodes, edges and mentions

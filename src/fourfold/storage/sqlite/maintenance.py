"""The folder of an embedded store: checks, repairs, leases, publication, copies and backups.

A check compares the file, its counters, its queue and its indexes with the rows. A repair rebuilds counters, the queue
and indexes from the rows, and removes every trace of forgotten items.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import numpy as np

from fourfold import owner_only, scheduling
from fourfold.errors import DamagedStore, ReadOnlyStore, RequestError, StoreBusy, StoreNotFound, StoreUnavailable
from fourfold.index import segment_files, text_index
from fourfold.index.log_tail import Change
from fourfold.index.segment_files import Damaged, sync_folder
from fourfold.index.text_index import ItemTerms, TextState, item_terms
from fourfold.index.vector_index import VectorState
from fourfold.limits import LEASE_SECONDS, VECTOR_DIMENSIONS
from fourfold.model import Json
from fourfold.storage.sql.dialect import pages
from fourfold.storage.sql.namespaces import SHARED_COUNTERS, Counted, check_counters, namespace_status, queues, recount
from fourfold.storage.sql.portable import export_records
from fourfold.storage.sqlite import checksums, namespaces, schema
from fourfold.storage.sqlite.database import HOW_TO_RESTORE, Connection, Database, deadline_in, translated
from fourfold.storage.sqlite.indexes import Indexes
from fourfold.storage.sqlite.publishing import NoChildProcess, Publisher, link_in_child
from fourfold.storage.sqlite.schema import copy_to
from fourfold.storage.values import HOW_TO_CREATE

if TYPE_CHECKING:
    from fourfold.storage.sqlite.store import SqliteStore

# ---------------------------------------------------------------- the folder


DATABASE = "fourfold.db"
INDEX = "index"
RESTORING = "restoring.db"
"""What an interrupted restore leaves."""
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}


def require_store(folder: Path) -> None:
    """StoreNotFound unless the folder holds a store. Creates nothing."""
    if not (folder / DATABASE).exists():
        raise StoreNotFound(f"no store in {folder}", HOW_TO_CREATE)


def prepare_folder(folder: Path) -> None:
    """Makes the folder, for its owner only, and refuses places where SQLite cannot keep its promises."""
    try:
        owner_only.make_folder(folder)
    except PermissionError as error:
        raise ReadOnlyStore(f"{folder} cannot be made ({error.strerror})", "Choose another folder: --store") from error
    except OSError as error:
        raise StoreUnavailable(f"{folder} cannot hold a store ({error.strerror})", "Choose another: --store") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ReadOnlyStore(f"{folder} cannot be written", "Change its permissions, or choose another folder: --store")
    if owner_only.is_loose(folder / INDEX):  # such as a copy that another program made
        owner_only.tighten_all(folder / INDEX)
    kind = file_system(folder)
    if kind in _NETWORK:
        raise StoreUnavailable(
            f"{folder} is on a network file system ({kind}), where file locks cannot be trusted",
            "Choose a local folder, or share a store on PostgreSQL",
        )


def require_content(folder: Path, database: Database) -> None:
    """DamagedStore if nothing was ever stored in the database, but indexes of a store lie beside it."""
    with database.read() as db:
        content = db.value("SELECT 1 FROM namespaces LIMIT 1")
    if content is None and any((folder / INDEX).glob("*/*/manifest.json")):
        raise DamagedStore(
            f"{folder / DATABASE} is empty, but {folder / INDEX} has indexes of what was stored in it",
            "Restore a backup into a new folder: fourfold --store FOLDER restore FILE; or remove index and start over",
        )


def old_copies(folder: Path) -> list[Path]:
    """Copies of the database that a migration or an interrupted restore left."""
    return [*folder.glob("before-schema-*.db*"), *folder.glob(f"{RESTORING}*")]


def file_system(folder: Path) -> str | None:
    """The type of the file system, where the system tells (Linux)."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return None
    best, kind = "", None
    for line in mounts.read_text("utf-8", "replace").splitlines():
        point, type_name = line.split(" ")[1:3]
        point = point.replace("\\040", " ")
        inside = str(folder.resolve()).startswith(point.rstrip("/") + "/") or point == "/"
        if inside and len(point) >= len(best):
            best, kind = point, type_name
    return kind


def store_identity(database: Database) -> str:
    """A name that no other store has: an index that carries another one is not ours."""
    with database.read() as db:
        identity = db.value("SELECT value FROM settings WHERE name = 'store'")
    if identity is not None:
        return identity
    with database.write() as db:
        db.run("INSERT OR IGNORE INTO settings VALUES ('store', ?)", uuid.uuid4().hex)
        return db.value("SELECT value FROM settings WHERE name = 'store'")


# ---------------------------------------------------------------- contents and copies


_COUNTED_CHANGES = 1_000_000


def store_status(db: Connection, folder: Path, unpublished: Callable[[Connection, int, int], int]) -> dict[str, Json]:
    facts = {
        ns.name: {
            **namespace_status(db, ns, namespaces.namespace_languages(db, ns.id)),
            "unpublished_changes": unpublished(db, ns.id, _COUNTED_CHANGES),
        }
        for ns in namespaces.all_namespaces(db)
    }
    return {
        "store": str(folder),
        "schema": schema.VERSION,
        "database_bytes": _bytes(folder.glob("fourfold.db*")),
        "index_bytes": _bytes((folder / "index").rglob("*")),
        "namespaces": facts,
    }


def _bytes(paths: Iterable[Path]) -> int:
    """On disk: a file that two generations share counts once."""
    sizes = {(entry.st_ino, entry.st_size) for entry in (path.lstat() for path in paths)}
    return sum(size for _, size in sizes)


def restore(source: Path, folder: Path) -> None:
    """Puts a backup into a folder that has no store yet."""
    with translated(source):
        if not source.exists():
            raise RequestError(f"no backup {source}", "Name a file that `fourfold backup` wrote")
    prepare_folder(folder)
    target = folder / DATABASE
    if target.exists():
        raise RequestError(f"{folder} holds a store already", "Restore into another folder, or move this one away")
    aside = folder / RESTORING
    with translated(source):
        origin = Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            if origin.value("PRAGMA integrity_check") != "ok" or not origin.table_exists(None, "items"):
                raise DamagedStore(f"{source} is not an intact backup of a store", "Try an older backup")
            copy_to(origin, aside)
        finally:
            origin.close()
    with translated(aside):
        copy = apsw.Connection(str(aside))
        try:
            copy.execute("DELETE FROM settings WHERE name = 'store'")  # a store of its own: no index here is of it
        finally:
            copy.close()
        aside.replace(target)
        sync_folder(folder)


# ---------------------------------------------------------------- checks


_CHUNK = 2000

COUNTERS: tuple[Counted, ...] = (
    *SHARED_COUNTERS,
    ("namespaces", "vectors", "SELECT count(*) FROM vectors JOIN items ON items.id = item WHERE ns = namespaces.id"),
    (
        "namespaces",
        "windows",
        "SELECT coalesce(sum(length(spans) / 8 - 1), 0) FROM vectors JOIN items ON items.id = item "
        "WHERE ns = namespaces.id",
    ),
    ("tags", "uses", "SELECT count(*) FROM item_tags WHERE tag = tags.id"),
    ("nodes", "mentioned", "SELECT count(*) FROM mentions WHERE node = nodes.id"),
)
MISSHAPEN = (
    "SELECT item FROM vectors JOIN items ON items.id = item JOIN namespaces ON namespaces.id = ns "
    "WHERE dimension IS NULL OR length(vector) <> dimension * 4 * coalesce(length(spans) / 8, 1)"
)


def check_store(database: Database, indexes: Indexes) -> list[str]:
    """Problems, a line each."""
    with database.read() as db:
        problems = [f"database: {line}" for line in broken(db)]
        if problems:  # what is read from such a file says nothing
            return problems
        problems += sorted(
            {f"{table}: a row refers to a missing row" for table, *_ in db.rows("PRAGMA foreign_key_check")}
        )
        # orphans may be unreadable as records
        records = () if problems else export_records(db, None, namespaces.stored_vectors)
        problems += check_counters(db, COUNTERS, MISSHAPEN, records)
        spaces = [(ns.id, ns.name, ns.space) for ns in namespaces.all_namespaces(db)]
    for ns, name, space in spaces:
        if space is not None and not 0 < space.dimension <= VECTOR_DIMENSIONS:
            continue  # named above; there can be no index of such vectors
        published = indexes.published(ns, space)  # before the rows are read: files may be older than they, never newer
        with database.read() as db:
            # otherwise another process has just begun to renew all vectors
            if namespaces.read_namespace(db, ns).space == space:
                rows = namespaces.SourceRows(db, ns)
                states = indexes.caught_up(ns, space, rows, published)
                try:
                    problems += [f"namespace {name}: {problem}" for problem in _drift(rows, *states)]
                except Damaged as error:
                    problems.append(f"namespace {name}: its index was damaged while it was read ({error})")
    return problems


def broken(db: Connection) -> list[str]:
    try:
        problems = [line for (line,) in db.rows("PRAGMA integrity_check") if line != "ok"]
    except (apsw.CorruptError, UnicodeDecodeError) as error:  # too broken even to be looked through
        return [str(error)]
    except apsw.IOError as error:
        if not checksums.is_mismatch(error):
            raise
        return checksums.changed_rows(db)
    if any(checksums.MISMATCH in line for line in problems):
        return checksums.changed_rows(db)
    return problems or sorted({f"{table}: a {column} is not UTF-8" for table, column, _ in _undecodable(db)})


def _undecodable(db: Connection) -> Iterator[tuple[str, str, bytes]]:
    """Table, column and bytes of each text that is not UTF-8."""
    sql = (
        "SELECT of.name, columns.name FROM pragma_table_list AS of, pragma_table_info(of.name) AS columns "
        "WHERE of.schema = 'main' AND of.type = 'table' AND columns.type = 'TEXT' AND of.name NOT LIKE 'sqlite_%'"
    )
    for table, column in db.rows(sql):
        content = f"SELECT CAST({column} AS BLOB) FROM {table} WHERE typeof({column}) = 'text'"  # noqa: S608  (names from the schema)
        for (each,) in db.stream(content):
            try:
                each.decode()
            except UnicodeDecodeError:
                yield table, column, each


def _drift(rows: namespaces.SourceRows, texts: TextState, nearness: VectorState | None) -> Iterator[str]:
    """Where indexes differ from the rows."""
    for name, state in (("keyword", texts), ("vector", nearness)):
        if state is not None and state.segment.damage:
            yield f"its {name} index is damaged ({state.segment.damage})"
    stored = rows.all_ids()
    german: Counter[str] = Counter()
    wrong = sum(
        _wrong_texts(german, texts, item)
        for part in pages(stored, _CHUNK)
        for item in item_terms(list(rows.texts(part)))
    )
    yield from _differing("keyword", texts, stored, wrong)
    yield from _wrong_words(texts, german)
    if nearness is not None:
        sql = "SELECT item FROM vectors JOIN items ON id = item WHERE ns = ? ORDER BY item"
        embedded = rows.db.column(sql, rows.ns)
        wrong = sum(_wrong_vectors(rows, nearness, part) for part in pages(embedded, _CHUNK))
        yield from _differing("vector", nearness, embedded, wrong)


def _differing(name: str, state: TextState | VectorState, stored: Sequence[int], wrong: int) -> Iterator[str]:
    indexed = {int(item) for part in (state.published, state.tail) for item in part.ids[part.live]}
    missing, surplus = len(set(stored) - indexed), len(indexed.difference(stored))
    if missing or surplus:
        yield f"its {name} index lacks {missing} items and has {surplus} too many"
    if wrong:
        yield f"its {name} index has wrong contents for {wrong} items"


def _wrong_texts(german: Counter[str], state: TextState, item: ItemTerms) -> bool:
    """Whether the columns have other terms for an item, or another language. Counts the items with each German term."""
    is_german, wrong = item.language == "de", False
    german.update(set(item.german_terms))
    for documents in (state.published, state.tail):
        for row in documents.find(np.array([item.id], np.int64)).tolist():
            end = documents.ends[row]
            wrong |= not np.array_equal(documents.terms[end - documents.lengths[row] : end], item.hashes)
            if documents is state.published:
                wrong |= bool(state.segment.is_german[row]) != is_german
    return wrong


def _wrong_words(state: TextState, german: Counter[str]) -> Iterator[str]:
    """Problems by which words would not be found: postings of other terms than the rows have, or other German words."""
    texts = state.published
    if texts.postings is not None and not text_index.postings_agree(texts.postings, texts.terms, texts.ends):
        yield "its keyword index has postings of other terms than its rows"
    counted = Counter(state.segment.german) - Counter(state.segment.german_losses(state.died))
    counted.update(term for terms in state.german.values() for term in set(terms))
    if counted != german:
        yield "its keyword index has other German words than the texts"


def _wrong_vectors(rows: namespaces.SourceRows, state: VectorState, ids: Sequence[int]) -> int:
    """Items of which an index holds other vectors than the rows, or another number of them."""
    stored, matrix = rows.vectors(ids, state.tail.dimension)
    items = np.unique(stored)
    parts = [(part, part.find(items)) for part in (state.published, state.tail)]
    held = np.concatenate([part.ids[places] for part, places in parts])
    order = np.argsort(held, kind="stable")
    held, content = held[order], np.concatenate([part.matrix[places] for part, places in parts])[order]
    counts = np.searchsorted(held, items, "right") - np.searchsorted(held, items)
    expected = np.searchsorted(stored, items, "right") - np.searchsorted(stored, items)
    same = items[counts == expected]
    differ = (content[np.isin(held, same)] != matrix[np.isin(stored, same)]).any(axis=1)
    miscounted = int(((counts != expected) & (counts > 0)).sum())  # an item without any is reported as missing
    return miscounted + len(np.unique(stored[np.isin(stored, same)][differ]))


_RETRY_SECONDS = 0.2


def repair_rows(database: Database, publisher: Publisher, *, purge: bool = False) -> list[str]:
    """Rebuilds from the rows, and lists what was wrong. `purge`: also removes older index files."""
    done = _mend_file(database)
    with database.write() as db:
        done += _without_orphans(db)
        done += recount(db, COUNTERS, MISSHAPEN, namespaces.flawed_windows(db))
        everyone = db.rows("SELECT id, name FROM namespaces")
        for ns, _ in everyone:  # two entries, and none before them: every process has to open the indexes again
            rows = namespaces.SourceRows(db, ns)
            db.run(namespaces.LOG, ns, 0, Change.LABELS.value)
            last = rows.last_change
            db.run(namespaces.LOG, ns, 0, Change.LABELS.value)
            rows.prune(last)
    for ns, name in everyone:
        _publish(publisher, ns, purge=purge)
        done.append(f"namespace {name}: indexes rebuilt")
    return done


def _mend_file(database: Database) -> list[str]:
    """Rebuilds the indexes of the database itself, and keeps changed bytes; broken rows need a backup."""
    with database.read() as db:
        problems = broken(db)
    if not problems:
        return []
    with database.write() as db, checksums.unverified(db):
        with suppress(apsw.Error):
            db.execute("REINDEX")
            for table, column, content in list(_undecodable(db)):
                row = f"typeof({column}) = 'text' AND CAST({column} AS BLOB) = ?"
                sql = f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {row}"  # noqa: S608  (names from the schema)
                db.run(sql, content.decode("utf-8", "replace"), content)
        if left := broken(db):
            raise DamagedStore(f"the database itself is damaged: {left[0]}", HOW_TO_RESTORE)
    database.rewrite()
    return [f"repaired: {line}" for line in problems]


def _without_orphans(db: Connection) -> list[str]:
    """Removes rows that refer to missing rows; rows that lost their namespace get one."""
    lost = {table for table, *_ in db.rows("PRAGMA foreign_key_check")}
    for table in ("items", "raw", "nodes", "tags"):
        db.execute(
            f"INSERT INTO namespaces (id, name) SELECT DISTINCT ns, 'recovered-' || ns FROM {table} "  # noqa: S608  (our own clauses)
            "WHERE ns NOT IN (SELECT id FROM namespaces)"
        )
    for _ in range(len(lost) + 1):  # what goes may leave others behind
        for table, _, parent, _ in db.rows("PRAGMA foreign_key_check"):
            for _, _, target, column, *_ in db.rows(f"PRAGMA foreign_key_list({table})"):
                if target == parent:
                    db.execute(f"DELETE FROM {table} WHERE {column} NOT IN (SELECT id FROM {parent})")  # noqa: S608  (our own clauses)
    return [f"repaired: {table} had rows that refer to missing rows" for table in sorted(lost)]


def _publish(publisher: Publisher, ns: int, *, purge: bool) -> None:
    """Rebuilds the indexes from the rows; waits while another process publishes or embeds."""
    deadline = time.monotonic() + LEASE_SECONDS
    while True:
        if publisher.publish(ns, rebuild=True, purge=purge):
            return
        if time.monotonic() > deadline:
            raise StoreBusy(
                "another process has been working on the indexes for too long", "Close other clients, and repair again"
            )
        time.sleep(_RETRY_SECONDS)


def purge_files(database: Database, folder: Path) -> list[str]:
    """After a repair: nothing that was forgotten is left in any file of the store. Backups elsewhere stay."""
    with database.write() as db:
        db.execute("DELETE FROM tags WHERE uses = 0")
    database.vacuum()
    copies = old_copies(folder)
    for path in copies:
        path.unlink()
    segment_files.sync_folder(folder)
    removed = [f"removed {path.name}, which held what was stored then" for path in copies]
    return ["forgotten text removed from the database, its log and the indexes", *removed]


class SqliteMaintenance:
    def __init__(self, store: SqliteStore) -> None:
        self.pace = store.tuning.pace
        self._store = store
        self._db = store.database
        self._publisher = store.indexes.publisher

    def queues(self, replaced: Sequence[str] = ()) -> list[str]:
        with self._db.read(deadline_in()) as db:
            return queues(db, replaced)

    @contextmanager
    def lease(self, namespace: str | None) -> Generator[bool]:
        ns = None if namespace is None else self._number(namespace)
        if namespace is not None and ns is None:
            yield True
            return
        with ExitStack() as held:
            try:
                lease = self._publisher.worker_lease if ns is None else self._publisher.lease(ns)
                mine = held.enter_context(lease.held())
            except OSError:  # the lock file cannot be written: better to work twice than not at all
                mine = True
            yield mine

    def publish(self, namespace: str, *, everything: bool = False, amid_writes: bool = False) -> bool:
        ns = self._number(namespace)
        if ns is None:
            return True
        if amid_writes and self._publisher.is_loading(ns):
            return False
        self.catch_up(ns)
        with self._publisher.turn():
            return self._publisher.publish_if_due(ns, everything=everything)

    def catch_up(self, ns: int) -> None:
        """Links older items to names whose announcement was postponed."""
        with self._db.read() as db:
            if not namespaces.is_behind(db, ns):
                return
            takes_long = namespaces.is_long(db, ns, self._store.tuning.child_at_changes)
        with self._publisher.turn():
            if takes_long:
                with suppress(NoChildProcess):  # then this process does it
                    link_in_child(self._db.path, ns)
                    return
            namespaces.catch_up(self._db, ns, self._store.may_mention)

    def check(self) -> list[str]:
        with scheduling.in_bulk():
            return check_store(self._db, self._store.indexes)

    def repair(self, *, purge: bool = False) -> list[str]:
        with self._publisher.turn():
            done = repair_rows(self._db, self._publisher, purge=purge)
        if purge:
            with self._publisher.turn():
                done += purge_files(self._db, self._store.folder)
        return done

    def backup(self, target: Path) -> None:
        """Indexes are rebuilt from the copy."""
        if target.exists():
            raise RequestError(f"{target} exists", "Choose another name; a backup never replaces a file")
        with self._db.read() as db, translated(target):
            copy_to(db, target)

    def _number(self, namespace: str) -> int | None:
        with self._db.read(deadline_in()) as db:
            return namespaces.find_namespace(db, namespace).id or None

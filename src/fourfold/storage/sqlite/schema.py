"""The tables of the embedded store, and how an older file becomes a current one."""

from __future__ import annotations

from pathlib import Path

import apsw

from fourfold import owner_only
from fourfold.errors import DamagedStore, NewerSchema
from fourfold.index.segment_files import sync_folder
from fourfold.storage.sql import schema as shared

_NAMESPACES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE namespaces (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    items INTEGER NOT NULL DEFAULT 0,
    vectors INTEGER NOT NULL DEFAULT 0,
    names INTEGER NOT NULL DEFAULT 0,       -- moves whenever a name of a node comes or goes
    fingerprint TEXT,                       -- the model whose vectors these are
    dimension INTEGER
);

"""
_TABLES = """
CREATE UNIQUE INDEX items_by_path ON items (ns, path, chunk_index) WHERE path IS NOT NULL AND key IS NULL;
CREATE TABLE tags (
    id INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL REFERENCES namespaces,
    folded TEXT NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,        -- rows of item_tags, kept by the triggers below
    UNIQUE (ns, folded)
);
CREATE TABLE item_tags (
    tag INTEGER NOT NULL REFERENCES tags,
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    name TEXT NOT NULL,                     -- as this item's author wrote it
    PRIMARY KEY (tag, item)
) WITHOUT ROWID;
CREATE INDEX item_tags_by_item ON item_tags (item);
CREATE TRIGGER tagged AFTER INSERT ON item_tags BEGIN
    UPDATE tags SET uses = uses + 1 WHERE id = NEW.tag;
END;
CREATE TRIGGER untagged AFTER DELETE ON item_tags BEGIN
    UPDATE tags SET uses = uses - 1 WHERE id = OLD.tag;
END;

CREATE TABLE vectors (item INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE waiting (                      -- the queue of items without a vector
    ns INTEGER NOT NULL,
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    PRIMARY KEY (ns, item)
) WITHOUT ROWID;
CREATE INDEX waiting_by_item ON waiting (item);

CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL REFERENCES namespaces,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    label TEXT NOT NULL,
    properties TEXT NOT NULL,
    made INTEGER NOT NULL,                  -- 1: asked for by name; 0: exists because of a title, goes with it
    holders INTEGER NOT NULL DEFAULT 0,     -- rows of node_items, mentions and edges, kept by the triggers below
    mentioned INTEGER NOT NULL DEFAULT 0,
    degree INTEGER NOT NULL DEFAULT 0,
    UNIQUE (ns, folded, label)
);
CREATE TABLE names (
    ns INTEGER NOT NULL,
    folded TEXT NOT NULL,
    node INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    alias TEXT,                             -- NULL: the node's own name
    PRIMARY KEY (ns, folded, node)
) WITHOUT ROWID;
CREATE INDEX names_by_node ON names (node);
"""
_LINKS = """
CREATE INDEX edges_by_source ON edges (source, weight);
CREATE INDEX edges_by_target ON edges (target, weight);
CREATE INDEX mentions_by_node ON mentions (node);
CREATE TRIGGER connected AFTER INSERT ON edges BEGIN
    UPDATE nodes SET degree = degree + 1 WHERE id IN (NEW.source, NEW.target);
END;
CREATE TRIGGER disconnected AFTER DELETE ON edges BEGIN
    UPDATE nodes SET degree = degree - 1 WHERE id IN (OLD.source, OLD.target);
END;
CREATE TRIGGER held AFTER INSERT ON node_items BEGIN
    UPDATE nodes SET holders = holders + 1 WHERE id = NEW.node;
END;
CREATE TRIGGER let_go AFTER DELETE ON node_items BEGIN
    UPDATE nodes SET holders = holders - 1 WHERE id = OLD.node;
END;
CREATE TRIGGER mentioned AFTER INSERT ON mentions BEGIN
    UPDATE nodes SET mentioned = mentioned + 1 WHERE id = NEW.node;
END;
CREATE TRIGGER unmentioned AFTER DELETE ON mentions BEGIN
    UPDATE nodes SET mentioned = mentioned - 1 WHERE id = OLD.node;
END;
CREATE TABLE unlinked (                     -- new nodes that have not been looked for in older items yet
    ns INTEGER NOT NULL,
    node INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    PRIMARY KEY (ns, node)
) WITHOUT ROWID;
CREATE INDEX unlinked_by_node ON unlinked (node);

CREATE TABLE changes (                      -- the ordered log that indexes follow
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    ns INTEGER NOT NULL,
    item INTEGER NOT NULL,
    what INTEGER NOT NULL                   -- see Change
);
CREATE INDEX changes_by_ns ON changes (ns, seq);
"""


_PRUNED = """
ALTER TABLE namespaces ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;    -- the log of the namespace begins after this
ALTER TABLE waiting ADD COLUMN refused TEXT;                            -- why the embedder will not have this text
"""

_CHUNKS = """
CREATE TRIGGER chunk_gone AFTER DELETE ON items WHEN OLD.path IS NOT NULL AND OLD.key IS NULL BEGIN
    DELETE FROM files WHERE ns = OLD.ns AND path = OLD.path;
END;
"""

_BLOCKS = """
CREATE TABLE id_blocks (                    -- which namespace takes its ids from which block
    block INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL UNIQUE
);
"""

_HIDDEN = """
CREATE INDEX items_by_fact ON items (ns, fact) WHERE fact IS NOT NULL;
CREATE TRIGGER hidden_came AFTER INSERT ON items
WHEN NEW.superseded_at IS NOT NULL OR NEW.expires_at IS NOT NULL BEGIN
    UPDATE namespaces SET superseded = superseded + (NEW.superseded_at IS NOT NULL),
        expiring = expiring + (NEW.expires_at IS NOT NULL) WHERE id = NEW.ns;
END;
CREATE TRIGGER hidden_went AFTER DELETE ON items
WHEN OLD.superseded_at IS NOT NULL OR OLD.expires_at IS NOT NULL BEGIN
    UPDATE namespaces SET superseded = superseded - (OLD.superseded_at IS NOT NULL),
        expiring = expiring - (OLD.expires_at IS NOT NULL) WHERE id = OLD.ns;
END;
CREATE TRIGGER hidden_changed AFTER UPDATE OF superseded_at, expires_at ON items BEGIN
    UPDATE namespaces SET
        superseded = superseded + (NEW.superseded_at IS NOT NULL) - (OLD.superseded_at IS NOT NULL),
        expiring = expiring + (NEW.expires_at IS NOT NULL) - (OLD.expires_at IS NOT NULL)
    WHERE id = NEW.ns;
END;
"""

_WINDOWS = """
ALTER TABLE vectors ADD COLUMN spans BLOB;      -- start and end of each window of the text; NULL: one vector for all
ALTER TABLE namespaces ADD COLUMN windows INTEGER NOT NULL DEFAULT 0;   -- vectors beyond the first of each item
"""

_TYPES = shared.Types(
    int="INTEGER",
    id="INTEGER",
    text="TEXT",
    key="TEXT",
    hash="BLOB",
    flag="INTEGER",
    true="1",
    real="REAL",
    first_id="INTEGER PRIMARY KEY AUTOINCREMENT",
    name_type="TEXT",
    name_column="folded",
    rowless=" WITHOUT ROWID",
)
_STEPS = (
    _NAMESPACES + _TYPES.ddl(shared.ITEMS) + _TABLES + _TYPES.ddl(shared.ROWS) + _LINKS,
    _PRUNED,
    _TYPES.ddl(shared.FILES) + _CHUNKS,
    _BLOCKS + _TYPES.ddl(shared.IDS),
    _TYPES.ddl(shared.FACTS) + _HIDDEN,
    _WINDOWS,
    _TYPES.ddl(shared.VERSIONS),
    _TYPES.ddl(shared.REQUESTS),
    "",  # new files have checksums, which older versions would not update
    shared.RAW_SESSIONS,
    _TYPES.ddl(shared.SYNCED),
    _TYPES.ddl(shared.RECEIPTS),
)
"""_STEPS[n] turns schema n into n + 1."""
VERSION = len(_STEPS)


def version(db: apsw.Connection) -> int:
    return int(db.pragma("user_version"))


def migrate(db: apsw.Connection, path: Path) -> None:
    """Brings the file to VERSION in one transaction, after a backup; does nothing when it is there already."""
    _require_ours(db, path)
    if known_version(db) == VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = known_version(db)  # another process may have been quicker
        if 0 < version < VERSION:
            # The migration's own connection holds the write lock, so this one reads what was there before.
            source = apsw.Connection(str(path))
            try:
                copy_to(source, backup_path(path, version))
            finally:
                source.close()
        for step in range(version, VERSION):
            db.execute(_STEPS[step])
        db.pragma("user_version", VERSION)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _require_ours(db: apsw.Connection, path: Path) -> None:
    """Leaves databases of other programs alone. One statement: another process may be making the tables."""
    sql = (
        "SELECT count(*), total(name = 'namespaces'), (SELECT user_version FROM pragma_user_version) FROM sqlite_master"
    )
    ((tables, ours, version),) = db.execute(sql)
    if not (ours if version else not tables):
        raise DamagedStore(f"{path} is not a database of Fourfold", "Put the right file back, or restore a backup")


def known_version(db: apsw.Connection) -> int:
    """The schema that the database has; NewerSchema if this version does not know it."""
    number = version(db)
    if number > VERSION:
        raise NewerSchema(
            f"this store has schema {number}, this Fourfold knows up to {VERSION}",
            "Upgrade it: pip install -U fourfold",
        )
    return number


def backup_path(path: Path, schema: int) -> Path:
    """Where the database of an older schema is kept."""
    return path.with_name(f"before-schema-{schema + 1}.db")


# ---------------------------------------------------------------- whole copies of a database file


_PAGES = 1000


def copy_to(source: apsw.Connection, target: Path) -> None:
    """The snapshot that the connection's read transaction sees, as one file for its owner only."""
    aside = target.with_name(target.name + ".part")
    _remove(aside)
    try:
        owner_only.create_file(aside)
        copy = apsw.Connection(str(aside))
        try:
            with copy.backup("main", source, "main") as work:
                while not work.done:
                    work.step(_PAGES)
            copy.pragma("journal_mode", "delete")
        finally:
            copy.close()
        aside.replace(target)
    except BaseException:
        _remove(aside)
        raise
    sync_folder(target.parent)


def _remove(database: Path) -> None:
    """Removes a database file and the files that SQLite creates next to it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)

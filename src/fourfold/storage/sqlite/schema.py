"""The tables of the embedded store, and how an older file becomes a current one."""

from __future__ import annotations

from pathlib import Path

import apsw

from fourfold import owner_only
from fourfold.errors import DamagedStore, NewerSchema
from fourfold.index.segment_files import sync_folder

_TABLES = """
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

CREATE TABLE items (
    id INTEGER PRIMARY KEY AUTOINCREMENT,   -- an id is never given twice
    ns INTEGER NOT NULL REFERENCES namespaces,
    key TEXT,
    path TEXT,
    chunk_index INTEGER,
    identity BLOB,                          -- hash of the text where nothing else identifies the item
    linked INTEGER NOT NULL DEFAULT 1,      -- 0: its text was stored with links off
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    kind TEXT,
    language TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL,            -- microseconds since 1970, UTC
    updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX items_by_key ON items (ns, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX items_by_path ON items (ns, path, chunk_index) WHERE path IS NOT NULL AND key IS NULL;
CREATE INDEX items_by_identity ON items (ns, identity) WHERE identity IS NOT NULL;
CREATE INDEX items_by_time ON items (ns, created_at, id);

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

CREATE TABLE languages (
    ns INTEGER NOT NULL,
    language TEXT NOT NULL,
    items INTEGER NOT NULL,
    PRIMARY KEY (ns, language)
) WITHOUT ROWID;

CREATE TABLE raw (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ns INTEGER NOT NULL REFERENCES namespaces,
    content TEXT NOT NULL,
    speaker TEXT,
    session_id TEXT,
    metadata TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE TABLE sources (
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    position INTEGER NOT NULL,
    raw INTEGER NOT NULL REFERENCES raw,
    PRIMARY KEY (item, position)
) WITHOUT ROWID;

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
CREATE TABLE node_items (
    node INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    made INTEGER NOT NULL,
    PRIMARY KEY (node, item)
) WITHOUT ROWID;
CREATE INDEX node_items_by_item ON node_items (item);
CREATE TABLE edges (
    source INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    relation TEXT NOT NULL,
    target INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    weight REAL NOT NULL,
    PRIMARY KEY (source, relation, target)
) WITHOUT ROWID;
CREATE INDEX edges_by_source ON edges (source, weight);
CREATE INDEX edges_by_target ON edges (target, weight);
CREATE TABLE mentions (                     -- an item that names a node in its text
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    node INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
    PRIMARY KEY (item, node)
) WITHOUT ROWID;
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
CREATE TABLE pointers (                     -- what the links of a text name, whether a node has that name or not yet
    ns INTEGER NOT NULL,
    folded TEXT NOT NULL,
    item INTEGER NOT NULL REFERENCES items ON DELETE CASCADE,
    PRIMARY KEY (ns, folded, item)
) WITHOUT ROWID;
CREATE INDEX pointers_by_item ON pointers (item);
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

_FILES = """
CREATE TABLE files (                        -- what was found in each indexed file, or why nothing of it is stored
    ns INTEGER NOT NULL REFERENCES namespaces,
    path TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    digest TEXT NOT NULL,
    skipped TEXT NOT NULL,
    name TEXT NOT NULL,                     -- folded, what follows the last slash
    PRIMARY KEY (ns, path)
) WITHOUT ROWID;
CREATE INDEX files_by_name ON files (ns, name);
CREATE TRIGGER chunk_gone AFTER DELETE ON items WHEN OLD.path IS NOT NULL AND OLD.key IS NULL BEGIN
    DELETE FROM files WHERE ns = OLD.ns AND path = OLD.path;
END;
"""

_IDS = """
CREATE TABLE id_blocks (                    -- which namespace takes its ids from which block
    block INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL UNIQUE
);
CREATE TABLE ids (                          -- the last id that a namespace gave, by table
    ns INTEGER NOT NULL,
    kind TEXT NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (ns, kind)
) WITHOUT ROWID;
"""

_FACTS = """
ALTER TABLE items ADD COLUMN occurred_at INTEGER;   -- when it happened, if that is known
ALTER TABLE items ADD COLUMN expires_at INTEGER;
ALTER TABLE items ADD COLUMN source TEXT;           -- the interface it came through; NULL: not recorded then
ALTER TABLE items ADD COLUMN subject TEXT;
ALTER TABLE items ADD COLUMN attribute TEXT;
ALTER TABLE items ADD COLUMN fact BLOB;             -- hash of subject and attribute, folded; NULL without an attribute
ALTER TABLE items ADD COLUMN valid_from INTEGER;    -- since when it is believed; NULL: since created_at
ALTER TABLE items ADD COLUMN superseded_at INTEGER; -- until when it was believed; NULL: it still is
ALTER TABLE items ADD COLUMN supersedes INTEGER;    -- the value or version before it
ALTER TABLE items ADD COLUMN version_of INTEGER;    -- the item whose earlier version this is
CREATE INDEX items_by_occurrence ON items (ns, occurred_at) WHERE occurred_at IS NOT NULL;
CREATE INDEX items_by_expiry ON items (ns, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_superseded ON items (ns, superseded_at) WHERE superseded_at IS NOT NULL;
CREATE INDEX items_by_fact ON items (ns, fact) WHERE fact IS NOT NULL;
CREATE INDEX items_by_successor ON items (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX items_by_version ON items (version_of) WHERE version_of IS NOT NULL;
UPDATE items SET source = 'file' WHERE path IS NOT NULL AND key IS NULL;
ALTER TABLE raw ADD COLUMN source TEXT;
ALTER TABLE namespaces ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;    -- rows of items that are, see the triggers
ALTER TABLE namespaces ADD COLUMN expiring INTEGER NOT NULL DEFAULT 0;
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

_VERSIONS = """
CREATE TABLE versions (                     -- items as they were before an update or before they were merged
    id INTEGER PRIMARY KEY,                 -- from the ids of items; of a merged item, its own
    ns INTEGER NOT NULL REFERENCES namespaces,
    item INTEGER NOT NULL,                  -- whose version, or into which it was merged; perhaps a merged item itself
    until INTEGER NOT NULL,                 -- when it was replaced, in microseconds since 1970, UTC
    merged INTEGER NOT NULL,
    record TEXT NOT NULL                    -- as in an export
);
CREATE INDEX versions_by_item ON versions (item, until);
"""

_REQUESTS = """
CREATE TABLE requests (                     -- requests with an Idempotency-Key that were carried out
    ns INTEGER NOT NULL REFERENCES namespaces,
    name BLOB NOT NULL,                     -- hash of the caller and the key
    fingerprint BLOB NOT NULL,              -- hash of what was asked
    outcome TEXT NOT NULL,                  -- ids or counts from which the answer is made again, as JSON
    done_at INTEGER NOT NULL,               -- microseconds since 1970, UTC
    PRIMARY KEY (ns, name)
) WITHOUT ROWID;
CREATE INDEX requests_by_time ON requests (ns, done_at);
"""

_STEPS = (_TABLES, _PRUNED, _FILES, _IDS, _FACTS, _WINDOWS, _VERSIONS, _REQUESTS)
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
        found = known_version(db)  # another process may have been quicker
        if 0 < found < VERSION:
            _back_up(path, found)
        for step in range(found, VERSION):
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
    ((tables, ours, found),) = db.execute(sql)
    if not (ours if found else not tables):
        raise DamagedStore(f"{path} is not a database of Fourfold", "Put the right file back, or restore a backup")


def known_version(db: apsw.Connection) -> int:
    """The schema that the database has; NewerSchema if this version does not know it."""
    found = version(db)
    if found > VERSION:
        raise NewerSchema(
            f"this store has schema {found}, this Fourfold knows up to {VERSION}", "Upgrade it: pip install -U fourfold"
        )
    return found


def backup_path(path: Path, schema: int) -> Path:
    """Where the database of an older schema is kept."""
    return path.with_name(f"before-schema-{schema + 1}.db")


def _back_up(path: Path, schema: int) -> None:
    """The migration's own connection holds the write lock, so this one reads what was there before."""
    source = apsw.Connection(str(path))
    try:
        copy_to(source, backup_path(path, schema))
    finally:
        source.close()


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

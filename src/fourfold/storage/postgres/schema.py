"""The tables of a PostgreSQL store, and how an older schema becomes a current one.

Migrations run in one transaction under an advisory lock, so that several servers can start at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from fourfold.errors import InvalidSetting, NewerSchema
from fourfold.storage.postgres import index_log
from fourfold.storage.postgres.connection import Connection, facts
from fourfold.storage.sql import schema as shared
from fourfold.text.analysis import ANALYSER_VERSION

_LOCK = 0x466F7572
"""Ours among the advisory locks of a database."""
_NAMESPACES = """
CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL);

CREATE TABLE namespaces (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    items bigint NOT NULL DEFAULT 0,
    vectors bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0,             -- terms in all its texts
    changes bigint NOT NULL DEFAULT 0,            -- moves with every write
    text_changes bigint NOT NULL DEFAULT 0,
    vector_changes bigint NOT NULL DEFAULT 0,
    names bigint NOT NULL DEFAULT 0,              -- moves whenever a name of a node comes or goes
    fingerprint text,                             -- the model whose vectors these are
    dimension integer,
    words text NOT NULL DEFAULT 'none'            -- its table for pg_textsearch: none, ready
) WITH (fillfactor = 50);

CREATE SEQUENCE item_ids;
"""
_TABLES = """
ALTER TABLE items ADD COLUMN facts jsonb NOT NULL;  -- the metadata in the form that filters compare
CREATE UNIQUE INDEX items_by_place ON items (ns, path, chunk_index) WHERE path IS NOT NULL AND key IS NULL;
CREATE INDEX items_by_path ON items (ns, path) WHERE path IS NOT NULL;
CREATE INDEX items_by_ns ON items (ns, id);
CREATE INDEX items_by_kind ON items (ns, kind) WHERE kind IS NOT NULL;
CREATE INDEX items_by_fact ON items USING gin (facts jsonb_path_ops) WITH (fastupdate = off);

CREATE TABLE item_tags (
    item bigint NOT NULL REFERENCES items ON DELETE CASCADE,
    ns integer NOT NULL,
    folded text COLLATE "C" NOT NULL,
    name text NOT NULL,                           -- as this item's author wrote it
    PRIMARY KEY (item, folded)
);
CREATE INDEX item_tags_by_tag ON item_tags (ns, folded, item);

CREATE TABLE texts (                              -- the analysed texts
    item bigint PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    ns integer NOT NULL,
    tokens integer NOT NULL,
    hashes bytea NOT NULL,                        -- 4 bytes a term, in order
    keys bigint[] NOT NULL                        -- namespace and hash of each term, once
);
CREATE INDEX texts_by_ns ON texts (ns, item);
CREATE INDEX texts_by_term ON texts USING gin (keys) WITH (fastupdate = off);
CREATE TABLE terms (                              -- what BM25 needs to know
    ns integer NOT NULL,
    term text COLLATE "C" NOT NULL,
    items integer NOT NULL,
    german integer NOT NULL,                      -- items in German that have it
    PRIMARY KEY (ns, term)
) WITH (fillfactor = 70);
CREATE INDEX terms_reversed ON terms (ns, reverse(term) COLLATE "C") WHERE german > 0;

CREATE SEQUENCE raw_ids;

CREATE TABLE vectors (
    item bigint PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    ns integer NOT NULL,
    sample integer NOT NULL,                      -- the smaller, the larger the stores in whose sample it is
    v vector NOT NULL
);
CREATE INDEX vectors_by_sample ON vectors (ns, sample);
CREATE TABLE waiting (                            -- the queue of items without a vector
    item bigint PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    ns integer NOT NULL,
    refused text                                  -- why the embedder will not have this text
);
CREATE INDEX waiting_by_ns ON waiting (ns, item) WHERE refused IS NULL;

CREATE SEQUENCE node_ids;
CREATE TABLE nodes (
    id bigint PRIMARY KEY,
    ns integer NOT NULL REFERENCES namespaces,
    name text NOT NULL,
    digest bytea NOT NULL,                        -- of the folded name, which may be long
    label text COLLATE "C" NOT NULL,
    properties text NOT NULL,
    made boolean NOT NULL,                        -- asked for by name; otherwise it exists because of a title
    holders integer NOT NULL DEFAULT 0,           -- rows of node_items and edges, kept by the triggers below
    degree integer NOT NULL DEFAULT 0,
    UNIQUE (ns, digest, label)
) WITH (fillfactor = 80);
CREATE INDEX nodes_by_ns ON nodes (ns, id);
CREATE TABLE names (
    ns integer NOT NULL,
    digest bytea NOT NULL,
    node bigint NOT NULL REFERENCES nodes ON DELETE CASCADE,
    opening bytea NOT NULL,                       -- of its only word, or of its first two
    folded text COLLATE "C" NOT NULL,
    alias text COLLATE "C",                       -- NULL: the node's own name
    PRIMARY KEY (ns, digest, node)
);
CREATE INDEX names_by_node ON names (node);
CREATE INDEX names_by_opening ON names (ns, opening);
"""
_LINKS = """
CREATE INDEX raw_by_ns ON raw (ns, id);
CREATE INDEX edges_out ON edges (source, weight DESC, target);
CREATE INDEX edges_in ON edges (target, weight DESC, source);
CREATE INDEX mentions_by_node ON mentions (node, item);
CREATE FUNCTION count_holders() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE nodes SET holders = holders + CASE TG_OP WHEN 'INSERT' THEN n ELSE -n END
    FROM (SELECT node, count(*) AS n FROM changed GROUP BY node) AS c WHERE id = node;
    RETURN NULL;
END $$;
CREATE TRIGGER more_own AFTER INSERT ON node_items REFERENCING NEW TABLE AS changed EXECUTE FUNCTION count_holders();
CREATE TRIGGER less_own AFTER DELETE ON node_items REFERENCING OLD TABLE AS changed EXECUTE FUNCTION count_holders();
CREATE FUNCTION count_degrees() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE nodes SET degree = degree + CASE TG_OP WHEN 'INSERT' THEN n ELSE -n END
    FROM (
        SELECT node, count(*) AS n
        FROM (SELECT source AS node FROM changed UNION ALL SELECT target FROM changed WHERE target <> source) AS ends
        GROUP BY node
    ) AS c WHERE id = node;
    RETURN NULL;
END $$;
CREATE TRIGGER more_edges AFTER INSERT ON edges REFERENCING NEW TABLE AS changed EXECUTE FUNCTION count_degrees();
CREATE TRIGGER less_edges AFTER DELETE ON edges REFERENCING OLD TABLE AS changed EXECUTE FUNCTION count_degrees();
CREATE TABLE unlinked (                           -- new nodes that have not been looked for in older items yet
    ns integer NOT NULL,
    node bigint NOT NULL REFERENCES nodes ON DELETE CASCADE,
    PRIMARY KEY (node)
);
"""

_PARTS = """
ALTER TABLE namespaces ADD COLUMN parts bigint[] NOT NULL DEFAULT '{}';  -- of its postings, each by its last change
ALTER TABLE namespaces ADD COLUMN worded bigint NOT NULL DEFAULT 0;  -- the last change in its table for pg_textsearch
UPDATE namespaces SET words = 'none';
ALTER TABLE texts ADD COLUMN change bigint NOT NULL DEFAULT 0;  -- the text_changes of its namespace that wrote it
CREATE INDEX texts_by_change ON texts (ns, change);
CREATE TABLE postings (                           -- where each term of the texts of a part stands
    ns integer NOT NULL,
    part bigint NOT NULL,
    term bigint NOT NULL,
    uses bytea NOT NULL,
    PRIMARY KEY (ns, part, term)
);
ALTER TABLE postings ALTER COLUMN uses SET STORAGE EXTERNAL;
"""


def _refresh_facts(db: Connection) -> None:
    """Metadata with lists or maps in the form that filters on nested keys and elements compare."""
    sql = "SELECT id, metadata FROM items WHERE id > ? AND metadata ~ '^.+[\\[{]' ORDER BY id LIMIT 1000"
    last = 0
    while rows := db.rows(sql, last):
        fresh = [(facts(json.loads(metadata)), item) for item, metadata in rows]
        db.run_many("UPDATE items SET facts = ?::jsonb WHERE id = ?", fresh)
        last = rows[-1][0]


_BLOCKS = """
CREATE TABLE id_blocks (                          -- which namespace takes its ids from which block
    block bigint PRIMARY KEY,
    ns integer NOT NULL
);
"""

_HIDDEN = """
CREATE INDEX items_of_fact ON items (ns, fact) WHERE fact IS NOT NULL;
CREATE FUNCTION count_hidden() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE
    more_superseded integer := 0;
    more_expiring integer := 0;
BEGIN
    IF TG_OP <> 'DELETE' THEN
        more_superseded := (NEW.superseded_at IS NOT NULL)::integer;
        more_expiring := (NEW.expires_at IS NOT NULL)::integer;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        more_superseded := more_superseded - (OLD.superseded_at IS NOT NULL)::integer;
        more_expiring := more_expiring - (OLD.expires_at IS NOT NULL)::integer;
    END IF;
    IF more_superseded <> 0 OR more_expiring <> 0 THEN
        UPDATE namespaces SET superseded = superseded + more_superseded, expiring = expiring + more_expiring
        WHERE id = CASE TG_OP WHEN 'DELETE' THEN OLD.ns ELSE NEW.ns END;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER hidden_came AFTER INSERT ON items FOR EACH ROW
    WHEN (NEW.superseded_at IS NOT NULL OR NEW.expires_at IS NOT NULL) EXECUTE FUNCTION count_hidden();
CREATE TRIGGER hidden_went AFTER DELETE ON items FOR EACH ROW
    WHEN (OLD.superseded_at IS NOT NULL OR OLD.expires_at IS NOT NULL) EXECUTE FUNCTION count_hidden();
CREATE TRIGGER hidden_changed AFTER UPDATE ON items FOR EACH ROW
    WHEN ((OLD.superseded_at IS NULL) <> (NEW.superseded_at IS NULL)
        OR (OLD.expires_at IS NULL) <> (NEW.expires_at IS NULL)) EXECUTE FUNCTION count_hidden();
"""

_WINDOWS = """
ALTER TABLE vectors ADD COLUMN part integer NOT NULL DEFAULT 0;    -- which window of the text, from 0
ALTER TABLE vectors ADD COLUMN starts integer;                     -- of the window, in characters; NULL: the only one
ALTER TABLE vectors ADD COLUMN ends integer;
ALTER TABLE vectors DROP CONSTRAINT vectors_pkey, ADD PRIMARY KEY (item, part);
ALTER TABLE namespaces ADD COLUMN windows bigint NOT NULL DEFAULT 0;    -- vectors beyond the first of each item
"""

_ONE_WORD_INDEX = """
DO $$ DECLARE name text; BEGIN              -- tables for the extension pg_textsearch; postings answer instead
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = current_schema() AND tablename ~ '^words_[0-9]+(_[0-9]+)?$'
    LOOP EXECUTE format('DROP TABLE %I', name); END LOOP;
END $$;
ALTER TABLE namespaces DROP COLUMN words, DROP COLUMN worded;
"""

_TYPES = shared.Types(
    int="integer",
    id="bigint",
    text="text",
    key='text COLLATE "C"',
    hash="bytea",
    flag="boolean",
    true="true",
    real="double precision",
    first_id="bigint PRIMARY KEY",
    name_type="bytea",
    name_column="digest",
    rowless="",
)
_STEPS: tuple[str | Callable[[Connection], None], ...] = (
    _NAMESPACES + _TYPES.ddl(shared.ITEMS) + _TABLES + _TYPES.ddl(shared.FILES + shared.ROWS) + _LINKS,
    _PARTS,
    _refresh_facts,
    _BLOCKS + _TYPES.ddl(shared.IDS),
    index_log.TABLES,
    _TYPES.ddl(shared.FACTS) + _HIDDEN,
    _WINDOWS,
    _TYPES.ddl(shared.VERSIONS) + "CREATE INDEX versions_by_ns ON versions (ns);",
    index_log.NODES,
    _ONE_WORD_INDEX,
    _TYPES.ddl(shared.REQUESTS),
    shared.RAW_SESSIONS,
    _TYPES.ddl(shared.SYNCED),
    _TYPES.ddl(shared.RECEIPTS),
)
"""_STEPS[n] turns schema n into n + 1."""
VERSION = len(_STEPS)


def migrate(db: Connection, schema: str) -> None:
    """Brings the schema to VERSION in one transaction; does nothing when it is there already."""
    if _known_version(db, schema) == VERSION:
        return
    with db.transaction():
        db.run("SELECT pg_advisory_xact_lock(?, hashtext(?))", _LOCK, schema)
        version = _known_version(db, schema)  # another server may have been quicker
        _prepare(db, schema)
        for step in _STEPS[version:VERSION]:
            (db.run(step) if isinstance(step, str) else step(db))
        db.run("DELETE FROM fourfold_schema")
        db.run("INSERT INTO fourfold_schema VALUES (?)", VERSION)
        if not version:
            db.run("INSERT INTO settings VALUES ('analyser', ?)", ANALYSER_VERSION)


def exists(db: Connection, schema: str) -> bool:
    return _known_version(db, schema) > 0


def search_path(db: Connection, schema: str) -> str:
    """Our schema, `public`, and the schema of pgvector."""
    sql = (
        "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace "
        "WHERE extname = 'vector' AND nspname <> 'pg_catalog'"
    )
    return ", ".join(dict.fromkeys([schema, "public", *db.column(sql)]))


def _known_version(db: Connection, schema: str) -> int:
    # not to_regclass(), which may remember from before the lock that there was no such table
    sql = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'fourfold_schema'"
    if db.value(sql, schema) is None:
        return 0
    version = db.value(f"SELECT max(version) FROM {schema}.fourfold_schema") or 0  # noqa: S608  (our own clauses)
    if version > VERSION:
        raise NewerSchema(
            f"this store has schema {version}, this Fourfold knows up to {VERSION}",
            "Upgrade it: pip install -U fourfold",
        )
    return version


def _prepare(db: Connection, schema: str) -> None:
    """Schema, extension and version table; an administrator may have made the first two."""
    if db.value("SELECT 1 FROM pg_namespace WHERE nspname = ?", schema) is None:
        db.run(f"CREATE SCHEMA {schema}")
    if db.value("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'") is None:
        raise InvalidSetting("the server has no pgvector", "Install the extension `vector` on the server")
    if db.value("SELECT 1 FROM pg_extension WHERE extname = 'vector'") is None:
        db.run("SELECT pg_advisory_xact_lock(?, 0)", _LOCK)  # one store of this database at a time
        db.run("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    db.run(f"SET LOCAL search_path = {search_path(db, schema)}")
    db.run("CREATE TABLE IF NOT EXISTS fourfold_schema (version integer NOT NULL)")

-- The tables of the embedded store beside those of storage/sql, as its schema grew.

-- == namespaces
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

-- == tables
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

-- == links
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

-- == pruned
ALTER TABLE namespaces ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0;    -- the log of the namespace begins after this
ALTER TABLE waiting ADD COLUMN refused TEXT;                            -- why the embedder will not have this text

-- == chunks
CREATE TRIGGER chunk_gone AFTER DELETE ON items WHEN OLD.path IS NOT NULL AND OLD.key IS NULL BEGIN
    DELETE FROM files WHERE ns = OLD.ns AND path = OLD.path;
END;

-- == blocks
CREATE TABLE id_blocks (                    -- which namespace takes its ids from which block
    block INTEGER PRIMARY KEY,
    ns INTEGER NOT NULL UNIQUE
);

-- == hidden
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

-- == windows
ALTER TABLE vectors ADD COLUMN spans BLOB;      -- start and end of each window of the text; NULL: one vector for all
ALTER TABLE namespaces ADD COLUMN windows INTEGER NOT NULL DEFAULT 0;   -- vectors beyond the first of each item

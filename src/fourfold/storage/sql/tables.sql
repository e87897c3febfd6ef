-- The tables that both databases have. `$` stands for a type or a clause of the database (`schema.Types`).

-- == items
CREATE TABLE items (
    id $first_id,                           -- an id is never given twice
    ns $int NOT NULL REFERENCES namespaces,
    key $key,
    path $key,
    chunk_index $id,
    identity $hash,                         -- hash of the text where nothing else identifies the item
    linked $flag NOT NULL DEFAULT $true,    -- false: its text was stored with links off
    title $text NOT NULL,
    text $text NOT NULL,
    kind $key,
    language $key NOT NULL,
    metadata $text NOT NULL,                -- JSON as it was given
    created_at $id NOT NULL,                -- microseconds since 1970, UTC
    updated_at $id NOT NULL
);
CREATE UNIQUE INDEX items_by_key ON items (ns, key) WHERE key IS NOT NULL;
CREATE INDEX items_by_identity ON items (ns, identity) WHERE identity IS NOT NULL;
CREATE INDEX items_by_time ON items (ns, created_at, id);

-- == rows
CREATE TABLE languages (
    ns $int NOT NULL,
    language $key NOT NULL,
    items $id NOT NULL,
    PRIMARY KEY (ns, language)
)$rowless;

CREATE TABLE raw (
    id $first_id,
    ns $int NOT NULL REFERENCES namespaces,
    content $text NOT NULL,
    speaker $text,
    session_id $text,
    metadata $text NOT NULL,
    created_at $id NOT NULL
);
CREATE TABLE sources (
    item $id NOT NULL REFERENCES items ON DELETE CASCADE,
    position $int NOT NULL,
    raw $id NOT NULL REFERENCES raw,
    PRIMARY KEY (item, position)
)$rowless;

CREATE TABLE node_items (
    node $id NOT NULL REFERENCES nodes ON DELETE CASCADE,
    item $id NOT NULL REFERENCES items ON DELETE CASCADE,
    made $flag NOT NULL,
    PRIMARY KEY (node, item)
)$rowless;
CREATE INDEX node_items_by_item ON node_items (item);
CREATE TABLE edges (
    source $id NOT NULL REFERENCES nodes ON DELETE CASCADE,
    relation $key NOT NULL,
    target $id NOT NULL REFERENCES nodes ON DELETE CASCADE,
    weight $real NOT NULL,
    PRIMARY KEY (source, relation, target)
)$rowless;
CREATE TABLE mentions (                     -- an item that names a node in its text
    item $id NOT NULL REFERENCES items ON DELETE CASCADE,
    node $id NOT NULL REFERENCES nodes ON DELETE CASCADE,
    PRIMARY KEY (item, node)
)$rowless;
CREATE TABLE pointers (                     -- what the links of a text name, whether a node has that name or not
    ns $int NOT NULL,
    $name_column $name_type NOT NULL,
    item $id NOT NULL REFERENCES items ON DELETE CASCADE,
    PRIMARY KEY (ns, $name_column, item)
)$rowless;
CREATE INDEX pointers_by_item ON pointers (item);

-- == files
CREATE TABLE files (                        -- what was found in each indexed file, or why nothing of it is stored
    ns $int NOT NULL REFERENCES namespaces,
    path $key NOT NULL,
    size $id NOT NULL,
    mtime_ns $id NOT NULL,
    digest $text NOT NULL,
    skipped $text NOT NULL,
    name $key NOT NULL,                     -- folded, what follows the last slash
    PRIMARY KEY (ns, path)
)$rowless;
CREATE INDEX files_by_name ON files (ns, name);

-- == ids
CREATE TABLE ids (                          -- the last id that a namespace gave, by table
    ns $int NOT NULL,
    kind $text NOT NULL,
    last $id NOT NULL,
    PRIMARY KEY (ns, kind)
)$rowless;

-- == facts
ALTER TABLE items ADD COLUMN occurred_at $id;   -- when it happened, if that is known
ALTER TABLE items ADD COLUMN expires_at $id;
ALTER TABLE items ADD COLUMN source $key;       -- the interface it came through; NULL: not recorded then
ALTER TABLE items ADD COLUMN subject $key;
ALTER TABLE items ADD COLUMN attribute $key;
ALTER TABLE items ADD COLUMN fact $hash;        -- hash of subject and attribute, folded; NULL without an attribute
ALTER TABLE items ADD COLUMN valid_from $id;    -- since when it is believed; NULL: since created_at
ALTER TABLE items ADD COLUMN superseded_at $id; -- until when it was believed; NULL: it still is
ALTER TABLE items ADD COLUMN supersedes $id;    -- the value or version before it
ALTER TABLE items ADD COLUMN version_of $id;    -- the item whose earlier version this is
CREATE INDEX items_by_occurrence ON items (ns, occurred_at) WHERE occurred_at IS NOT NULL;
CREATE INDEX items_by_expiry ON items (ns, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_superseded ON items (ns, superseded_at) WHERE superseded_at IS NOT NULL;
CREATE INDEX items_by_successor ON items (supersedes) WHERE supersedes IS NOT NULL;
CREATE INDEX items_by_version ON items (version_of) WHERE version_of IS NOT NULL;
UPDATE items SET source = 'file' WHERE path IS NOT NULL AND key IS NULL;
ALTER TABLE raw ADD COLUMN source $key;
ALTER TABLE namespaces ADD COLUMN superseded $id NOT NULL DEFAULT 0;    -- rows of items that are, see the triggers
ALTER TABLE namespaces ADD COLUMN expiring $id NOT NULL DEFAULT 0;

-- == versions
CREATE TABLE versions (                     -- items as they were before an update or before they were merged
    id $id PRIMARY KEY,                     -- from the ids of items; of a merged item, its own
    ns $id NOT NULL REFERENCES namespaces,
    item $id NOT NULL,                      -- whose version, or into which it was merged; perhaps a merged item itself
    until $id NOT NULL,                     -- when it was replaced, in microseconds since 1970, UTC
    merged $flag NOT NULL,
    record $text NOT NULL                   -- as in an export
);
CREATE INDEX versions_by_item ON versions (item, until);

-- == raw_sessions
CREATE INDEX raw_by_session ON raw (ns, session_id) WHERE session_id IS NOT NULL;

-- == receipts
CREATE TABLE receipts (                     -- what was asked through each interface, and what it was given
    ns $int NOT NULL REFERENCES namespaces,
    via $key NOT NULL,
    asked $id NOT NULL,
    answered $id NOT NULL,                  -- with enough confidence
    items $id NOT NULL,
    since $id NOT NULL,                     -- microseconds since 1970, UTC
    PRIMARY KEY (ns, via)
)$rowless;
CREATE TABLE retrievals (                   -- items that were given to someone
    item $id PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    times $id NOT NULL,
    last_at $id NOT NULL
)$rowless;

-- == requests
CREATE TABLE requests (                     -- requests with an Idempotency-Key that were carried out
    ns $id NOT NULL REFERENCES namespaces,
    name $hash NOT NULL,                    -- hash of the caller and the key
    fingerprint $hash NOT NULL,             -- hash of what was asked
    outcome $text NOT NULL,                 -- ids or counts from which the answer is made again, as JSON
    done_at $id NOT NULL,                   -- microseconds since 1970, UTC
    PRIMARY KEY (ns, name)
)$rowless;
CREATE INDEX requests_by_time ON requests (ns, done_at);

-- == synced
CREATE TABLE synced (                       -- what other stores were told of a namespace, and its clocks (sql/replica)
    ns $id NOT NULL REFERENCES namespaces,
    uid $key NOT NULL,                      -- the same in all stores
    kind $key NOT NULL,
    id $id NOT NULL,                        -- of the row here; 0 if it has none
    life $id NOT NULL,                      -- odd: it exists; even: it was deleted
    edits $id NOT NULL,
    born $id NOT NULL,                      -- when it was created, in microseconds since 1970; 0 if that is not known
    state $key NOT NULL,                    -- hash of its content, empty after it was deleted
    PRIMARY KEY (ns, uid)
)$rowless;
CREATE INDEX synced_by_id ON synced (ns, kind, id);

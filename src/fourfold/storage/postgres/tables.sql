-- The tables of a PostgreSQL store beside those of storage/sql, as its schema grew.

-- == namespaces
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

-- == tables
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

-- == links
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

-- == parts
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

-- == blocks
CREATE TABLE id_blocks (                          -- which namespace takes its ids from which block
    block bigint PRIMARY KEY,
    ns integer NOT NULL
);

-- == hidden
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

-- == windows
ALTER TABLE vectors ADD COLUMN part integer NOT NULL DEFAULT 0;    -- which window of the text, from 0
ALTER TABLE vectors ADD COLUMN starts integer;                     -- of the window, in characters; NULL: the only one
ALTER TABLE vectors ADD COLUMN ends integer;
ALTER TABLE vectors DROP CONSTRAINT vectors_pkey, ADD PRIMARY KEY (item, part);
ALTER TABLE namespaces ADD COLUMN windows bigint NOT NULL DEFAULT 0;    -- vectors beyond the first of each item

-- == one_word_index
DO $$ DECLARE name text; BEGIN              -- tables for the extension pg_textsearch; postings answer instead
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = current_schema() AND tablename ~ '^words_[0-9]+(_[0-9]+)?$'
    LOOP EXECUTE format('DROP TABLE %I', name); END LOOP;
END $$;
ALTER TABLE namespaces DROP COLUMN words, DROP COLUMN worded;

-- == index
ALTER TABLE namespaces ADD COLUMN logged boolean NOT NULL DEFAULT false;  -- whether changes are logged for an index
ALTER TABLE namespaces ADD COLUMN generation integer;  -- the one that answers searches
CREATE TABLE index_log (                          -- the versions of items that a distributed index holds or lacks
    ns integer NOT NULL,
    change bigint NOT NULL,                       -- the `changes` of its namespace; 0: older than the log
    item bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),        -- for reports only
    PRIMARY KEY (ns, change, item)
);
CREATE INDEX index_log_by_item ON index_log (item, change);
CREATE TABLE index_generations (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ns integer NOT NULL REFERENCES namespaces,
    engine text NOT NULL,
    collection text NOT NULL,
    state text NOT NULL,                          -- filling, building, active, retired
    analyser text NOT NULL,
    fingerprint text,
    dimension integer,
    change bigint NOT NULL DEFAULT 0,             -- the engine holds the log up to this row
    item bigint NOT NULL DEFAULT 0,
    retired_at timestamptz
);
CREATE TABLE index_marks (                        -- batches that were begun, by the mark that the engine notes
    generation integer NOT NULL REFERENCES index_generations ON DELETE CASCADE,
    mark text NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    change bigint NOT NULL,                       -- where the batch ends
    item bigint NOT NULL,
    PRIMARY KEY (generation, mark)
);

-- == nodes_behind
CREATE TABLE index_nodes_behind (                 -- nodes that lack batches: they did not answer, or have lost writes
    generation integer NOT NULL REFERENCES index_generations ON DELETE CASCADE,
    node text NOT NULL,
    change bigint NOT NULL,                       -- the node holds the log up to this row
    item bigint NOT NULL,
    PRIMARY KEY (generation, node)
);

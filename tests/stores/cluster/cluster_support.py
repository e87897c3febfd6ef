"""Helpers of the tests of distributed indexes."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import index_servers
import numpy as np
from conformance_subjects import NS
from store_calls import StoreCalls

from fourfold.memory import Memory
from fourfold.model import NO_FILTERS
from fourfold.storage.engines import open_engine
from fourfold.storage.engines.protocol import Document, Engine, Entry
from fourfold.storage.postgres.database import Tuning
from fourfold.storage.postgres.index_log import Generation, every
from fourfold.storage.postgres.namespaces import find
from fourfold.storage.postgres.store import PostgresStore

TUNING = Tuning(narrow_items=0, feed_changes=1, vector_index_items=1)
"""Uses the index even under narrow filters, and feeds it at every publication."""


def opened(dsn: str, kind: str, tuning: Tuning = TUNING) -> PostgresStore:
    return PostgresStore(dsn, tuning, open_engine(index_servers.address(kind)))


def memory(store: PostgresStore, namespace: str = "notes") -> Memory:
    return Memory(store, None, namespace, background=False)


def document(item: int, version: int, terms: Sequence[int], vector: Any = None, facts: Sequence[int] = ()) -> Document:
    """A document with one vector, or with a list of vectors."""
    found = [] if vector is None else list(np.atleast_2d(np.asarray(vector, np.float32)))
    return Document(Entry(item, version), np.array(terms, np.uint32), 1.0, found, list(facts))


def entries(engine: Engine, collection: str) -> list[list[Entry]]:
    """The versions that each node holds, completely or in part; `check` counts their objects."""
    return [sorted(set(node.entries(collection, 1, 1 << 62))) for node in engine.nodes]


def lose_object(engine: Engine, collection: str, entry: Entry, part: int) -> None:
    """Removes one window of an item directly from the engine."""
    adapter: Any = sys.modules[type(engine).__module__]  # importing both takes seconds
    any_engine: Any = engine
    if engine.shown.startswith("weaviate"):
        any_engine._delete(collection, [adapter._uuid(entry, part)])
    else:
        keys = [adapter._key(entry, part)]
        any_engine._called(lambda client: client.delete(f"{collection}_vectors", ids=keys), 5.0)


def generations(store: PostgresStore, namespace: str) -> list[Generation]:
    return store.database.read(lambda db: every(db, find(db, namespace).id))


BACKUP = """
DO $$ DECLARE t text; BEGIN
    EXECUTE format('CREATE SCHEMA %I', current_schema || '_copy');
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema LOOP
        EXECUTE format('CREATE TABLE %I.%I AS TABLE %I', current_schema || '_copy', t, t);
    END LOOP;
END $$"""
"""The tables that pg_dump would save, read at one moment."""
RESTORE = """
DO $$ DECLARE t text; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema LOOP
        EXECUTE format('TRUNCATE %I CASCADE', t);
    END LOOP;
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema LOOP
        EXECUTE format('INSERT INTO %I OVERRIDING SYSTEM VALUE SELECT * FROM %I.%I', t, current_schema || '_copy', t);
    END LOOP;
END $$"""
QUICK = replace(TUNING, check_grace_seconds=0.01, feed_batch_items=7)


def feed(store: PostgresStore) -> None:
    store.feeder.create(NS)
    assert store.maintenance.publish(NS, everything=True)


def collection(store: PostgresStore) -> str:
    active = store.database.read(lambda db: find(db, NS)).generation
    return active.collection


def found(store: PostgresStore, word: str) -> list[int]:
    ranking = StoreCalls(store).match(NS, word, 50, NO_FILTERS)
    assert ranking.notes == ()
    return [hit.id for hit in ranking.hits]

"""Removal of items that have expired. Searches do not show them from the moment of their expiry on."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from fourfold.filters import Test, field_at
from fourfold.model import Filters
from fourfold.storage.protocols import Store

_BATCH_ITEMS: Final = 1000
"""Items that one transaction removes, so that other writers do not wait for long."""


def remove_expired(store: Store, namespace: str, now: datetime) -> int:
    """Removes the items of a namespace that have expired; returns how many there were."""
    expired = Filters(where=Test(field_at(["expires_at"]), "lte", (now,)))
    removed = 0
    while _has_expired(store, namespace, now):
        with store.transaction(namespace) as tx:
            with store.snapshot(namespace) as snapshot:  # other writers wait: no item is renewed meanwhile
                ids = snapshot.rows.ids(expired)[:_BATCH_ITEMS]
            removed += tx.items.forget(ids)
    return removed


def _has_expired(store: Store, namespace: str, now: datetime) -> bool:
    with store.snapshot(namespace) as snapshot:
        return snapshot.hidden.expiring and snapshot.rows.last_expiry(now) is not None

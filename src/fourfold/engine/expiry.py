"""Removal of items that have expired. Searches do not show them from the moment of their expiry on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from fourfold.errors import InvalidItem
from fourfold.filters import Test, field_at
from fourfold.model import Filters
from fourfold.storage.protocols import Store

_BATCH_ITEMS: Final = 1000
"""Items that one transaction removes, so that other writers do not wait for long."""


def in_future(expires_at: datetime | None) -> datetime | None:
    """The expiry that a person or an agent gives; InvalidItem if it has passed, because nothing would find the item."""
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise InvalidItem(f"it would have expired on {expires_at:%Y-%m-%d %H:%M}", "Give a time in the future")
    return expires_at


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

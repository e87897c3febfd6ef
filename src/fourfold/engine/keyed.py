"""Requests with a key: the transaction that carries one out records it, so that it is never carried out again."""

from __future__ import annotations

from collections.abc import Generator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from fourfold.model import NewItem
from fourfold.storage.protocols import Transaction

if TYPE_CHECKING:
    from fourfold.storage.exchange import Importer


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    name: bytes
    """Identifies the caller and the key."""
    fingerprint: bytes
    """Identifies what is asked."""

    def part(self, number: int) -> KeyedRequest:
        return replace(self, name=sha256(self.name + number.to_bytes(8)).digest())


class Repeated(Exception):
    """The request was carried out before; nothing is changed."""

    def __init__(self, fingerprint: bytes, outcome: Sequence[int]) -> None:
        super().__init__("carried out before")
        self.fingerprint = fingerprint
        self.outcome = outcome


_current: Final[ContextVar[KeyedRequest | None]] = ContextVar("keyed_request", default=None)


@contextmanager
def carrying_out(request: KeyedRequest) -> Generator[None]:
    """Every transaction of a method of Memory inside belongs to this request."""
    token = _current.set(request)
    try:
        yield
    finally:
        _current.reset(token)


def check(tx: Transaction) -> None:
    """Raises Repeated if the current request is recorded. Other writers wait, so it stays unrecorded otherwise."""
    request = _current.get()
    if request is not None and (carried_out := tx.requests.find(request.name)) is not None:
        raise Repeated(*carried_out)


def done(tx: Transaction, outcome: Sequence[int] = ()) -> None:
    """Records the current request with the ids or counts that its answer is made from."""
    if (request := _current.get()) is not None:
        tx.requests.record(request.name, request.fingerprint, outcome, datetime.now(UTC))


IMPORTED: Final = ("item", "raw", "node", "edge")
"""The kinds of records whose counts are the outcome of an import."""


class Batches:
    """Stores the batches of an import, each of them once for the current request."""

    def __init__(self, memory: Importer) -> None:
        self.store = memory.store
        self._memory = memory
        self._number = 0

    def add_many(self, items: Sequence[NewItem]) -> Sized:
        request = _current.get()
        if request is None:
            return self._memory.add_many(items)
        self._number += 1
        try:
            with carrying_out(request.part(self._number)):
                return self._memory.add_many(items)
        except Repeated as known:
            return known.outcome

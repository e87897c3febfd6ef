"""Idempotency-Key: a write that is sent again, also after the server was killed, is carried out once.

The transaction that carries a request out records it, with the ids or counts that the answer is made from
(`engine.keyed`). A repeated request is answered from what is stored now. Nothing is recorded of a request that failed:
it changed nothing.
"""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request

from fourfold.engine import keyed
from fourfold.engine.keyed import KeyedRequest, Repeated
from fourfold.errors import NotFound
from fourfold.memory import Memory
from fourfold.serve.guard import token_of
from fourfold.serve.http.problems import HttpError

KEY_HEADER: Final = "idempotency-key"
KEY_CHARACTERS: Final = 255

T = TypeVar("T")


class Once:
    """Carries a write out, unless the request with its key was carried out before."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def __call__(self, memory: Memory, do: Callable[[], T], again: Callable[[Sequence[int]], T]) -> T:
        """What `do` returns; for a repeated request what `again` makes of the recorded outcome."""
        request = self._keyed()
        if request is None:
            return do()
        try:
            with keyed.carrying_out(request):
                with memory.store.transaction(memory.namespace) as tx:
                    keyed.check(tx)
                return do()
        except Repeated as known:
            return self._again(request, known, again)

    def _again(self, request: KeyedRequest, known: Repeated, again: Callable[[Sequence[int]], T]) -> T:
        if known.fingerprint != request.fingerprint:
            raise HttpError(422, "this key was used for another request", "Use a new Idempotency-Key for each request")
        self._request.state.replayed = True
        try:
            return again(known.outcome)
        except NotFound as error:
            detail = f"this request was carried out before, and what it stored is gone: {error.message}"
            raise HttpError(410, detail, "Use a new Idempotency-Key to store it again") from error

    def _keyed(self) -> KeyedRequest | None:
        request = self._request
        key = request.headers.get(KEY_HEADER)
        if key is None:
            return None
        if not 0 < len(key) <= KEY_CHARACTERS or not key.isascii() or not key.isprintable():
            raise HttpError(400, "the Idempotency-Key is not valid", f"Send 1 to {KEY_CHARACTERS} ASCII characters")
        parts = (request.method, request.url.path, request.url.query, request.headers.get("if-match", ""))
        return KeyedRequest(
            sha256(f"{token_of(request.headers) or ''}\0{key}".encode()).digest(),
            sha256("\0".join(parts).encode() + b"\0" + request.state.digest).digest(),
        )


async def _once(request: Request) -> Once:
    return Once(request)


OnlyOnce = Annotated[Once, Depends(_once)]
"""What every operation that writes calls its method of Memory through."""

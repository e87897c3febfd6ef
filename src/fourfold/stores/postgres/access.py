"""How a store reads and writes: one question to a namespace in one way, one write in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from psycopg import errors

from fourfold import limits
from fourfold.errors import StoreBusy, TimedOut
from fourfold.stores.postgres import address, spaces
from fourfold.stores.postgres.database import Database
from fourfold.stores.postgres.spaces import Namespace
from fourfold.stores.postgres.sql import Answer, Db, Statement, together

P = ParamSpec("P")
T = TypeVar("T")


class Access:
    def __init__(self, dsn: str) -> None:
        self.address = address.parse(dsn)
        self._db = Database(self.address)
        self._writing: dict[str, asyncio.Lock] = {}
        self._seen: dict[str, Namespace] = {}
        """Namespaces as they were when they were last read."""

    def _undone(self) -> None:
        """A write has failed, and nothing of it is there."""

    async def _read(
        self,
        namespace: str,
        empty: T,
        work: Callable[Concatenate[Db, Namespace, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`work(db, ns, ...)` with a connection; `empty` where there is no such namespace."""

        async def reading(db: Db) -> T:
            ns = await spaces.find(db, namespace)
            if ns is None:
                return empty
            self._seen[namespace] = ns
            return await work(db, ns, *args, **kwargs)

        return await self._in_time(reading)

    async def _ask(
        self,
        namespace: str,
        empty: T,
        statements: Callable[[Namespace], Sequence[Statement]],
        work: Callable[[Db, Namespace, list[list[Answer]]], Awaitable[T]],
    ) -> T:
        """`work(db, ns, answers)`. Questions to a namespace that was seen before go with the look for it: one way."""

        async def reading(db: Db) -> T:
            guess = self._seen.get(namespace)
            asked = statements(guess) if guess is not None else ()
            try:
                (found, *answers) = await together(db, [spaces.finding(namespace), *asked])
            except errors.UndefinedTable:  # an index that was there when we last looked
                guess, asked = None, ()
                (found, *answers) = await together(db, [spaces.finding(namespace)])
            ns = spaces.found(found)
            if ns is None:
                return empty
            self._seen[namespace] = ns
            if ns != guess and list(wanted := statements(ns)) != list(asked):
                answers = await together(db, wanted)
            return await work(db, ns, answers)

        return await self._in_time(reading)

    async def _in_time(self, reading: Callable[[Db], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(limits.READ_SECONDS):
                return await self._db.read(reading)
        except TimeoutError as error:
            shown = self.address.shown
            raise TimedOut(f"{shown} did not answer within {limits.READ_SECONDS:g} s", "Ask for less") from error

    async def _write(
        self,
        namespace: str,
        work: Callable[Concatenate[Db, Namespace, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """`work(db, ns, ...)` in one transaction, with the namespace to ourselves."""
        turn = self._writing.setdefault(namespace, asyncio.Lock())
        try:
            async with asyncio.timeout(limits.BUSY_SECONDS):
                await turn.acquire()
        except TimeoutError as error:
            raise StoreBusy(f"{namespace} has been written to for {limits.BUSY_SECONDS:g} s", "Try again") from error
        try:
            async with self._db.write() as db:
                ns = await spaces.ensure(db, namespace)
                done = await work(db, ns, *args, **kwargs)
                await spaces.store(db, ns)
                return done
        except BaseException:
            self._undone()
            raise
        finally:
            turn.release()

    async def _take(self, namespace: str, nothing: T, work: Callable[[Db, Namespace], Awaitable[T]]) -> T:
        """A write that takes something away; it makes no namespace, and gives `nothing` where there is none."""

        async def known(db: Db, ns: Namespace) -> bool:
            return True

        return await self._write(namespace, work) if await self._read(namespace, False, known) else nothing

"""What follows writing by itself: vectors for what waits, and published indexes. It never fails what it follows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from fourfold.embed.queue import Progress, Vectorizer
from fourfold.errors import FourfoldError
from fourfold.stores.base import Store

_QUIET_SECONDS = 0.25
"""Indexes are published when writing has paused for this long, so that a bulk load publishes once."""
_LONGEST_WAIT = 30.0
"""But writing that never pauses does not keep them from being published for longer than this."""
_WATCH_SECONDS = 2.0
_CANCEL_AGAIN_SECONDS = 1.0
"""How often a long-lived process looks for work that others left."""
_LONGEST_PAUSE = 60.0
"""Between attempts of an embedder that fails."""
NO_VECTORS = "vectors are not being made"
NO_INDEX = "indexes are not being published"
_STOPPED = "work in the background has stopped"


class Upkeep:
    """One store's, for one Memory. With `watch` it also works for other processes, which may be gone by now."""

    def __init__(self, store: Store, vectorizer: Vectorizer | None, namespace: str, *, watch: bool) -> None:
        self._store = store
        self._vectorizer = vectorizer
        self._namespace = namespace
        self._watches = watch
        self._writes = 0
        self._busy = 0
        self._due = {namespace}
        """Namespaces that something was written to since they were published."""
        self._served = {namespace}
        """Namespaces that this process has written to."""
        self._woken = asyncio.Event()
        self._publishing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self.troubles: dict[str, str] = {}
        """What goes wrong, with the reason; searches say it in their notes."""

    def start(self) -> None:
        if self._watches and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch())
            self._watching.add_done_callback(self._ended)

    @contextmanager
    def writing(self, namespace: str) -> Generator[None]:
        """Around a write; it may have happened even if the block is cancelled."""
        self._served.add(namespace)
        self._busy += 1
        self._publish_soon()
        try:
            yield
        finally:
            self._busy -= 1
            self._writes += 1
            self._due.add(namespace)
            self._woken.set()
            self.start()
            self._publish_soon()

    async def close(self) -> None:
        """Publishes what is due; what waits for a vector goes on waiting."""
        for task in (self._watching, self._publishing):
            if task is not None:
                await _cancelled(task)
        await self._maintain()

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that a bug has ended says so."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.troubles[_STOPPED] = f"{type(error).__name__}: {error}"

    # ------------------------------------------------------------ indexes

    def _publish_soon(self) -> None:
        if self._publishing is None or self._publishing.done():
            self._publishing = asyncio.create_task(self._publish_when_quiet())
            self._publishing.add_done_callback(self._ended)

    async def _publish_when_quiet(self) -> None:
        done = False
        while not done:
            until, seen = time.monotonic() + _LONGEST_WAIT, -1
            while (self._busy or seen != self._writes) and time.monotonic() < until:
                seen = self._writes
                await asyncio.sleep(_QUIET_SECONDS)
            done = await self._maintain()

    async def _maintain(self) -> bool:
        """Whether all that is due is done. Indexes are caches: what keeps them from being published stops nothing."""
        try:
            for namespace in sorted({self._namespace, *self._due}):
                if await self._store.maintain(namespace):
                    self._due.discard(namespace)
            self.troubles.pop(NO_INDEX, None)
        except FourfoldError as error:
            self.troubles[NO_INDEX] = str(error)
            return True
        return not self._due

    # ------------------------------------------------------------ vectors

    async def _watch(self) -> None:
        pause = _WATCH_SECONDS
        while True:
            self._woken.clear()
            pause = _WATCH_SECONDS if await self._drain() else min(pause * 2, _LONGEST_PAUSE)
            if self._publishing is None or self._publishing.done():
                await self._maintain()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def _drain(self) -> bool:
        """Vectors for all that waits, in every namespace of this embedder's space. False if it failed."""
        if self._vectorizer is None:
            return True
        vectorizer, troubles = self._vectorizer, list[str]()
        try:
            queues = [name for name in await self._store.queues() if await self._is_ours(name, vectorizer)]
        except FourfoldError as error:
            queues, troubles = [], [str(error)]
        for namespace in queues:
            try:
                await self.drain(vectorizer, namespace)
            except FourfoldError as error:
                troubles.append(str(error))
        if troubles:
            self.troubles[NO_VECTORS] = troubles[0]
        return not troubles

    async def drain(
        self,
        vectorizer: Vectorizer,
        namespace: str,
        progress: Progress | None = None,
        *,
        patiently: bool = False,
        seconds: float | None = None,
    ) -> int:
        """The queue of one namespace; its indexes follow while that goes on."""

        def going_on(done: int, total: int) -> None:
            self._due.add(namespace)
            self._publish_soon()
            if progress is not None:
                progress(done, total)

        made = await vectorizer.drain(namespace, going_on, patiently=patiently, seconds=seconds)
        self.troubles.pop(NO_VECTORS, None)
        return made

    async def _is_ours(self, namespace: str, vectorizer: Vectorizer) -> bool:
        if namespace in self._served:
            return True
        space = await self._store.space(namespace)
        return space is not None and space.fingerprint == vectorizer.embedder.fingerprint


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancels a task until it has ended: `asyncio.wait_for`, which drivers use, may swallow one in Python 3.11."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_CANCEL_AGAIN_SECONDS)

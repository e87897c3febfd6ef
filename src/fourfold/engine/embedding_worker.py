"""The embedding worker: a detached process that makes the vectors which a short command left pending.

One worker per store: it holds `Store.lease(None)`, which the operating system or the server takes back when it dies.
It embeds every namespace of its embedder's vector space and ends when nothing is pending. Where a worker is running, a
second one ends at once. The first looks at the queues again after it has released the lease, so that items stored in
between are not left behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fourfold import addresses, child_process
from fourfold.errors import FourfoldError, WorldError

if TYPE_CHECKING:
    from fourfold.config import Settings
    from fourfold.memory import Memory
    from fourfold.model import Json

RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Pauses between attempts while the embedder or the store does not answer; after the last one the worker gives up."""
_LEASE_ATTEMPTS: Final = 10
_LEASE_PAUSE_SECONDS: Final = 0.1
"""`status` holds the lease for a moment to see whether it is free."""
_NICE: Final = 5
_FOLDER_MODEL: Final = "onnx:"
started: Final[list[subprocess.Popen[bytes]]] = []
"""Keeps the objects: one that is collected before its process ends causes a ResourceWarning."""


def start(settings: Settings) -> bool:
    """Starts a worker that outlives this process and its terminal. False if no process can be started.

    Settings travel through a pipe: neither arguments nor the environment may show a key or a password.
    """
    try:
        process = child_process.start_detached(__name__, stdin=subprocess.PIPE)
    except child_process.CannotStart:
        return False
    started.append(process)
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.write(json.dumps(_needed(settings)).encode())
            process.stdin.close()
    return True


def _needed(settings: Settings) -> dict[str, Json]:
    """What the worker has to know, with paths that hold in its own working folder."""
    names = [item.name for item in fields(settings) if item.name.startswith("openai_")]
    store, embedder = settings.store, settings.embedder
    if store is not None and not addresses.is_address(store):
        store = str(Path(store).expanduser().absolute())
    if embedder.startswith(_FOLDER_MODEL):
        embedder = _FOLDER_MODEL + str(Path(embedder.removeprefix(_FOLDER_MODEL)).expanduser().absolute())
    own = {"store": store, "namespace": settings.namespace, "embedder": embedder}
    return own | {name: getattr(settings, name) for name in names}


async def work(memory: Memory, pauses: Sequence[float] = RETRY_SECONDS) -> None:
    """What the process does with an open store."""
    if memory.namespace in await memory.store.queues() and await memory.store.space(memory.namespace) is None:
        # The first batch fixes the space: a worker that is running then embeds this namespace, too.
        with suppress(WorldError):  # tried again below
            await memory.embed_pending(seconds=0)
    await embed_all(memory, pauses)


async def embed_all(memory: Memory, pauses: Sequence[float] = RETRY_SECONDS) -> None:
    """Makes every pending vector of the embedder's space, unless another process is the worker."""
    fingerprint, refused = (await memory.status())["embedder"], 0
    while refused < _LEASE_ATTEMPTS and await _queues(memory, fingerprint):
        async with memory.store.lease(None) as mine:
            if mine and not await _embed(memory, fingerprint, pauses):
                return
        refused = 0 if mine else refused + 1
        if not mine:
            await asyncio.sleep(_LEASE_PAUSE_SECONDS)


async def _queues(memory: Memory, fingerprint: str) -> list[str]:
    """Namespaces with pending items whose vectors come from this embedder."""
    spaces = {name: await memory.store.space(name) for name in await memory.store.queues()}
    return [
        name
        for name, space in spaces.items()
        if (space.fingerprint == fingerprint if space is not None else name == memory.namespace)
    ]


async def _embed(memory: Memory, fingerprint: str, pauses: Sequence[float]) -> bool:
    """Drains the queues. False if the embedder or the store does not answer after all pauses."""
    left = list(pauses)
    while queues := await _queues(memory, fingerprint):
        try:
            for name in queues:
                await memory.within(name).embed_pending()
                left = list(pauses)
        except WorldError:
            if not left:
                return False
            await asyncio.sleep(left.pop(0))
    return True


async def _work(settings: Settings) -> None:
    from fourfold.memory import Memory

    opened = await Memory.open(settings.store, settings=settings, background=False, create=False)
    async with opened as memory:
        await work(memory)


def main() -> None:
    """The entry point of the process."""
    from fourfold.config import Settings

    settings = Settings(**json.load(sys.stdin))
    if sys.platform != "win32":
        os.nice(_NICE)
    with suppress(FourfoldError):  # `status` counts what is still pending, and `embed` shows the error
        asyncio.run(_work(settings))

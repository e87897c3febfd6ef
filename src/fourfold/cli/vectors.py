"""embed, and the embedding worker: a detached process that makes the vectors that a short command left pending.

One worker per store: it holds `maintenance.lease(None)`, which is released when the process dies. It embeds every
namespace of its embedder's vector space and ends when nothing is pending. If a worker is running, a second one ends at
once. The first reads the queues again after it has released the lease, so that no item stored in between is left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from fourfold import addresses, child_process, errors
from fourfold.cli.commands import open_memory, option
from fourfold.cli.output import counted, progress_bar, say, waiting_for_vectors, warn

if TYPE_CHECKING:
    from fourfold.config import Settings
    from fourfold.memory import Memory
    from fourfold.model import Json, Space
    from fourfold.storage.values import Size

WaitFlag = Annotated[
    bool | None,
    option(
        "--wait/--no-wait",
        help="Wait until every vector is made, or return at once and leave them to a background process. "
        "Default: wait on a terminal; elsewhere embed for a few seconds (setting embed_seconds), then leave the rest.",
        show_default=False,
    ),
]


def embed() -> None:
    with open_memory() as memory:
        made, size = _embed(memory), _size(memory)
        if memory.settings.embedder == "none":
            raise errors.RequestError("no embedder is set", "Set one: FOURFOLD_EMBEDDER=builtin")
    say(f"made {counted(made, 'vector')}; {size.vectors} of {size.items} items have one")


def finish_vectors(memory: Memory, wait: bool | None) -> None:
    """Makes pending vectors as long as the caller waits, and starts a worker for the rest, even when interrupted."""
    if memory.settings.embedder == "none":
        return
    try:
        _wait(memory, wait)
    finally:
        _start_worker(memory)


def _wait(memory: Memory, wait: bool | None) -> None:
    pending = memory.namespace in memory.queues()
    if not wait and (wait is False or not pending):
        return
    patient = wait or sys.stderr.isatty()
    try:
        _embed(memory, None if patient else memory.settings.embed_seconds)
    except (errors.SpaceMismatch, errors.WorldError) as error:
        if wait:
            raise
        warn(f"stored, but vectors are not being made: {error}")


def _embed(memory: Memory, seconds: float | None = None) -> int:
    with progress_bar("vectors") as progress:
        return memory.embed_pending(progress, seconds=seconds)


def _size(memory: Memory) -> Size:
    with memory.store.snapshot(memory.namespace) as snapshot:
        return snapshot.size


def _start_worker(memory: Memory) -> None:
    """Starts the process that embeds what is still pending in the namespace after this one has ended."""
    if memory.namespace not in memory.queues():
        return
    size = _size(memory)
    pending = size.pending or size.items  # all of them, where an earlier version made their vectors
    waits = waiting_for_vectors(pending)
    if start(replace(memory.settings, namespace=memory.namespace)):
        warn(f"{waits}: a background process makes them (`fourfold status` shows it, `fourfold embed` waits)")
    else:
        warn(f"{waits}: `fourfold embed` makes them")


# ---------------------------------------------------------------- the worker

RETRY_SECONDS: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Pauses between attempts while the embedder or the store does not answer; after the last one the worker gives up."""
_LEASE_ATTEMPTS: Final = 10
_LEASE_PAUSE_SECONDS: Final = 0.1
"""`status` holds the lease for a moment to see whether it is free."""
_NICE: Final = 5
started: Final[list[subprocess.Popen[bytes]]] = []
"""Keeps the objects: one that is collected before its process ends causes a ResourceWarning."""


def start(settings: Settings) -> bool:
    """Starts a worker that outlives this process and its terminal. False if no process can be started.

    Settings travel through a pipe: neither arguments nor the environment may show a key or a password.
    """
    try:
        process = child_process.start(__name__, stdin=subprocess.PIPE, detached=True)
    except child_process.CannotStart:
        return False
    started.append(process)
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.write(json.dumps(_needed(settings)).encode())
            process.stdin.close()
    return True


def _needed(settings: Settings) -> dict[str, Json]:
    """The settings of the worker, with absolute paths: it has another working folder."""
    from fourfold.embed import model_folder

    names = [item.name for item in fields(settings) if item.name.startswith(("openai_", "onnx_"))]
    store, embedder = settings.store, settings.embedder
    if store is not None and not addresses.is_address(store):
        store = str(Path(store).expanduser().absolute())
    if (place := model_folder(embedder)) is not None:
        embedder = f"{embedder.partition(':')[0]}:{place.expanduser().absolute()}"
    own = {"store": store, "namespace": settings.namespace, "embedder": embedder}
    return own | {name: getattr(settings, name) for name in names}


def work(memory: Memory, pauses: Sequence[float] = RETRY_SECONDS) -> None:
    """The work of the process on an open store."""
    if memory.namespace in memory.queues() and _space(memory, memory.namespace) is None:
        # The first batch fixes the space: a worker that is running then embeds this namespace, too.
        with suppress(errors.WorldError):  # retried below
            memory.embed_pending(seconds=0)
    embed_all(memory, pauses)


def embed_all(memory: Memory, pauses: Sequence[float] = RETRY_SECONDS) -> None:
    """Makes every pending vector of the embedder's space, unless another process is the worker."""
    refused = 0
    while refused < _LEASE_ATTEMPTS and _queues(memory):
        with memory.store.maintenance.lease(None) as mine:
            if mine and not _drain(memory, pauses):
                return
        refused = 0 if mine else refused + 1
        if not mine:
            time.sleep(_LEASE_PAUSE_SECONDS)


def _queues(memory: Memory) -> list[str]:
    """Namespaces with pending items whose vectors come from this embedder."""
    spaces = {name: _space(memory, name) for name in memory.queues()}
    return [
        name
        for name, space in spaces.items()
        if (memory.embeds_in(space) if space is not None else name == memory.namespace)
    ]


def _space(memory: Memory, namespace: str) -> Space | None:
    with memory.store.snapshot(namespace) as snapshot:
        return snapshot.space


def _drain(memory: Memory, pauses: Sequence[float]) -> bool:
    """Drains the queues. False if the embedder or the store does not answer after all pauses."""
    left = list(pauses)
    while queues := _queues(memory):
        try:
            for name in queues:
                memory.within(name).embed_pending()
                left = list(pauses)
        except errors.WorldError:
            if not left:
                return False
            time.sleep(left.pop(0))
    return True


def main() -> None:
    """The entry point of the process."""
    from fourfold.config import Settings

    settings = Settings(**json.load(sys.stdin))
    if sys.platform != "win32":
        os.nice(_NICE)
    with suppress(errors.FourfoldError):  # `status` counts what is still pending, and `embed` shows the error
        from fourfold.memory import Memory

        with Memory.open(settings.store, settings=settings, background=False, create=False) as memory:
            work(memory)

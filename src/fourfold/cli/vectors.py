"""embed, and the vectors of items that other commands stored."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from fourfold.cli.commands import open_memory, option
from fourfold.cli.output import say, warn
from fourfold.errors import EmbedderUnavailable, MissingExtra, RequestError, SpaceMismatch

if TYPE_CHECKING:
    from fourfold.memory import Memory
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
            raise RequestError("no embedder is set", "Set one: FOURFOLD_EMBEDDER=builtin")
    say(f"made {made} vector{'s' * (made != 1)}; {size.vectors} of {size.items} items have one")


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
    except (EmbedderUnavailable, MissingExtra, SpaceMismatch) as error:
        if wait:
            raise
        warn(f"stored, but vectors are not being made: {error}")


def _embed(memory: Memory, seconds: float | None = None) -> int:
    from fourfold.cli.render import progress_bar

    with progress_bar("vectors") as progress:
        return memory.embed_pending(progress, seconds=seconds)


def _size(memory: Memory) -> Size:
    with memory.store.snapshot(memory.namespace) as snapshot:
        return snapshot.size


def _start_worker(memory: Memory) -> None:
    """Starts the process that embeds what is still pending in the namespace after this one has ended."""
    if memory.namespace not in memory.queues():
        return
    from dataclasses import replace

    from fourfold.cli import embedding_worker

    size = _size(memory)
    pending = size.pending or size.items  # all of them, where an earlier version made their vectors
    waits = "1 item waits for its vector" if pending == 1 else f"{pending} items wait for their vectors"
    if embedding_worker.start(replace(memory.settings, namespace=memory.namespace)):
        warn(f"{waits}: a background process makes them (`fourfold status` shows it, `fourfold embed` waits)")
    else:
        warn(f"{waits}: `fourfold embed` makes them")

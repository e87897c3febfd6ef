"""AsyncMemory: the methods of Memory for programs with an event loop.

Every call runs in a thread of a pool, so blocking I/O never runs on the event loop. A cancelled call is abandoned, not
undone: a write that has begun is completed, a read ends by its own deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from copy import copy
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from fourfold import threads
from fourfold.client import RemoteMemory
from fourfold.config import Settings
from fourfold.memory import Memory
from fourfold.retrieval import SearchResponse

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

THREADS = 32
"""Calls that one AsyncMemory runs at a time; others wait for a thread."""


def _threaded(
    method: Callable[Concatenate[Memory, P], T],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]]:
    """The method of Memory, with its parameters and its result, run in a thread."""

    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound = getattr(self._memory, method.__name__)  # pyright: ignore[reportPrivateUsage]
        return await self._run(partial(bound, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


def _opening(method: Callable[P, Memory]) -> Callable[P, Coroutine[Any, Any, AsyncMemory]]:
    @wraps(method)
    async def call(*args: P.args, **kwargs: P.kwargs) -> AsyncMemory:
        return AsyncMemory(await asyncio.to_thread(method, *args, **kwargs))

    return call


def _alone(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return call


def _awaitable(call: Callable[[], T], begin: Callable[[Callable[[], None]], threads.Task[None]]) -> asyncio.Future[T]:
    """The result of a call that `begin` runs in another thread, unless it is cancelled before."""
    future: Future[T] = Future()

    def run() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  the awaiting caller gets it
                future.set_exception(error)

    task = begin(run)
    if task.done.is_set:
        task.result()  # raises if no thread could be started
    return asyncio.wrap_future(future)


def _complete(kind: C) -> C:
    """Adds the methods of Memory that the class does not name: its lines tell type checkers what there is."""
    for name in dir(Memory):
        if not name.startswith("_") and not hasattr(kind, name):
            setattr(kind, name, _threaded(getattr(Memory, name)))
    return kind


@_complete
class AsyncMemory:
    """Memory for asyncio.

    async with await AsyncMemory.open("notes") as memory:
        await memory.add("The router's password is in the blue folder")
        response = await memory.search("how do I get into the network?")
    """

    def __init__(self, memory: Memory | RemoteMemory) -> None:
        """`AsyncMemory(fourfold.connect(URL))` has the methods that a server offers."""
        self._memory = memory
        self._threads = threads.Workers(THREADS, "fourfold-call")

    async def _run(self, call: Callable[[], T]) -> T:
        self._memory.owner.check()  # a forked child would wait for a thread that it does not have
        return await _awaitable(call, self._threads.submit)

    def note_search(self, response: SearchResponse, via: str, namespaces: Sequence[str]) -> None:
        """Keeps a receipt of a search; a server keeps its own."""
        if isinstance(self._memory, Memory):
            self._memory.receipts.add_response(response, via, namespaces)

    async def run(self, call: Callable[[Memory], T]) -> T:
        """Runs a function of the blocking Memory in one thread, with the caller's context variables."""
        context, memory = copy_context(), cast("Memory", self._memory)
        return await self._run(lambda: context.run(call, memory))

    open = staticmethod(_opening(Memory.open))
    restore = staticmethod(_alone(Memory.restore))

    # storing
    add = _threaded(Memory.add)
    add_many = _threaded(Memory.add_many)
    update = _threaded(Memory.update)
    undo = _threaded(Memory.undo)
    history = _threaded(Memory.history)
    merge = _threaded(Memory.merge)
    similar = _threaded(Memory.similar)
    duplicates = _threaded(Memory.duplicates)
    get = _threaded(Memory.get)
    around = _threaded(Memory.around)
    list = _threaded(Memory.list)
    count = _threaded(Memory.count)
    forget = _threaded(Memory.forget)
    delete = forget
    forget_matching = _threaded(Memory.forget_matching)
    unknown_names = _threaded(Memory.unknown_names)
    add_raw = _threaded(Memory.add_raw)
    get_raw = _threaded(Memory.get_raw)
    list_raw = _threaded(Memory.list_raw)
    forget_raw = _threaded(Memory.forget_raw)
    sources = _threaded(Memory.sources)
    proposals = _threaded(Memory.proposals)
    propose = _threaded(Memory.propose)
    accept_proposals = _threaded(Memory.accept_proposals)
    edit_proposal = _threaded(Memory.edit_proposal)
    drop_proposals = _threaded(Memory.drop_proposals)
    pending = _threaded(Memory.pending)
    # searching
    search = _threaded(Memory.search)
    why = _threaded(Memory.why)
    analyze = _threaded(Memory.analyze)
    # vectors and files
    embed_pending = _threaded(Memory.embed_pending)
    queues = _threaded(Memory.queues)
    embeds_in = _threaded(Memory.embeds_in)
    reembed = _threaded(Memory.reembed)
    index_folders = _threaded(Memory.index_folders)
    import_sessions = _threaded(Memory.import_sessions)
    index = _threaded(Memory.index)
    # graph
    add_node = _threaded(Memory.add_node)
    add_edge = _threaded(Memory.add_edge)
    add_edges = _threaded(Memory.add_edges)
    nodes = _threaded(Memory.nodes)
    node = _threaded(Memory.node)
    neighbors = _threaded(Memory.neighbors)
    path = _threaded(Memory.path)
    remove_node = _threaded(Memory.remove_node)
    remove_edge = _threaded(Memory.remove_edge)
    # the whole store
    tags = _threaded(Memory.tags)
    kinds = _threaded(Memory.kinds)
    languages = _threaded(Memory.languages)
    metadata_keys = _threaded(Memory.metadata_keys)
    namespaces = _threaded(Memory.namespaces)
    status = _threaded(Memory.status)
    stats = _threaded(Memory.stats)
    check = _threaded(Memory.check)
    repair = _threaded(Memory.repair)
    scan_secrets = _threaded(Memory.scan_secrets)
    backup = _threaded(Memory.backup)
    export = _threaded(Memory.export)
    move = _threaded(Memory.move)
    import_file = _threaded(Memory.import_file)
    sync = _threaded(Memory.sync)
    sync_step = _threaded(Memory.sync_step)

    @property
    def namespace(self) -> str:
        return self._memory.namespace

    @property
    def settings(self) -> Settings:
        return self._memory.settings

    def within(self, namespace: str) -> Self:
        """The same store, acting on another namespace. It shares everything with this object, and closes with it."""
        view = copy(self)
        view._memory = self._memory.within(namespace)
        return view

    def troubles(self) -> dict[str, str]:
        """Failures of background work, with their reasons; searches report them in their notes."""
        return self._memory.troubles()

    async def close(self) -> None:
        """Closes the memory when the calls that are running have ended."""
        await _awaitable(self._close, partial(threads.start, name="fourfold-close"))

    def _close(self) -> None:
        try:
            self._memory.close()
        finally:
            self._threads.close()  # a call that is still running ends now, since its store is closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

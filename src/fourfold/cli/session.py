"""From what stood on the command line to an open store."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fourfold.errors import InvalidSetting

if TYPE_CHECKING:
    import typer

    from fourfold.config import Loaded, Settings
    from fourfold.logs import Format, Level
    from fourfold.memory import Memory

T = TypeVar("T")


@dataclass(frozen=True)
class Globals:
    """What stood before the command."""

    store: str | None = None
    namespace: str | None = None
    config: Path | None = None
    log_level: Level | None = None
    log_format: Format | None = None


def load_config(ctx: typer.Context) -> Loaded:
    from fourfold import logs
    from fourfold.config import load

    given = cast("Globals", ctx.obj)
    flags = {name: value for name, value in vars(given).items() if name != "config"}
    loaded = load(flags, os.environ, given.config)
    logs.configure(loaded.settings.log_level, loaded.settings.log_format)
    return loaded


def namespaces(settings: Settings) -> tuple[str, ...]:
    """`--namespace A,B` names several (B15)."""
    names = tuple(dict.fromkeys(name.strip() for name in settings.namespace.split(",") if name.strip()))
    if not names:
        raise InvalidSetting("the namespace has no name", "Write --namespace NAME")
    return names


def run(
    ctx: typer.Context, work: Callable[[Memory], Awaitable[T]], *, create: bool = False, background: bool = False
) -> T:
    """What `work` makes of the store, opened for one namespace and closed again.

    `create`: a store that does not exist is created; otherwise that is a StoreNotFound.
    `background`: this process stays, so it makes vectors and publishes indexes, for others too.
    """
    settings = load_config(ctx).settings
    if len(namespaces(settings)) > 1:
        raise InvalidSetting(f"{settings.namespace} are several namespaces", "Only `search` takes more than one")
    return wait_for(_run(settings, work, create=create, background=background))


def run_across(ctx: typer.Context, work: Callable[[Memory, tuple[str, ...]], Awaitable[T]]) -> T:
    """The same for several namespaces; the store is opened for the first of them."""
    settings = load_config(ctx).settings
    return wait_for(_run(settings, lambda memory: work(memory, namespaces(settings))))


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(work)


async def _run(
    settings: Settings, work: Callable[[Memory], Awaitable[T]], *, create: bool = False, background: bool = False
) -> T:
    from fourfold.memory import Memory

    name = namespaces(settings)[0]
    opened = await Memory.open(settings.store, namespace=name, settings=settings, background=background, create=create)
    async with opened as memory:
        return await work(memory)

"""From the global options to an open store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from fourfold.errors import InvalidSetting

if TYPE_CHECKING:
    from fourfold.config import Loaded, Settings
    from fourfold.logs import Format, Level
    from fourfold.memory import Memory
    from fourfold.retrieval import SearchResponse


@dataclass(frozen=True)
class Globals:
    """The global options."""

    store: str | None = None
    namespace: str | None = None
    config: Path | None = None
    onnx_provider: str | None = None
    log_level: Level | None = None
    log_format: Format | None = None


def given_globals() -> Globals:
    """The global options of the command that runs in this thread."""
    return click.get_current_context().obj


def load_config(given: Globals | None = None) -> Loaded:
    from fourfold import logs
    from fourfold.config import load

    given = given or given_globals()
    flags = {name: value for name, value in vars(given).items() if name != "config"}
    loaded = load(flags, os.environ, given.config)
    if loaded.settings.store == ":memory:":
        from fourfold.engine.open_store import require_lasting

        require_lasting(loaded.settings.store)
    logs.configure(loaded.settings.log_level, loaded.settings.log_format)
    return loaded


def namespaces(settings: Settings) -> tuple[str, ...]:
    """`--namespace A,B` names several."""
    names = tuple(dict.fromkeys(name.strip() for name in settings.namespace.split(",") if name.strip()))
    if not names:
        raise InvalidSetting("the namespace has no name", "Write --namespace NAME")
    return names


def open_memory(*, create: bool = False, background: bool = False) -> Memory:
    """Opens the store for the one namespace that is set.

    `create`: creates a store that does not exist; otherwise that is a StoreNotFound.
    `background`: makes vectors and publishes indexes, for other processes too: for a command that keeps running.
    """
    settings = load_config().settings
    if len(namespaces(settings)) > 1:
        raise InvalidSetting(f"{settings.namespace!r} names several namespaces", "Only `search` takes more than one")
    return _open(settings, create=create, background=background)


def search_namespaces(query: str, **options: Any) -> SearchResponse:
    """Searches all namespaces that are set."""
    settings = load_config().settings
    with _open(settings) as memory:
        return memory.search(query, namespaces=namespaces(settings), **options)


def _open(settings: Settings, *, create: bool = False, background: bool = False) -> Memory:
    from fourfold.memory import Memory

    name = namespaces(settings)[0]
    if settings.store is not None and settings.store.startswith(("http://", "https://")):
        from fourfold.client.remote import RemoteMemory

        # A command that needs the store itself ends with a NotOffered.
        return cast("Memory", RemoteMemory(settings.store, token=settings.token, namespace=name))
    return Memory.open(settings.store, namespace=name, settings=settings, background=background, create=create)

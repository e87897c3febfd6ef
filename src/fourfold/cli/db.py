"""db start, db stop: a local PostgreSQL server from a wheel. db index: a distributed index of a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import click

from fourfold.cli.commands import Group, open_memory, option
from fourfold.cli.output import one_line, say
from fourfold.errors import DamagedStore, InvalidSetting, NotFound, RequestError

if TYPE_CHECKING:
    from fourfold.storage.postgres.index_feed import Feeder
    from fourfold.storage.postgres.store import PostgresStore

app = Group("db", help="A local PostgreSQL with pgvector, and indexes.")

Data = Annotated[
    Path | None,
    option("--data", metavar="FOLDER", help="Data folder of the server; by default next to the user's store."),
]


@app.adds
def start(data: Data = None) -> None:
    """Start the server, making it if need be, and print the address of a store on it."""
    from fourfold.storage.postgres import start_server

    say(start_server(_folder(data)))


@app.adds
def stop(data: Data = None) -> None:
    """Stop the server. What it holds stays."""
    from fourfold.storage.postgres import stop_server

    say("stopped" if stop_server(_folder(data)) else "no server was running")


# ---------------------------------------------------------------- a distributed index

index = Group("index", help="A distributed index of words and vectors.")
app.add_command(index)


@index.adds
def create() -> None:
    """Create the index of the namespace, and fill it."""
    with _indexed() as (store, feeder, namespace):
        if not feeder.create(namespace):
            raise RequestError(f"{namespace} has an index", "fourfold db index rebuild makes a new one")
        _fill(store, namespace)


@index.adds
def rebuild() -> None:
    """Build a new generation, then switch to it."""
    with _indexed() as (store, feeder, namespace):
        if not feeder.rebuild(namespace):
            raise _no_index(namespace)
        _fill(store, namespace)


@index.adds
def check(
    repair: Annotated[bool, option("--repair", help="Repair what differs.")] = False,
) -> None:
    """Compare the index with the rows; exit code 4 if they differ."""
    with _indexed() as (store, _, namespace):
        done = store.maintenance.mend_index(namespace) if repair else []
        problems = store.maintenance.check_index()
    for line in (*done, *problems) or ("no problems found",):
        say(one_line(line))
    if problems:
        raise click.exceptions.Exit(DamagedStore.exit_code)


@index.adds
def drop() -> None:
    """Remove the index of the namespace; PostgreSQL then answers alone."""
    with _indexed() as (_, feeder, namespace):
        if not feeder.drop(namespace):
            raise _no_index(namespace)
    say("dropped")


@contextmanager
def _indexed() -> Generator[tuple[PostgresStore, Feeder, str]]:
    with open_memory() as memory:
        store = cast("PostgresStore", memory.store)
        feeder = getattr(store, "feeder", None)
        if feeder is None:
            raise InvalidSetting("no index is set", "Set `index` to weaviate://HOST:PORT or milvus://HOST:PORT")
        yield store, feeder, memory.namespace


def _fill(store: PostgresStore, namespace: str) -> None:
    if not store.maintenance.publish(namespace, everything=True):
        say("another process fills the index; `fourfold status` shows how far it is")
        return
    known = cast("dict[str, Any]", store.status()["namespaces"])[namespace]
    say(f"the index holds {known['items']} items")


def _no_index(namespace: str) -> NotFound:
    return NotFound(f"{namespace} has no index", "fourfold db index create makes one")


def _folder(given: Path | None) -> Path:
    from fourfold.config import default_store

    return given or default_store().with_name("postgres")

"""The store as a whole: facts that an operation returns, settings, checks, repairs, and PostgreSQL with its indexes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

import click

from fourfold.cli.commands import Group, Place, load_config, open_memory, option
from fourfold.cli.options import Carried, JsonFlag
from fourfold.cli.output import one_line, say, say_json, say_list, say_rows, warn
from fourfold.errors import DamagedStore, InvalidSetting, NotFound, RequestError
from fourfold.model import Json
from fourfold.operations import Operation
from fourfold.wire import encode, result_of

if TYPE_CHECKING:
    from fourfold.storage.postgres.index_feed import Feeder
    from fourfold.storage.postgres.store import PostgresStore

# ---------------------------------------------------------------- operations whose result is printed as it is


def derived(operation: Operation) -> Callable[..., None]:
    """The command of an operation."""

    def command(result: Any, as_json: bool) -> None:
        _say_result(operation, result, as_json=as_json)

    taken = {"result": Annotated[Any, Carried(operation.name)], "as_json": JsonFlag}
    cast("Any", command).__signature__ = Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind) for name, kind in taken.items()]
    )
    return command


def _say_result(operation: Operation, result: Any, *, as_json: bool) -> None:
    """Prints counts of names, a list of records, one record or facts, or a plain value."""
    name, element = operation.name, (*get_args(result_of(operation.name)), None)[0]
    if get_origin(element) is tuple:
        counts = cast("list[tuple[str, int]]", result)
        if as_json:
            say_json({"status": "success", name: dict(counts)})
        else:
            say_rows((name.removesuffix("s"), "items"), counts)
    elif isinstance(element, type) and is_dataclass(element):
        if not result and not as_json:
            warn(f"no {name} found")
        columns = [each.name for each in fields(element)]
        say_list(name, result, columns, lambda row: [getattr(row, each) for each in columns], as_json=as_json)
    elif isinstance(result, Mapping) or is_dataclass(result):
        facts = cast("Mapping[str, Json]", result) if isinstance(result, Mapping) else encode(result)
        if as_json:
            say_json({"status": "success", **facts})
        else:
            say_rows(("what", "value"), _flat(facts))
    elif as_json:
        say_json({"status": "success", name: result})
    else:
        say(_value(result))


def _flat(facts: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Json]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _value(value)


def _value(value: Json) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case None:
            return "-"
        case list() | tuple():
            return ", ".join(str(part) for part in cast("list[Json]", value))
        case _:
            return str(value)


# ---------------------------------------------------------------- settings, checks, repairs


def config(as_json: JsonFlag = False) -> None:
    shown = load_config().shown()
    if as_json:
        say_json({"status": "success", "settings": {name: setting._asdict() for name, setting in shown.items()}})
    else:
        say_rows(
            ("setting", "value", "from"),
            ((name, _value(setting.value), setting.origin) for name, setting in shown.items()),
        )


def check(as_json: JsonFlag = False) -> None:
    with open_memory() as memory:
        problems, facts = memory.check(), memory.status()
    counts = {name: facts_of["pending_vectors"] for name, facts_of in facts["namespaces"].items()}
    pending = {name: count for name, count in counts.items() if count and facts["embedder"] is not None}
    if as_json:
        form = {"status": "damaged" if problems else "success", "problems": problems, "pending_vectors": pending}
        say_json(form)
    else:
        for problem in problems or ("no problems found",):
            say(one_line(problem))
        for namespace, count in pending.items():
            waits = "1 item waits for its vector" if count == 1 else f"{count} items wait for their vectors"
            say(one_line(f"{namespace}: {waits}; `fourfold --namespace {namespace} embed` makes them"))
    if problems:
        raise click.exceptions.Exit(DamagedStore.exit_code)


def repair(
    purge: Annotated[bool, option("--purge", help="Also remove forgotten text from every file.")] = False,
) -> None:
    with open_memory() as memory:
        actions = memory.repair(purge=purge)
    for action in actions or ("nothing to repair",):
        say(one_line(action))


def scan_secrets(
    mask: Annotated[bool, option("--mask", help="Mask them, and remove them from every file.")] = False,
) -> None:
    from fourfold.cli import hook
    from fourfold.serve.http import judgements

    with open_memory() as memory:
        lines = judgements.scan(memory.settings, mask=mask) + hook.scan(mask=mask) + memory.scan_secrets(mask=mask)
    for line in lines or ("no secrets found",):
        say(one_line(line))


def reembed() -> None:
    from fourfold.cli.render import progress_bar

    with open_memory() as memory, progress_bar("vectors") as progress:
        made = memory.reembed(progress=progress)
    say(f"made {made} vectors")


# ---------------------------------------------------------------- PostgreSQL

db = Group("db", help="A local PostgreSQL with pgvector, and indexes.")

Data = Annotated[
    Path | None,
    option("--data", metavar="FOLDER", help="Data folder of the server; by default next to the user's store."),
]


@db.adds
def start(data: Data = None) -> None:
    """Start the server, making it if need be, and print the address of a store on it."""
    from fourfold.storage.postgres import start_server

    say(start_server(_folder(data)))


@db.adds
def stop(data: Data = None) -> None:
    """Stop the server. What it holds stays."""
    from fourfold.storage.postgres import stop_server

    say("stopped" if stop_server(_folder(data)) else "no server was running")


index = Group("index", help="A distributed index of words and vectors.")
db.places["index"] = Place(index, "A distributed index of words and vectors.")


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
def check_(
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
    facts = cast("dict[str, Any]", store.status()["namespaces"])[namespace]
    say(f"the index holds {facts['items']} items")


def _no_index(namespace: str) -> NotFound:
    return NotFound(f"{namespace} has no index", "fourfold db index create makes one")


def _folder(data: Path | None) -> Path:
    from fourfold.config import default_store

    return data or default_store().with_name("postgres")

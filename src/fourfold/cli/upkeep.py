"""The store as a whole: facts that an operation returns, settings, checks, repairs, and PostgreSQL with its indexes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast, get_args, get_origin

import click

from fourfold.cli import output
from fourfold.cli.commands import Group, Place, load_config, open_memory, option
from fourfold.cli.options import Carried, JsonFlag
from fourfold.errors import DamagedStore, InvalidSetting, NotFound, RequestError
from fourfold.model import Json, Stats
from fourfold.operations import Operation
from fourfold.wire import encode, result_of

if TYPE_CHECKING:
    from fourfold.storage.postgres.index_feed import Feeder
    from fourfold.storage.postgres.store import PostgresStore

# ---------------------------------------------------------------- operations whose result is printed as it is


def stats(receipts: Annotated[Stats, Carried("stats")], as_json: JsonFlag = False) -> None:
    if as_json:
        output.say_json({"status": "success", **encode(receipts)})
        return
    if receipts.since is None:
        output.warn(
            "nothing was asked through hooks, tools, HTTP or commands yet; the setting `receipts` is on by default"
        )
    else:
        output.say(f"since {output.local_time(receipts.since)}")
        rows = [(each.via, each.asked, each.answered, each.unknown, each.items) for each in receipts.supplies]
        output.say_rows(("via", "asked", "answered", "unknown", "items given"), rows)
    output.say(f"never an answer yet: {receipts.never_retrieved} of {output.counted(receipts.items, 'item')}")
    if receipts.oldest_unused:
        output.say(f"the oldest of them: {', '.join(map(str, receipts.oldest_unused))}")


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
            output.say_json({"status": "success", name: dict(counts)})
        elif not counts:
            output.warn(f"no {name} found")
        else:
            output.say_rows((name.removesuffix("s"), "items"), counts)
    elif isinstance(element, type) and is_dataclass(element):
        columns = [each.name for each in fields(element)]
        output.say_list(name, result, columns, lambda row: [getattr(row, each) for each in columns], as_json=as_json)
    elif isinstance(result, Mapping) or is_dataclass(result):
        facts = cast("Mapping[str, Json]", result) if isinstance(result, Mapping) else encode(result)
        if as_json:
            output.say_json({"status": "success", **facts})
        else:
            output.say_rows(("what", "value"), _flat(facts))
    elif as_json:
        output.say_json({"status": "success", name: result})
    else:
        output.say(_value(result))


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


# ---------------------------------------------------------------- status


def status(facts: Annotated[dict[str, Any], Carried("status")], as_json: JsonFlag = False) -> None:
    if as_json:
        output.say_json({"status": "success", **facts})
        return
    own: dict[str, Any] | None = facts["namespaces"].get(facts["namespace"])
    lines = {
        "store": _place_words(facts),
        "stored": _stored_words(facts, own),
        "search": _search_words(facts, own),
        "waiting": _waiting_words(facts, own),
        "index": _index_words(own),
        "next": _next_words(facts, own),
    }
    for name, text in lines.items():
        if text:
            output.say(f"{name:<9}{output.one_line(text)}")


def _place_words(facts: Mapping[str, Any]) -> str:
    named = [facts[name] for name in ("database_bytes", "index_bytes") if name in facts]
    sizes = " and indexes of ".join(f"{max(size / 1e6, 0.1):,.1f} MB" for size in named)
    return ", ".join(filter(None, [facts.get("store", "a server"), sizes]))


def _stored_words(facts: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    others = sum(each["items"] for name, each in facts["namespaces"].items() if name != facts["namespace"])
    more = f"; {output.counted(others, 'item')} in other namespaces (fourfold namespaces)" if others else ""
    if own is None:
        return f"nothing in the namespace {facts['namespace']}{more}"
    names, rest = own["languages"][:_SHOWN_LANGUAGES], len(own["languages"]) - _SHOWN_LANGUAGES
    languages = f" ({', '.join(names)}{f' and {rest} more' if rest > 0 else ''})" if names else ""
    parts = [
        output.counted(own["items"], "item") + languages,
        *(output.counted(own[name], noun) for name, noun in (("nodes", "name"), ("edges", "relation")) if own[name]),
    ]
    return f"{', '.join(parts)} in the namespace {facts['namespace']}{more}"


_SHOWN_LANGUAGES: Final = 4


def _search_words(facts: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    """By what the items are found now."""
    if own is None or not own["items"]:
        return ""
    if facts["embedder"] is None and not own["vectors"]:
        return "ready by words, names and tags; not by meaning, because no embedder is set"
    if own["pending_vectors"]:
        return (
            f"ready by words, names and tags; by meaning {own['vectors']:,} of {output.counted(own['items'], 'item')}"
        )
    return "ready by meaning, words, names and tags"


def _waiting_words(facts: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    if own is None or not own["pending_vectors"] or facts["embedder"] is None:
        return ""
    pending, refused = own["pending_vectors"], own["refused_by_embedder"]
    waits = f"{output.counted(pending - refused, 'item')} for {'its vector' if pending == 1 else 'their vectors'}"
    worker = facts.get("embedding_worker")
    left = f", {output.duration(own['embedding_seconds'])} left" if own.get("embedding_seconds") is not None else ""
    shown = [f"{waits}{left}{'; a background process makes them' if worker else ''}"] if pending > refused else []
    return "; ".join(shown + ([f"{output.counted(refused, 'item')} that the embedder refused"] if refused else []))


def _index_words(own: Mapping[str, Any] | None) -> str:
    """Of a distributed index."""
    index = None if own is None else own.get("index")
    if not index:
        return ""
    state = "being built" if index["building"] else "complete" if not index["lag_changes"] else "being filled"
    behind = f", {output.counted(index['lag_changes'], 'change')} behind" if index["lag_changes"] else ""
    return f"{index['collection'] or 'the first one'} is {state}{behind}"


def _next_words(facts: Mapping[str, Any], own: Mapping[str, Any] | None) -> str:
    if own is None or not own["items"]:
        return 'fourfold add "TEXT" stores an item, fourfold index FOLDER stores files'
    if facts["embedder"] is not None and own["pending_vectors"] > own["refused_by_embedder"]:
        return f"fourfold embed {'waits for' if facts.get('embedding_worker') else 'makes'} the vectors"
    if own["refused_by_embedder"]:
        return "fourfold repair lets the embedder try again"
    return 'fourfold search "QUESTION"'


# ---------------------------------------------------------------- settings, checks, repairs


def config(as_json: JsonFlag = False) -> None:
    shown = load_config().shown()
    if as_json:
        output.say_json({"status": "success", "settings": {name: setting._asdict() for name, setting in shown.items()}})
    else:
        output.say_rows(
            ("setting", "value", "from"),
            ((name, _value(setting.value), setting.origin) for name, setting in shown.items()),
        )


def check(as_json: JsonFlag = False) -> None:
    from fourfold.serve.http import judgements

    with open_memory() as memory:
        problems, facts = [*memory.check(), *judgements.check(memory.settings)], memory.status()
    counts = {name: facts_of["pending_vectors"] for name, facts_of in facts["namespaces"].items()}
    pending = {name: count for name, count in counts.items() if count and facts["embedder"] is not None}
    if as_json:
        form = {"status": "damaged" if problems else "success", "problems": problems, "pending_vectors": pending}
        output.say_json(form)
    else:
        for problem in problems or ("no problems found",):
            output.say(output.one_line(problem))
        for namespace, count in pending.items():
            waits = output.waiting_for_vectors(count)
            output.say(output.one_line(f"{namespace}: {waits}; `fourfold --namespace {namespace} embed` makes them"))
    if problems:
        raise click.exceptions.Exit(DamagedStore.exit_code)


def repair(
    purge: Annotated[bool, option("--purge", help="Also remove forgotten text from every file.")] = False,
) -> None:
    with open_memory() as memory:
        actions = memory.repair(purge=purge)
    for action in actions or ("nothing to repair",):
        output.say(output.one_line(action))


def scan_secrets(
    mask: Annotated[bool, option("--mask", help="Mask them, and remove them from every file.")] = False,
) -> None:
    from fourfold.cli import hook
    from fourfold.serve.http import judgements

    with open_memory() as memory:
        lines = judgements.scan(memory.settings, mask=mask) + hook.scan(mask=mask) + memory.scan_secrets(mask=mask)
    for line in lines or ("no secrets found",):
        output.say(output.one_line(line))


def reembed() -> None:
    with open_memory() as memory, output.progress_bar("vectors") as progress:
        made = memory.reembed(progress=progress)
    output.say(f"made {made} vectors")


# ---------------------------------------------------------------- PostgreSQL

db = Group("db", help="A local PostgreSQL with pgvector, and indexes.")

Data = Annotated[
    Path | None,
    option("--data", metavar="FOLDER", help="Data folder of the server; by default next to the user's store."),
]


@db.adds("fourfold db start")
def start(data: Data = None) -> None:
    """Start the server, making it if need be, and print the address of a store on it."""
    from fourfold.storage.postgres import start_server

    output.say(start_server(_folder(data)))


@db.adds("fourfold db stop")
def stop(data: Data = None) -> None:
    """Stop the server. What it holds stays."""
    from fourfold.storage.postgres import stop_server

    output.say("stopped" if stop_server(_folder(data)) else "no server was running")


index = Group("index", help="A distributed index of words and vectors.")
db.places["index"] = Place(index, "A distributed index of words and vectors.")


@index.adds("fourfold db index create")
def create() -> None:
    """Create the index of the namespace, and fill it."""
    with _indexed() as (store, feeder, namespace):
        if not feeder.create(namespace):
            raise RequestError(f"{namespace} has an index", "fourfold db index rebuild makes a new one")
        _fill(store, namespace)


@index.adds("fourfold db index rebuild")
def rebuild() -> None:
    """Build a new generation, then switch to it."""
    with _indexed() as (store, feeder, namespace):
        if not feeder.rebuild(namespace):
            raise _no_index(namespace)
        _fill(store, namespace)


@index.adds("fourfold db index check --repair")
def check_(
    repair: Annotated[bool, option("--repair", help="Repair what differs.")] = False,
) -> None:
    """Compare the index with the rows; exit code 4 if they differ."""
    with _indexed() as (store, _, namespace):
        done = store.maintenance.mend_index(namespace) if repair else []
        problems = store.maintenance.check_index()
    for line in (*done, *problems) or ("no problems found",):
        output.say(output.one_line(line))
    if problems:
        raise click.exceptions.Exit(DamagedStore.exit_code)


@index.adds("fourfold db index drop")
def drop() -> None:
    """Remove the index of the namespace; PostgreSQL then answers alone."""
    with _indexed() as (_, feeder, namespace):
        if not feeder.drop(namespace):
            raise _no_index(namespace)
    output.say("dropped")


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
        output.say("another process fills the index; `fourfold status` shows how far it is")
        return
    facts = cast("dict[str, Any]", store.status()["namespaces"])[namespace]
    output.say(f"the index holds {facts['items']} items")


def _no_index(namespace: str) -> NotFound:
    return NotFound(f"{namespace} has no index", "fourfold db index create makes one")


def _folder(data: Path | None) -> Path:
    from fourfold.config import default_store

    return data or default_store().with_name("postgres")

"""The three sides of the model test: a store in a folder, opened by this and another process, and the exact oracle."""

import importlib
import math
import os
import shutil
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import trust_child
from conformance_operations import NAMES, TAGS
from engine_support import WordEmbedder
from oracle import Oracle
from store_calls import StoreCalls

from fourfold import memory as memory_module
from fourfold.config import Settings
from fourfold.engine import item_methods
from fourfold.engine.maintenance import NO_INDEX
from fourfold.errors import FourfoldError
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Edge, Filters, Item, MetadataTest, Neighbor, Node
from fourfold.ranking.plan import PRESETS
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import SearchResponse
from fourfold.storage.protocols import Store
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore, TemporaryStore
from fourfold.storage.values import Pace, Record

NAMESPACES = ("notes", "papers")
FIRST = datetime(2026, 3, 1, 12, tzinfo=UTC)

# ---------------------------------------------------------------- vocabulary

WORDS = tuple(
    """
    Vertrag Mietvertrag Vertragsende Miete Haus Hausverwaltung Wohnung Kündigung Straße Müller Küche Küchen
    Versicherung Versicherungsfall der die und nicht für contract contracts rent house running runs the and index 2024
    """.split()  # noqa: SIM905
)
"""Few words, so that texts share them: inflections, umlauts, compounds and their parts, stop words."""

FILTERS = (
    NO_FILTERS, NO_FILTERS, Filters(tags=("work",)), Filters(tags=("strasse", "notes"), any_tag=True),
    Filters(language="de"), Filters(kind="task"), Filters(created_from=FIRST - timedelta(days=2)),
    Filters(created_to=FIRST + timedelta(hours=6)), Filters(path="docs/**"),
    Filters(metadata=(MetadataTest("n", "gte", 2),)),
)  # fmt: skip

WAYS: tuple[Mapping[str, Any], ...] = (
    *({"preset": name} for name in PRESETS), *({"fusion": name} for name in ("rrf", "weighted")),
    *({"only": (name,)} for name in RETRIEVERS), {"only": ("semantic", "keyword")},
    {"preset": "files", "fusion": "weighted"}, {"preset": "memories", "alpha": 0.3},
    {"weights": {"semantic": 0.5, "graph": 0.3, "tags": 0.2}}, {"namespaces": NAMESPACES},
    {"per_source": 1, "explain": True},
)  # fmt: skip
"""All kinds of searches: presets, fusions, each retriever alone."""

__all__ = ["FILTERS", "NAMES", "NAMESPACES", "TAGS", "WAYS", "WORDS", "Call", "Other", "Side", "agree", "tuned"]


# ---------------------------------------------------------------- limits that make small stores use indexes

Patches = Mapping[str, Any]
"""Values of constants by dotted name."""

TUNING = Tuning()
"""The tuning of stores that this process opens."""


def _small(publish_every: int, **others: Any) -> Tuning:
    return Tuning(
        pace=Pace(quiet_seconds=0),
        publish_every_changes=publish_every,
        log_kept_changes=4,
        fold_at_most_changes=6,
        publish_batch_items=3,
        scan_rows=2,
        columns_after_searches=1,
        columns_pause=0.0,
        **others,
    )


_SMALL: Patches = {
    "fourfold.storage.sql.linking._READ_NAMES": 2,
    "fourfold.storage.sql.linking._PAGE_ITEMS": 5,
    "fourfold.limits.HUB": 3,
}
"""Limits of store and oracle, small enough for a few items to reach every branch."""

PROFILES: Mapping[str, Patches] = {
    "tail": {**_SMALL, "trust_model.TUNING": _small(1000)},
    "published": {**_SMALL, "trust_model.TUNING": _small(12, dead_share=0.6)},
    "cut": {
        **_SMALL,
        "fourfold.engine.pipeline.CANDIDATES": 4,
        "trust_model.TUNING": _small(20, rebuild_at_changes=30, coded_factor=0, dead_share=0.9),
    },
    "faiss": {
        **_SMALL,
        "trust_model.TUNING": _small(20, exact_rows=8, min_faiss_lists=4, dead_share=0.9, unknown_to_faiss_share=0.5),
    },
}
"""Everything in the tail; publications after a few writes; truncated lists of candidates; FAISS probing every list."""


class Clock:
    """The time that all sides share."""

    now = FIRST


def tuned(patches: Patches, put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Sets the constants, and replaces the clock."""
    for name, value in patches.items():
        module, _, constant = name.rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, constant), f"{name} does not exist"
        put(found, constant, value)
    put(item_methods, "now", lambda: Clock.now)
    put(memory_module, "now", lambda: Clock.now)


# ---------------------------------------------------------------- the same call on all sides


@dataclass(frozen=True)
class Call:
    """A call of a method of Memory in a namespace, at a given time."""

    namespace: str
    now: datetime
    method: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Side:
    """A store that this process has open, with a Memory for each namespace."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._open = store
        self.open()

    def open(self) -> None:
        store = self._open()
        patient = Settings(retriever_seconds=60.0)  # the machine may be under load
        self.memories = {name: Memory(store, WordEmbedder(), name, patient, background=False) for name in NAMESPACES}

    def close(self) -> None:
        for memory in self.memories.values():
            memory.close()

    def reopen(self) -> None:
        self.close()
        self.open()

    def end(self) -> None:
        self.close()

    def do(self, call: Call) -> Any:
        """The result as plain, comparable values; for an error, the name of its class."""
        Clock.now = call.now
        method = getattr(self.memories[call.namespace], call.method)
        try:
            return plain(method(*call.args, **call.kwargs))
        except FourfoldError as error:
            return type(error).__name__

    def records(self, namespace: str | None = None) -> list[Record]:
        found: list[Record] = []
        StoreCalls(self.memories[NAMESPACES[0]].store).export(found.append, namespace=namespace)
        return found

    def whole(self) -> Any:
        """Everything stored, with names instead of node ids, which differ between stores."""
        records = self.records()
        names = {record["id"]: (record["name"], record["label"]) for record in records if record["type"] == "node"}
        hidden = [{**record, "id": 0} if record["type"] == "node" else record for record in records]
        named = [
            record
            if record["type"] in ("item", "raw")  # their `source` is an interface, not a node
            else {key: names[data] if key in ("source", "target", "node") else data for key, data in record.items()}
            for record in hidden
        ]
        return sorted(named, key=lambda record: repr(sorted(record.items())))


def oracle() -> Side:
    """A store of one process that publishes nothing, read by the oracle."""
    return Side(lambda: Oracle(TemporaryStore()))


def engine(folder: Path) -> Side:
    return Side(lambda: SqliteStore(folder, tuning=TUNING))


class Other:
    """The same folder, opened by another process."""

    def __init__(self, folder: Path, patches: Patches) -> None:
        self._pipe, theirs = trust_child.context().Pipe()
        self._child = trust_child.start(_serve, theirs, folder, patches)
        theirs.close()

    def do(self, call: Call) -> Any:
        return self._ask("do", call)

    def reopen(self) -> None:
        self._ask("reopen")

    def end(self) -> None:
        try:
            self._ask("end")
        finally:
            self._pipe.close()
            self._child.join(10)
            self._child.kill()

    def _ask(self, what: str, *args: Any) -> Any:
        try:
            self._pipe.send((what, args))
            answer, trace = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._child.join(10)
            raise AssertionError(f"the other process ended with {self._child.exitcode}") from error
        assert not trace, f"the other process failed:\n{trace}"
        return answer


def _serve(pipe: Connection, folder: Path, patches: Patches) -> None:
    tuned(patches)
    side = engine(folder)
    what = ""
    while what != "end":
        try:
            what, args = pipe.recv()
        except EOFError:  # the test has ended
            return
        try:
            pipe.send((getattr(side, what)(*args), ""))
        except Exception:  # noqa: BLE001  (the test reports it)
            pipe.send((None, traceback.format_exc()))


# ---------------------------------------------------------------- damage


def damage(folder: Path, pick: int, how: str) -> str | None:
    """Damages one index file by replacing it, so that mapped copies keep their contents; returns its name.

    None if there is no index file, or if the store has just removed it with its generation.
    """
    walk = os.walk(folder / "index")
    files = sorted(Path(root, name) for root, _, names in walk for name in names if not _is_lock(Path(name)))
    if not files:
        return None
    path = files[pick % len(files)]
    try:
        _damage_file(path, pick, how)
    except FileNotFoundError:
        return None
    return path.name


def _damage_file(path: Path, pick: int, how: str) -> None:
    if how == "remove":
        path.unlink()
        return
    content = bytearray(path.read_bytes())
    if how == "flip" and content:
        content[pick % len(content)] ^= 1 << pick % 8
    aside = path.with_name("harm")
    aside.write_bytes({"flip": content, "cut": content[: len(content) // 2], "swap": b"\0" * len(content)}[how])
    aside.replace(path)


def _is_lock(path: Path) -> bool:
    return "lease" in path.name or path.suffix == ".lock"


def delete_indexes(folder: Path) -> None:
    shutil.rmtree(folder / "index", ignore_errors=True)


# ---------------------------------------------------------------- comparing


def plain(done: Any) -> Any:
    match done:
        case SearchResponse():
            return _response(done)
        case Item():
            return asdict(done)
        case Node():
            return done.name, done.label, done.aliases, done.properties, done.item_id
        case Neighbor():
            return plain(done.node), done.relation, done.distance, done.weight
        case Edge():
            return done.source, done.relation, done.target, done.weight
        case list():
            return [plain(each) for each in done]
        case _:
            return done


def _response(response: SearchResponse) -> Mapping[str, Any]:
    return {
        "ids": [result.id for result in response.results],
        "scores": [result.score for result in response.results],
        "items": [asdict(result.item) for result in response.results],
        "ranks": [[(each.source, each.rank) for each in result.contributions] for result in response.results],
        "confidence": response.confidence,
        "weights": dict(response.applied_weights),
        "counts": dict(response.counts),
        "overlap": response.overlap,
        "degraded": [asdict(each) for each in response.degraded],
        "notes": list(response.notes),
    }


def forgiven(response: Any) -> Any:
    """The response without notes of failed publications, which are expected when files vanish."""
    if not isinstance(response, dict) or "notes" not in response:
        return response
    return {**response, "notes": [note for note in response["notes"] if not note.startswith(NO_INDEX)]}


def agree(found: Any, wanted: Any, where: str) -> None:
    """Asserts equality, with numbers equal to a millionth; names the place of a difference."""
    match wanted:
        case float() if isinstance(found, float | int):
            assert math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-9), f"{where}: {found} is not {wanted}"
        case dict():
            assert isinstance(found, dict), f"{where}: {found} is not {wanted}"
            assert found.keys() == wanted.keys(), f"{where}: {found} is not {wanted}"
            for key, value in wanted.items():
                agree(found[key], value, f"{where}.{key}")
        case list() | tuple():
            assert isinstance(found, list | tuple), f"{where}: {found} is not {wanted}"
            assert len(found) == len(wanted), f"{where}: {found} is not {wanted}"
            for number, value in enumerate(wanted):
                agree(found[number], value, f"{where}[{number}]")
        case _:
            assert found == wanted, f"{where}: {found!r} is not {wanted!r}"

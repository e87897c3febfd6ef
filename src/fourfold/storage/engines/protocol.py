"""What the feeder and the search ask of a distributed index, and what its adapters share.

The rows of PostgreSQL are the truth; an engine proposes candidates. One suite runs over all (tests/stores/cluster).
An object of an engine is one version of one item and never changes: a late or repeated write cannot replace a newer
version, and removing a version cannot remove another one. A long item has a further object for each further window of
its text. Scores of an engine are used for their order only.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from fourfold import addresses, threads
from fourfold.addresses import Url
from fourfold.errors import IndexUnavailable, InvalidSetting
from fourfold.filters import Condition, Every, Some, Test
from fourfold.model import Vector
from fourfold.storage.sql.dialect import pages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Required = Sequence[Sequence[int]]
"""Facts of which a candidate must have at least one of every group: a necessary condition of the search's filters."""


class Entry(NamedTuple):
    """The identity of an object."""

    item: int
    version: int


@dataclass(frozen=True, slots=True)
class Document:
    """One version of an item, as an engine stores it."""

    entry: Entry
    hashes: NDArray[np.uint32] = field(repr=False)
    """The terms of the text, in order, as hashes: the engine analyses nothing."""
    length: float
    """Of the text, relative to the average (`text.bm25` defines it)."""
    vectors: Sequence[Vector] = field(repr=False)
    """One, one per window, or none."""
    facts: Sequence[int] = field(repr=False)
    """Hashes of what filters test most: kind, language, tags."""


class Applied(NamedTuple):
    """The last batch that a node holds."""

    mark: str
    """Random, known to PostgreSQL; an unknown one means that either side was restored from a backup."""
    change: int


class Node(Protocol):
    """A server that answers searches from what it holds itself.

    IndexUnavailable if it does not answer within `seconds`, or does not have the collection.
    """

    @property
    def name(self) -> str: ...

    def applied(self, collection: str, seconds: float) -> Applied | None:
        """None if nothing was applied yet."""
        ...

    def match(
        self, collection: str, weights: Mapping[int, float], limit: int, required: Required, seconds: float
    ) -> list[int]:
        """Items that contain some of these terms, by any form of BM25, best first."""
        ...

    def nearest(self, collection: str, vector: Vector, limit: int, required: Required, seconds: float) -> list[int]:
        """The items of the `limit` nearest objects; an item occurs once for each of its windows among them."""
        ...

    def held(self, collection: str, entries: Sequence[Entry]) -> int:
        """How many of these versions the node has, be it in part."""
        ...

    def entries(self, collection: str, low: int, high: int) -> list[Entry]:
        """The objects of items from `low` to below `high`, in any order: an entry for each object of a version."""
        ...


class Engine(Protocol):
    """A cluster. A write returns the names of the nodes that do not have it; searches of all others find it.

    `without`: nodes that are not asked whether they have it. IndexUnavailable if a quorum of the cluster refuses.
    """

    @property
    def shown(self) -> str:
        """The address without secrets."""
        ...

    @property
    def nodes(self) -> Sequence[Node]: ...

    def create(self, collection: str, dimension: int | None) -> None:
        """Creates what is missing of a collection; called again when the dimension becomes known."""
        ...

    def exists(self, collection: str, dimension: int | None) -> bool:
        """Whether the cluster has all of a collection: it may have been emptied or replaced."""
        ...

    def objects(self, vectors: int) -> int:
        """The number of objects of an item that has this many vectors."""
        ...

    def drop(self, collection: str) -> None:
        """Removes a collection, if there is one."""
        ...

    def put(self, collection: str, documents: Sequence[Document], without: Collection[str] = ()) -> set[str]: ...

    def remove(self, collection: str, entries: Sequence[Entry], without: Collection[str] = ()) -> set[str]:
        """With all windows."""
        ...

    def apply(self, collection: str, applied: Applied, without: Collection[str] = ()) -> set[str]:
        """Notes the last batch."""
        ...

    def close(self) -> None: ...


# ---------------------------------------------------------------- facts about items, for filters

_FIELDS = ("kind", "language", "tags")


def fact_hash(field: str, value: str) -> int:
    """A number of 52 bits, which engines that count in floating point compare exactly. No text leaves the store."""
    digest = hashlib.blake2b(f"{field}\0{value}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 12


def item_facts(kind: str | None, language: str, tags: Sequence[str]) -> list[int]:
    facts = [fact_hash("language", language), *(fact_hash("tags", tag) for tag in tags)]
    return facts if kind is None else [*facts, fact_hash("kind", kind)]


def required(condition: Condition | None) -> Required:
    """Groups of facts of which every item that passes has at least one each. The condition itself may say more."""
    match condition:
        case Every():
            return [group for part in condition.parts for group in required(part)]
        case Some():
            parts = [required(part) for part in condition.parts]
            return [[fact for part in parts for fact in part[0]]] if all(parts) else []
        case Test() if condition.op == "in" and condition.field.column is not None:
            name, values = condition.field.column.name, condition.values
            if name in _FIELDS and all(isinstance(value, str) and "\0" not in value for value in values):
                return [[fact_hash(name, value) for value in values]]
            return []
        case _:
            return []


T = TypeVar("T")

PAGE_OBJECTS = 10_000
"""The most that a server returns for one question."""
_ASKED_ENTRIES = 50
"""At a time: two versions of each, with all windows, fit into a page."""
_PART_BYTES = 16 * 1024 * 1024
_PART_OBJECTS = 250
"""Number of vectors that even a busy server inserts within the time of a write."""
_TERM_BYTES = 9
"""Of a term in the message of an engine, and of the character between two terms."""
_DEFAULT_PORTS = {"weaviate": "8080", "milvus": "19530"}
_HIGHEST_PORT = 65_535
_MOST = 1_000
_REMEDIES = (
    (r"\b401\b|\b403\b|unauthen|not authori|unauthori|forbidden|permission|api.?key|anonymous access|auth check",
        "Check user and password in `index`; an API key of Weaviate is the password: weaviate://key:SECRET@HOST"),
    (r"read.?only", "Free disk space on the nodes, then restart those that are read-only"),
    (r"name or service not known|name resolution|nodename|no address", "Check the names of the hosts in `index`"),
    (r"not enough replicas|replication factor", "Name at least as many hosts as `replicas` says, or lower it"),
)  # fmt: skip


# ---------------------------------------------------------------- addresses


def check_address(url: Url, parameters: Collection[str]) -> None:
    """InvalidSetting for a parameter that has no meaning, an impossible port, and a node that is named twice."""
    if unknown := sorted(url.parameters.keys() - set(parameters)):
        remedy = f"Use only {', '.join(sorted(parameters))}" if parameters else "Remove it"
        raise InvalidSetting(f"{url.scheme}:// has no parameter {', '.join(unknown)}", remedy)
    if not all(is_port(port) for _, port in hosts(url)):
        remedy = f"Write {url.scheme}://HOST:PORT"
        raise InvalidSetting(f"a port of {url.scheme}:// is not between 1 and {_HIGHEST_PORT}", remedy)
    if len(set(hosts(url))) < len(url.hosts):
        raise InvalidSetting(f"{url.scheme}:// names a node twice", "Name each node once")


def hosts(url: Url) -> list[tuple[str, str]]:
    """Host and port of each node."""
    return [(host, port or _DEFAULT_PORTS.get(url.scheme, "")) for host, port in url.hosts]


def is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) <= _HIGHEST_PORT


def number(url: Url, name: str, default: int) -> int:
    """A parameter that counts something."""
    text = url.parameters.get(name, str(default))
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MOST):
        remedy = f"Write {name}={default}"
        raise InvalidSetting(f"`{name}` of {url.scheme}:// is not a number from 1 to {_MOST}", remedy)
    return int(text)


@lru_cache(maxsize=100)
def names_same_nodes(one: str, other: str) -> bool:
    """Whether two addresses name the same nodes, in whatever order."""
    first, second = addresses.parse(one), addresses.parse(other)
    return (first.scheme, first.path, set(hosts(first))) == (second.scheme, second.path, set(hosts(second)))


# ---------------------------------------------------------------- failures


def named_otherwise(made_with: str, shown: str) -> str:
    """What is wrong if this process names other nodes than those that the index was made with."""
    return f"the index was made with {made_with}, and this process names {shown}"


OTHER_NODES_REMEDY = (
    "Set the same `index` in all processes; after the nodes of a cluster have changed, run `fourfold db index check "
    "--repair`; to move to another cluster, run `fourfold db index rebuild`"
)


def unavailable(shown: str, error: Exception, remedy: str) -> IndexUnavailable:
    """Names what failed in one line; `remedy` is for a failure whose cause is unknown."""
    details = getattr(error, "details", None)  # of gRPC: the text of the error itself is a report of several lines
    details_text = str(details() if callable(details) else error)
    what = details_text.strip().partition("\n")[0][:200] or type(error).__name__
    remedies = (advice for pattern, advice in _REMEDIES if re.search(pattern, str(error), re.IGNORECASE))
    return IndexUnavailable(f"{shown} does not answer ({what})", next(remedies, remedy))


# ---------------------------------------------------------------- messages and pages


def objects_of(document: Document) -> int:
    return max(1, len(document.vectors))


def parts(documents: Sequence[Document]) -> Iterator[list[Document]]:
    """Documents in messages that every engine accepts and completes in time. All of a document is in one of them."""
    part: list[Document] = []
    room, places = _PART_BYTES, _PART_OBJECTS
    for document in documents:
        size = _TERM_BYTES * len(document.hashes) + sum(vector.nbytes for vector in document.vectors)
        if part and (size > room or objects_of(document) > places):
            yield part
            part, room, places = [], _PART_BYTES, _PART_OBJECTS
        part.append(document)
        room -= size
        places -= objects_of(document)
    if part:
        yield part


def objects_among(entries: Sequence[Entry], read: Callable[[Sequence[int]], list[tuple[Entry, T]]]) -> list[T]:
    """The objects of these entries, with all windows.

    `read`: a page of the objects of some items, whatever their version, each with its entry.
    """
    objects: list[T] = []
    waiting = list(pages(entries, _ASKED_ENTRIES))
    while waiting:
        some = waiting.pop()
        page = read(sorted({entry.item for entry in some}))
        if len(page) >= PAGE_OBJECTS and len(some) > 1:  # the page may not hold all of them
            waiting += [some[: len(some) // 2], some[len(some) // 2 :]]
            continue
        wanted = set(some)
        objects += [one for entry, one in page if entry in wanted]
    return objects


def listed(read: Callable[[int, int], list[Entry]], low: int, high: int) -> list[Entry]:
    """The entries of items from `low` to below `high`; `read` returns a page of them."""
    low = max(low, 1)
    entries = read(low, high)
    if len(entries) < PAGE_OBJECTS or high <= low + 1:
        return entries
    middle = max(low + 1, (low + min(high, max(entry.item for entry in entries) + 1)) // 2)
    return listed(read, low, middle) + listed(read, middle, high)


# ---------------------------------------------------------------- choosing a node for a search

C = TypeVar("C", bound="tuple[int, ...]")

ATTEMPT_SECONDS = 0.6
"""For one node. A retriever has time for two attempts and an answer of PostgreSQL."""
_ASK_SECONDS = 1.0
"""No further node is asked after this long."""
_PAUSE_SECONDS = 2.0
"""A node that failed is not asked for the same collection again for this long."""
_TRUSTED_SECONDS = 5.0
"""What a node holds is read again after this long: it may have been restored from a backup."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call in a daemon thread, which may outlive its deadline; TimeoutError after that."""
    return threads.start(call, "fourfold-index").result(seconds)


@dataclass(slots=True)
class _Known(Generic[C]):
    end: C
    since: float


class Nodes(Generic[C]):
    """Threads share it. `C` is a position in the log."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._turns = count()
        self._paused: dict[tuple[str, str], tuple[float, IndexUnavailable]] = {}
        self._known: dict[tuple[str, str], _Known[C]] = {}

    def ask(
        self,
        collection: str,
        cursor: C,
        behind: Collection[str],
        find_end: Callable[[str], C | None],
        call: Callable[[Node, float], T],
    ) -> T:
        """`behind`: nodes that lack batches, whatever their mark says.

        `find_end`: the position up to which a node with this mark holds everything; None for an unknown mark.
        IndexUnavailable says why no node could answer.
        """
        turn, reasons = next(self._turns), list[str]()
        until = time.monotonic() + _ASK_SECONDS
        for offset in range(len(self._nodes)):
            node = self._nodes[(turn + offset) % len(self._nodes)]
            place = (node.name, collection)
            paused = self._paused.get(place)
            if paused is not None and time.monotonic() < paused[0]:
                reasons.append(paused[1].message)
                continue
            if time.monotonic() > until:
                break
            try:
                if node.name not in behind and self._holds(node, collection, cursor, find_end):
                    answer = call(node, ATTEMPT_SECONDS)
                    self._paused.pop(place, None)
                    return answer
                reasons.append(f"{node.name} does not hold the last changes")
            except IndexUnavailable as error:
                self._paused[place] = (time.monotonic() + _PAUSE_SECONDS, error)
                self._known.pop(place, None)
                reasons.append(error.message)
        raise IndexUnavailable("; ".join(dict.fromkeys(reasons)), "Check the nodes of the index")

    def _holds(self, node: Node, collection: str, cursor: C, find_end: Callable[[str], C | None]) -> bool:
        held = self._known.get((node.name, collection))
        if held is None or held.end < cursor or time.monotonic() > held.since + _TRUSTED_SECONDS:
            applied = node.applied(collection, ATTEMPT_SECONDS)
            end = None if applied is None else find_end(applied.mark)
            if end is None:
                self._known.pop((node.name, collection), None)
                return False
            self._known[node.name, collection] = held = _Known(end, time.monotonic())
        return held.end >= cursor

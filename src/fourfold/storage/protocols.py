"""What the engine asks of storage. One conformance suite (tests/stores/conformance) runs over every implementation.

A search reads one `Snapshot` of one namespace; a write is one `Transaction`. Each protocol below is small, and an
engine implements only those that it can: a distributed index is `Words` and `Vectors`, a store is all of them.
Isolation: nothing of one namespace, no row and no statistic, reaches another. A namespace is created by the first write
that stores something in it. Reading one that does not exist finds nothing.
Durability: when the block of a transaction has ended, its effect survives the death of the process and, on the stores
that say so, of the machine. It happens as a whole or not at all. A snapshot that is opened after a commit, in any
process, sees it.
Threads: everything here blocks. A store may be used by any number of threads; a snapshot or a transaction belongs to
the thread that opened it.
Errors: a wrong argument is a RequestError; a failure of the disk, the server or another process is a WorldError or a
DamagedError. A read that exceeds its time is TimedOut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fourfold import model
from fourfold.ranking.fusion import Expanded, Expansion
from fourfold.retrieval import Hits, Link, Part, Ranking, Relation
from fourfold.storage import values
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from fourfold.model import Vector


# ---------------------------------------------------------------- reading


class Rows(Protocol):
    """The items of a namespace."""

    def get(self, ids: Sequence[int]) -> dict[int, model.Item]: ...
    def find_keys(self, keys: Sequence[str]) -> dict[str, int]: ...

    def list(self, filters: model.Filters, limit: int, offset: int) -> list[model.Item]:
        """Newest first."""
        ...

    def ids(self, filters: model.Filters, among: Sequence[int] | None = None) -> list[int]:
        """The items that pass, in the order of their ids: of all, or of `among`."""
        ...

    def count(self, filters: model.Filters) -> int: ...

    def chunks(self, path: str, first: int, last: int) -> list[model.Item]:
        """The chunks of one file from one number to another, in order."""
        ...

    def named_chunks(self, names: Sequence[str], filters: model.Filters) -> list[tuple[int, str]]:
        """(id, path) of chunks of known files with these folded names (after the last slash), in order; CANDIDATES."""
        ...

    def skipped_files(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """(path, reason) of files with these folded names that could not be indexed, in order."""
        ...

    def vocabulary(self, field: values.Vocabulary) -> dict[str, int]:
        """Every kind, language, or top-level key of metadata, with the number of items that have it.

        Superseded items do not count.
        """
        ...

    def history(self, item: int) -> list[model.Item]:
        """The item with its earlier versions, what was merged into it, and all values of its fact, the latest first."""
        ...

    def versions(self, ids: Sequence[int]) -> dict[int, model.Item]:
        """Earlier versions and merged items by their ids; `version_of` says of which item. `get` does not have them."""
        ...

    def versions_at(self, moment: datetime) -> dict[int, int]:
        """The version of that time of each item that was changed later, as far as it is kept; facts have none."""
        ...

    def last_expiry(self, now: datetime) -> datetime | None:
        """The latest of the expiry times that have passed; None if nothing has expired."""
        ...


class Words(Protocol):
    """Keyword search."""

    def match(self, text: str, limit: int, filters: model.Filters) -> Ranking:
        """By BM25 of the query's words, best first, ties by id."""
        ...

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        """The same scores for given items; zero where nothing matches."""
        ...

    def having(self, words: Sequence[str], limit: int, filters: model.Filters) -> Sequence[int]:
        """At most `limit` candidates for items that have all of these words; some may have only a part of them."""
        ...


class Vectors(Protocol):
    """Vector search. InvalidVector if a vector does not have the namespace's dimension.

    An item with several vectors has the score of the nearest one.
    """

    def begin_nearest(self, vector: Vector, limit: int, filters: model.Filters) -> Callable[[], Ranking]:
        """Starts a search by cosine, beside the caller if possible; the result has the nearest first, ties by id.

        Vectors whose search costs more beside the caller also have `nearest`, with the same arguments, for callers that
        have nothing else to do: it returns the result.
        """
        ...

    def cosines(self, vector: Vector, ids: Sequence[int]) -> Ranking:
        """The same scores for those of the given items that have vectors."""
        ...


class Graph(Protocol):
    """Nodes, edges and mentions. `walk` is `ranking.connections.rank_by_links` of `item_links`."""

    def named(self, names: Sequence[str]) -> Mapping[str, Sequence[int]]:
        """Those of these names (in normal form) that nodes have, with their nodes."""
        ...

    def node_links(self, nodes: Sequence[int], filters: model.Filters) -> list[Link]:
        """To the items of these nodes, to items that mention them, and over one edge to the neighbours' items."""
        ...

    def relations(self, nodes: Sequence[int]) -> list[Relation]:
        """The edges of at most HUB nodes (those with the lowest ids): of each the HUB heaviest in each direction."""
        ...

    def item_links(self, ids: Sequence[int], filters: model.Filters) -> list[Link]: ...

    def walk(self, strengths: Mapping[int, float], filters: model.Filters, limit: int, mentions: float = 1.0) -> Hits:
        """`mentions`: the factor of `ranking.connections.mention_factor`."""
        ...

    def nodes(self, like: str, limit: int, offset: int, among: Sequence[int] | None = None) -> list[model.NodeSummary]:
        """Nodes with a name or alias that contains `like` (in normal form, "" for all), most connected first.

        `among`: only of these.
        """
        ...

    def nodes_of(self, item: int) -> Sequence[int]:
        """The nodes that the item is the text of, and those that its text mentions."""
        ...

    def view(self, name: str, label: str | None, limit: int) -> model.NodeView:
        """One node with at most `limit` of its items, of its mentions and of its edges. NotFound if there is none."""
        ...

    def neighbors(self, wanted: values.NeighborQuery) -> model.Page[model.Neighbor]:
        """Nearest first, then by weight; only those of the page are read."""
        ...

    def path(self, start: str, goal: str, max_depth: int) -> list[model.Edge]: ...


class Tags(Protocol):
    def counts(self) -> Mapping[str, int]:
        """Folded tag to the number of items that carry it and are not superseded.

        May be cached until the namespace changes.
        """
        ...

    def uses(self, candidates: Sequence[str], filters: model.Filters, limit: int) -> list[values.TagUse]:
        """Uses of those of these folded strings that are tags, by at most `limit` items.

        The items are those that carry the most and rarest of them (by the sum of `ranking.connections.rarity`, ties by
        id); all uses of these items are listed, so that their scores are exact.
        """
        ...

    def shared(self, ids: Sequence[int], filters: model.Filters) -> list[values.TagUse]:
        """Uses of those tags of these items that lead to others (`selective_tags`); `rank_shared`: their ranking."""
        ...

    def rank_shared(self, strengths: Mapping[int, float], filters: model.Filters, limit: int) -> Hits: ...


class RawRecords(Protocol):
    def get(self, ids: Sequence[int]) -> dict[int, model.RawRecord]: ...

    def list(self, session_id: str | None, speaker: str | None, limit: int, offset: int) -> model.Page[model.RawRecord]:
        """Newest first; of one session or speaker only, where these are named."""
        ...


class Replica(Protocol):
    """What other stores are told of a namespace."""

    def heads(self) -> tuple[list[values.Head], list[values.Head]]:
        """Everything that is or was here, and those of it that `ReplicaWriter.write_heads` has to keep."""
        ...

    def read(self, kind: str, places: Sequence[model.Json]) -> list[values.Record | None]:
        """The records of things at these places; None for one that is not there any more."""
        ...

    def purged(self) -> int:
        """When the store was purged last, or one that it was synchronised with, in microseconds since 1970."""
        ...

    def has_removed(self) -> bool:
        """Whether another store has removed something here, and no purge followed."""
        ...


class Snapshot(Protocol):
    """One namespace at one moment. Only inside the `with` block that opened it."""

    @property
    def exists(self) -> bool:
        """Whether anything was ever stored in the namespace."""
        ...

    @property
    def size(self) -> values.Size:
        """Hidden items count."""
        ...

    @property
    def hidden(self) -> values.Hidden: ...
    @property
    def space(self) -> model.Space | None: ...

    @property
    def has_files(self) -> bool:
        """False if no file is indexed, so that no query can name one."""
        ...

    @property
    def rows(self) -> Rows: ...
    @property
    def words(self) -> Words: ...
    @property
    def vectors(self) -> Vectors: ...
    @property
    def graph(self) -> Graph: ...
    @property
    def tags(self) -> Tags: ...
    @property
    def raw(self) -> RawRecords: ...

    def stats(self, limit: int) -> model.Stats:
        """The receipts; at most `limit` of the items that nobody was given are named, the oldest first."""
        ...

    def expand(self, expansion: Expansion, filters: model.Filters) -> Expanded | None:
        """Walk, shared tags and missing scores in one step; None if this store has no columns for that now."""
        ...

    @property
    def replica(self) -> Replica: ...

    def files(self, prefix: str) -> Mapping[str, values.FileRow]:
        """The known files whose path begins with this, by path."""
        ...

    def pending(self, limit: int, among: Sequence[int] | None = None) -> list[values.PendingText]:
        """Items that wait for a vector: of all but the rejected ones, or of `among`, rejected or not.

        Of the newest ones the shortest come first, so that what was stored last is not kept waiting by a long queue.
        """
        ...

    def nearest_parts(self, query: Vector, ids: Sequence[int]) -> Mapping[int, Part]:
        """Of those of these items that have several vectors: the part whose vector is nearest to the query."""
        ...

    def stored_vectors(self, ids: Sequence[int]) -> dict[int, Vector]:
        """The vectors of those of these items that have one; not those of texts with several."""
        ...

    def keyword_query(self, text: str) -> KeywordQuery:
        """The words of a query with the terms for which keyword search looks."""
        ...

    @property
    def deadline(self) -> values.Deadline:
        """A read that exceeds it is TimedOut. The caller may change its fields."""
        ...


# ---------------------------------------------------------------- writing


class ItemWriter(Protocol):
    def put(self, items: Sequence[model.NewItem], now: datetime, *, links: bool = True) -> list[model.Item]:
        """Stores checked items; returns them as stored, in order. With `links`, titles and mentions become nodes.

        A new value of a fact (`subject` and `attribute`) supersedes the stored one (`storage.values.arranged`).
        InvalidVector if a vector is not in the namespace's space, NotFound for unknown source_ids, InvalidItem if a
        merged item exceeds a limit.
        """
        ...

    def patch(
        self, item: int, patch: model.ItemPatch, now: datetime, *, links: bool = True, keep: bool = True
    ) -> model.Item:
        """Applies a checked patch to the item as it is stored now, so that concurrent patches keep the limits.

        `keep`: the item as it was stays stored as a version; if it states a fact, as a superseded item.
        """
        ...

    def merge(self, kept: int, others: Sequence[int], now: datetime) -> model.Item:
        """Removes the others, which `restore` brings back; the kept item gets their tags and sources."""
        ...

    def restore(self, versions: Sequence[int], now: datetime) -> list[model.Item]:
        """Makes versions the present state of their items, and merged items items again; returns these items.

        NotFound names an unknown one. Conflict if another item has the key of a merged one.
        """
        ...

    def rewrite_version(self, id: int, record: values.Record) -> None:
        """Replaces the record of a version."""
        ...

    def forget(self, ids: Sequence[int]) -> int:
        """Removes items with everything that belongs to them, versions included; returns how many existed.

        An id of a version removes that version.
        """
        ...


class FileWriter(Protocol):
    def put(self, files: Sequence[values.FileUpdate], now: datetime, *, links: bool = True) -> None:
        """Makes the stored chunks of each path exactly these; a chunk with the same title and text stays that item."""
        ...

    def forget(self, paths: Sequence[str]) -> int:
        """Removes files with their chunks; returns how many chunks. Forgetting a chunk forgets the file's state."""
        ...


class RawWriter(Protocol):
    def add(self, record: values.NewRaw) -> model.RawRecord: ...

    def add_many(self, records: Sequence[values.NewRaw]) -> Sequence[int]:
        """Returns their ids, in order."""
        ...

    def replace(self, id: int, content: str, session_id: str | None, metadata: Mapping[str, model.Json]) -> None: ...

    def forget(self, ids: Sequence[int], *, force: bool = False) -> int:
        """Removes raw records, all or none. NotFound names a missing one; `force` also removes sources of items."""
        ...


class VectorWriter(Protocol):
    def set_space(self, space: model.Space) -> None:
        """Fixes the space of a namespace that has none. SpaceMismatch if it has another one."""
        ...

    def reset_space(self, space: model.Space) -> None:
        """Drops all vectors of another space, so that every item waits for a new one."""
        ...

    def put(self, space: model.Space, vectors: Sequence[values.MadeVectors], seconds: float = 0.0) -> int:
        """Stores vectors, all of an item at once; skips items that are gone or whose text has changed.

        `seconds`: how long it took to make them, from which `status` estimates how long the queue will take.
        """
        ...

    def reject(self, pending: values.PendingText, reason: str) -> None:
        """Marks the item as rejected by the embedder until its text changes."""
        ...

    def retry_rejected(self) -> None:
        """Requeues rejected items."""
        ...


class GraphWriter(Protocol):
    def add_nodes(self, nodes: Sequence[values.NewNode]) -> list[model.Node]: ...

    def add_edges(self, edges: Sequence[model.Edge]) -> None:
        """Creates missing nodes; an existing edge gets the new weight."""
        ...

    def remove_node(self, name: str, label: str | None) -> bool: ...
    def remove_edge(self, source: str, relation: str, target: str) -> bool: ...


class RequestWriter(Protocol):
    def find(self, name: bytes) -> tuple[bytes, list[int]] | None:
        """The fingerprint of the request of this name that was carried out in the namespace, and its outcome."""
        ...

    def record(self, name: bytes, fingerprint: bytes, outcome: Sequence[int], now: datetime) -> None:
        """Records that a request is carried out by this transaction; requests that are a day old are forgotten."""
        ...


class ReplicaWriter(Protocol):
    def write_heads(self, heads: Sequence[values.Head]) -> None:
        """Keeps what other stores are told, so that the next call of `heads` knows what changed since."""
        ...

    def write(self, changes: Sequence[values.Change], now: datetime, *, links: bool) -> None:
        """The changes of things that are as they are expected; Conflict, and none, if one refers to a missing one."""
        ...

    def set_purged(self, time: int) -> None: ...


class Transaction(Protocol):
    """One write to one namespace: committed when its `with` block ends, rolled back if the block raises."""

    @property
    def items(self) -> ItemWriter: ...
    @property
    def files(self) -> FileWriter: ...
    @property
    def raw(self) -> RawWriter: ...
    @property
    def vectors(self) -> VectorWriter: ...
    @property
    def graph(self) -> GraphWriter: ...
    @property
    def requests(self) -> RequestWriter: ...
    @property
    def replica(self) -> ReplicaWriter: ...


# ---------------------------------------------------------------- the store


class Maintenance(Protocol):
    """Maintenance of a store. Several processes may offer it; the holder of the lease does it."""

    @property
    def pace(self) -> values.Pace: ...

    def queues(self, replaced: Sequence[str] = ()) -> list[str]:
        """Namespaces in which items wait for a vector, or whose space has a fingerprint that begins with `replaced`."""
        ...

    def lease(self, namespace: str | None) -> AbstractContextManager[bool]:
        """The right to work on indexes and vectors for all processes; False if another one has it. It never waits.

        None: the right to be the embedding worker of the store, which `status` reports as `embedding_worker`.
        """
        ...

    def publish(self, namespace: str, *, everything: bool = False, amid_writes: bool = False) -> bool:
        """Publishes indexes and postponed links that are due, or `everything`; False if another process is doing it.

        `amid_writes`: writes have not paused. Leaves what would slow down a bulk load until they do: links, and the
        first index of vectors of a server. False also if this process is publishing a bulk load as it is written.
        """
        ...

    def check(self) -> list[str]:
        """Lists what is wrong, one line each."""
        ...

    def repair(self, *, purge: bool = False) -> list[str]:
        """Rebuilds what can be rebuilt; lists what was done. `purge`: removes every byte of what was forgotten."""
        ...

    def backup(self, target: Path) -> None: ...


class Portable(Protocol):
    """The store as a whole, as records that any store can load."""

    def export(self, write: Callable[[values.Record], None], *, namespace: str | None = None) -> None:
        """Hands over the records of one snapshot, of all namespaces or of one, in an order that the content decides."""
        ...

    def load(self, records: Iterable[values.Record], *, mark: str | None = None) -> None:
        """Fills an empty store, ids included: all or nothing; with a `mark` of checked records, in batches."""
        ...

    def load_namespace(self, records: Iterable[values.Record], namespace: str) -> None:
        """Fills one empty namespace with the records of another, under new ids; all or nothing."""
        ...

    def remove(self, is_copied: Callable[[Iterable[values.Record]], bool]) -> None:
        """Removes the store if its records are copied; RequestError if they are not, or if it cannot remove itself."""
        ...


class Store(Protocol):
    @property
    def concurrent_searches(self) -> int:
        """Searches that are worth running at the same time; further ones wait for their turn."""
        ...

    def snapshot(self, namespace: str, *, seconds: float | None = None) -> AbstractContextManager[Snapshot]:
        """Opens one namespace for reading; a read that takes longer than `seconds` (READ_SECONDS) is TimedOut."""
        ...

    def transaction(self, namespace: str, *, names: bool = False) -> AbstractContextManager[Transaction]:
        """Opens one namespace for writing. Writers take turns; StoreBusy if another process writes for BUSY_SECONDS.

        `names`: the write brings new names, which are looked up in older texts; a store may prepare for that before it
        makes others wait.
        """
        ...

    def add_receipts(
        self, namespace: str, supplies: Mapping[str, values.Receipt], items: Mapping[int, int], now: datetime
    ) -> bool:
        """Adds to the receipts of a namespace: by interface, and how often each item was given.

        False, and nothing added, if it would have to wait for another writer. Not a change of the namespace.
        """
        ...

    @property
    def maintenance(self) -> Maintenance: ...
    @property
    def portable(self) -> Portable: ...

    def namespaces(self) -> dict[str, int]:
        """Every namespace with its number of items."""
        ...

    def status(self) -> dict[str, model.Json]: ...
    def close(self) -> None: ...


class Peer(Protocol):
    """A namespace of a store, here or on a server, that another one can synchronise with."""

    def sync_step(self, lines: Sequence[Mapping[str, model.Json]]) -> list[dict[str, model.Json]]: ...

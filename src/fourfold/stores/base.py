"""What the engine asks of a store. One conformance suite (tests/conformance) runs over every implementation.

Every method that reads or writes items takes the namespace first: nothing of one namespace, no row and no statistic,
ever reaches another (B15 searches several apart). A namespace comes into being with the first thing stored in it.

Durability: when a writing method returns, its effect survives the death of the process and, on the stores that say so,
of the machine. It happens as a whole or not at all. Read your writes (B6): a search that begins after a commit, in any
process, sees it.

Errors: what the caller got wrong is a RequestError; what happened to the store, a WorldError or a DamagedError.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from fourfold.model import (
    Edge,
    Filters,
    Item,
    ItemPatch,
    Json,
    Neighbor,
    NewItem,
    Node,
    NodeSummary,
    NodeView,
    Page,
    Query,
    Ranking,
    RawRecord,
)
from fourfold.search.walk import Link

if TYPE_CHECKING:
    from fourfold.model import Vector

T = TypeVar("T")

Record = dict[str, Json]
"""A line of an export."""

Direction = Literal["both", "out", "in"]
Vocabulary = Literal["kind", "language", "metadata"]

HOW_TO_CREATE = "Create a store with `fourfold add`, `import` or `index`, or name another one with --store"
"""The remedy of StoreNotFound."""


@dataclass(frozen=True, slots=True)
class Space:
    """The vector space of a namespace (B8)."""

    fingerprint: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Size:
    items: int
    vectors: int

    @property
    def pending(self) -> int:
        return self.items - self.vectors


@dataclass(frozen=True, slots=True)
class NewNode:
    name: str
    label: str = "entity"
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Json] | None = None
    item: int | None = None


class TagUse(NamedTuple):
    """An item that carries a tag."""

    item: int
    tag: str
    uses: int
    """How many items carry it."""


class FileState(NamedTuple):
    """What was found in a file when it was last looked into."""

    path: str
    size: int
    mtime_ns: int
    digest: str
    """Of its content, in hexadecimal; empty if it was not read."""
    skipped: str = ""
    """Why nothing of it is stored; empty if something is."""


FileRow = tuple[str, int, int, str, str]
"""The fields of a FileState: a plain tuple costs the collector of garbage nothing, and most are only looked at."""


class FileUpdate(NamedTuple):
    state: FileState
    chunks: Sequence[NewItem] | None = ()
    """Checked, with the state's path, and numbered from 0 without a gap. None: what is stored stays as it is."""
    moved_from: str | None = None
    """The path under which this content is stored so far."""


class Store(Protocol):
    # ------------------------------------------------------------ items

    async def put(self, namespace: str, items: Sequence[NewItem], now: datetime, *, links: bool = True) -> list[Item]:
        """Stores checked items (language set, vectors normalised) in one transaction; returns them as stored, in order.

        A vector that does not fit the namespace's space is an InvalidVector; unknown source_ids are NotFound. What is
        merged with a stored item keeps the limits of one (InvalidItem). With `links`, titles and mentions become nodes
        and edges (B11).
        """
        ...

    async def patch(self, namespace: str, item: int, patch: ItemPatch, now: datetime, *, links: bool = True) -> Item:
        """Applies a checked patch to what is stored at that moment; returns the item as stored.

        `fourfold.items.patched` decides inside the transaction, so concurrent patches cannot break a limit together.
        """
        ...

    async def get(self, namespace: str, ids: Sequence[int]) -> dict[int, Item]: ...

    async def find_keys(self, namespace: str, keys: Sequence[str]) -> dict[str, int]: ...

    async def list(self, namespace: str, filters: Filters, limit: int, offset: int) -> list[Item]:
        """Newest first."""
        ...

    async def matching(self, namespace: str, filters: Filters) -> list[int]: ...

    async def forget(self, namespace: str, ids: Sequence[int]) -> int:
        """Removes items with all that hangs on them; returns how many there were."""
        ...

    async def add_raw(
        self,
        namespace: str,
        content: str,
        speaker: str | None,
        session_id: str | None,
        metadata: Mapping[str, Json],
        now: datetime,
    ) -> RawRecord: ...

    async def get_raw(self, namespace: str, ids: Sequence[int]) -> dict[int, RawRecord]: ...

    async def list_raw(
        self, namespace: str, session_id: str | None, speaker: str | None, limit: int, offset: int
    ) -> Page[RawRecord]:
        """Newest first; of one session or speaker only, where these are named."""
        ...

    async def forget_raw(self, namespace: str, ids: Sequence[int], *, force: bool = False) -> int:
        """Removes raw records, all of them or none; how many. NotFound names one that does not exist.

        One that is a source of an item is a RequestError; with `force`, the items' source_ids lose it.
        """
        ...

    # ------------------------------------------------------------ files

    async def files(self, namespace: str, prefix: str) -> Mapping[str, FileRow]:
        """The known files whose path begins with this, by path."""
        ...

    async def put_files(
        self, namespace: str, files: Sequence[FileUpdate], now: datetime, *, links: bool = True
    ) -> None:
        """Makes what is stored of each path exactly these chunks, and notes its state; all in one transaction.

        A chunk whose title and text are stored for that path already goes on being that item, with its vector,
        whatever its number was (fourfold.stores.chunks). Items that have a key are nobody's chunks.
        """
        ...

    async def forget_files(self, namespace: str, paths: Sequence[str]) -> int:
        """Removes files with their chunks; how many chunks there were. Forgetting a chunk forgets the file's state."""
        ...

    async def chunks(self, namespace: str, path: str, first: int, last: int) -> list[Item]:
        """The chunks of one file from one number to another, in order."""
        ...

    async def named_chunks(self, namespace: str, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        """(id, path) of the chunks of known files that have one of these folded names, by path, then in order.

        The name of a file is what follows the last slash of its path. At most CANDIDATES.
        """
        ...

    # ------------------------------------------------------------ vectors

    async def space(self, namespace: str) -> Space | None: ...

    async def set_space(self, namespace: str, space: Space) -> None:
        """Fixes the space of a namespace that has none. SpaceMismatch if it has another one."""
        ...

    async def reset_space(self, namespace: str, space: Space) -> None:
        """Drops all vectors of another space, so that every item waits for a new one."""
        ...

    async def waiting(
        self, namespace: str, limit: int, among: Sequence[int] | None = None
    ) -> list[tuple[int, str, str]]:
        """(id, title, text) of items that wait for a vector, oldest first; of all, or `among` some, refused or not."""
        ...

    async def refuse(self, namespace: str, waiting: tuple[int, str, str], reason: str) -> None:
        """The embedder will not have (id, title, text): it waits no longer, until the text is another."""
        ...

    async def retry_refused(self, namespace: str) -> None:
        """Those wait again."""
        ...

    async def put_vectors(self, namespace: str, space: Space, vectors: Sequence[tuple[int, str, str, Vector]]) -> int:
        """Vectors for (id, title, text); skips items that are gone or whose text is another by now."""
        ...

    # ------------------------------------------------------------ retrieval

    async def nearest(self, namespace: str, vector: Vector, limit: int, filters: Filters) -> Ranking:
        """By cosine, nearest first, ties by id. InvalidVector if it is not of the namespace's dimension."""
        ...

    async def similarities(self, namespace: str, vector: Vector, ids: Sequence[int]) -> Ranking:
        """The same cosines for those of the given items that have vectors."""
        ...

    async def match(self, namespace: str, text: str, limit: int, filters: Filters) -> Ranking:
        """By BM25 of the query's words, best first, ties by id."""
        ...

    async def match_scores(self, namespace: str, text: str, ids: Sequence[int]) -> Ranking:
        """The same scores for given items; zero where nothing matches."""
        ...

    async def at_once(self, query: Query, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T | None:
        """`work()` in a thread where everything it asks of the namespace is answered without waiting, in one snapshot.

        Where the query has a vector, `nearest` for it is begun beside the work, which has to ask for it.
        None: this store cannot do that, or not at this moment (an index is being opened), or not within these seconds.
        """
        ...

    async def node_links(self, namespace: str, names: Sequence[str], filters: Filters) -> list[Link]:
        """From the nodes that have one of these names (in normal form; the longest win) to items."""
        ...

    async def item_links(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[Link]: ...

    async def tag_counts(self, namespace: str) -> Mapping[str, int]:
        """Folded tag to the number of items that carry it. Cached while the store's change number stands (S5.6)."""
        ...

    async def vocabulary(self, namespace: str, field: Vocabulary) -> dict[str, int]:
        """Every kind, language, or top-level key of metadata, with the number of items that have it."""
        ...

    async def tagged(self, namespace: str, candidates: Sequence[str], filters: Filters) -> list[TagUse]:
        """Every use of those of these folded strings that are tags."""
        ...

    async def sharing(self, namespace: str, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        """Every use of those tags of these items that lead to others (`search.sharing.telling`)."""
        ...

    # ------------------------------------------------------------ graph

    async def add_nodes(self, namespace: str, nodes: Sequence[NewNode]) -> list[Node]: ...

    async def add_edges(self, namespace: str, edges: Sequence[Edge]) -> None:
        """Nodes that do not exist are made; an edge that exists gets the new weight."""
        ...

    async def remove_node(self, namespace: str, name: str, label: str | None) -> bool: ...

    async def remove_edge(self, namespace: str, source: str, relation: str, target: str) -> bool: ...

    async def nodes(self, namespace: str, like: str, limit: int, offset: int) -> list[NodeSummary]:
        """Nodes with a name or alias that contains `like` (in normal form, "" for all), most connected first."""
        ...

    async def node_view(self, namespace: str, name: str, label: str | None, limit: int) -> NodeView:
        """One node with at most `limit` of its items, of its mentions and of its edges. NotFound if there is none."""
        ...

    async def neighbors(
        self,
        namespace: str,
        name: str,
        label: str | None,
        depth: int,
        direction: Direction,
        relation: str | None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Page[Neighbor]:
        """Nodes within `depth` steps, nearest first, then by weight; only those of the page are read."""
        ...

    async def path(self, namespace: str, start: str, goal: str, max_depth: int) -> list[Edge]: ...

    # ------------------------------------------------------------ the whole

    async def namespaces(self) -> dict[str, int]:
        """Every namespace with its number of items."""
        ...

    async def size(self, namespace: str) -> Size: ...

    async def queues(self) -> list[str]:
        """Namespaces in which items wait for a vector."""
        ...

    def lease(self, namespace: str | None) -> AbstractAsyncContextManager[bool]:
        """The right to work on indexes and vectors for all processes; False if another one has it. It never waits.

        None: the right to be the embedding worker of the store, which `status` reports as `embedding_worker`.
        """
        ...

    async def maintain(self, namespace: str, *, wholly: bool = False) -> bool:
        """Publishes indexes and catches up with postponed links where it is due; `wholly`: whatever is left.

        False if another process is at it: what is due here may be left over.
        """
        ...

    async def status(self) -> dict[str, Json]: ...

    async def check(self) -> list[str]:
        """What is wrong, a line each; empty if nothing is."""
        ...

    async def repair(self, *, purge: bool = False) -> list[str]:
        """Rebuilds what can be rebuilt; says what it did. `purge`: no byte of what was forgotten is left after it."""
        ...

    async def backup(self, target: Path) -> None: ...

    async def export(self, write: Callable[[Record], None]) -> None:
        """Hands over every record of one snapshot, in an order that depends on the content alone (B9)."""
        ...

    async def load(self, records: Iterable[Record], *, mark: str | None = None) -> None:
        """Makes an empty store what the records of an export say, ids included; all or nothing.

        With a `mark`, which stands for these records, in pieces: a load that was interrupted goes on where it was.
        """
        ...

    async def remove(self, is_copied: Callable[[Iterable[Record]], bool]) -> None:
        """Removes the store with everything in it, if its records are copied; otherwise a RequestError.

        A store that cannot remove itself raises a RequestError that says who can.
        """
        ...

    async def close(self) -> None: ...

"""What a search reads: one snapshot of one namespace, and its facets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from fourfold.model import Edge, Filters, Item, Neighbor, NodeSummary, NodeView, Page, RawRecord, Space
from fourfold.ranking.fusion import Expanded, Expansion
from fourfold.retrieval import Hits, Link, Part, Ranking, Relation
from fourfold.storage.values import Deadline, FileRow, Hidden, NeighborQuery, PendingText, Size, TagUse, Vocabulary
from fourfold.text.keyword_query import KeywordQuery

if TYPE_CHECKING:
    from fourfold.model import Vector


class Rows(Protocol):
    """The items of a namespace."""

    def get(self, ids: Sequence[int]) -> dict[int, Item]: ...

    def find_keys(self, keys: Sequence[str]) -> dict[str, int]: ...

    def list(self, filters: Filters, limit: int, offset: int) -> list[Item]:
        """Newest first."""
        ...

    def ids(self, filters: Filters, among: Sequence[int] | None = None) -> list[int]:
        """The items that pass, in the order of their ids: of all, or of `among`."""
        ...

    def count(self, filters: Filters) -> int: ...

    def chunks(self, path: str, first: int, last: int) -> list[Item]:
        """The chunks of one file from one number to another, in order."""
        ...

    def named_chunks(self, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
        """(id, path) of chunks of known files with these folded names (after the last slash), in order; CANDIDATES."""
        ...

    def skipped_files(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """(path, reason) of files with these folded names that could not be indexed, in order."""
        ...

    def vocabulary(self, field: Vocabulary) -> dict[str, int]:
        """Every kind, language, or top-level key of metadata, with the number of items that have it.

        Superseded items do not count.
        """
        ...

    def history(self, item: int) -> list[Item]:
        """The item with its earlier versions, what was merged into it, and all values of its fact, the latest first."""
        ...

    def versions(self, ids: Sequence[int]) -> dict[int, Item]:
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

    def match(self, text: str, limit: int, filters: Filters) -> Ranking:
        """By BM25 of the query's words, best first, ties by id."""
        ...

    def scores(self, text: str, ids: Sequence[int]) -> Ranking:
        """The same scores for given items; zero where nothing matches."""
        ...

    def having(self, words: Sequence[str], limit: int, filters: Filters) -> Sequence[int]:
        """At most `limit` candidates for items that have all of these words; some may have only a part of them."""
        ...


class Vectors(Protocol):
    """Vector search. InvalidVector if a vector does not have the namespace's dimension.

    An item with several vectors has the score of the nearest one.
    """

    def begin_nearest(self, vector: Vector, limit: int, filters: Filters) -> Callable[[], Ranking]:
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

    def node_links(self, nodes: Sequence[int], filters: Filters) -> list[Link]:
        """To the items of these nodes, to items that mention them, and over one edge to the neighbours' items."""
        ...

    def relations(self, nodes: Sequence[int]) -> list[Relation]:
        """The edges of at most HUB nodes (those with the lowest ids): of each the HUB heaviest in each direction."""
        ...

    def item_links(self, ids: Sequence[int], filters: Filters) -> list[Link]: ...

    def walk(self, strengths: Mapping[int, float], filters: Filters, limit: int, mentions: float = 1.0) -> Hits:
        """`mentions`: the factor of `ranking.connections.mention_factor`."""
        ...

    def nodes(self, like: str, limit: int, offset: int, among: Sequence[int] | None = None) -> list[NodeSummary]:
        """Nodes with a name or alias that contains `like` (in normal form, "" for all), most connected first.

        `among`: only of these.
        """
        ...

    def nodes_of(self, item: int) -> Sequence[int]:
        """The nodes that the item is the text of, and those that its text mentions."""
        ...

    def view(self, name: str, label: str | None, limit: int) -> NodeView:
        """One node with at most `limit` of its items, of its mentions and of its edges. NotFound if there is none."""
        ...

    def neighbors(self, wanted: NeighborQuery) -> Page[Neighbor]:
        """Nearest first, then by weight; only those of the page are read."""
        ...

    def path(self, start: str, goal: str, max_depth: int) -> list[Edge]: ...


class Tags(Protocol):
    def counts(self) -> Mapping[str, int]:
        """Folded tag to the number of items that carry it and are not superseded.

        May be cached until the namespace changes.
        """
        ...

    def uses(self, candidates: Sequence[str], filters: Filters, limit: int) -> list[TagUse]:
        """Uses of those of these folded strings that are tags, by at most `limit` items.

        The items are those that carry the most and rarest of them (by the sum of `ranking.connections.rarity`, ties by
        id); all uses of these items are listed, so that their scores are exact.
        """
        ...

    def shared(self, ids: Sequence[int], filters: Filters) -> list[TagUse]:
        """Uses of those tags of these items that lead to others (`selective_tags`); `rank_shared`: their ranking."""
        ...

    def rank_shared(self, strengths: Mapping[int, float], filters: Filters, limit: int) -> Hits: ...


class RawRecords(Protocol):
    def get(self, ids: Sequence[int]) -> dict[int, RawRecord]: ...

    def list(self, session_id: str | None, speaker: str | None, limit: int, offset: int) -> Page[RawRecord]:
        """Newest first; of one session or speaker only, where these are named."""
        ...


class Snapshot(Protocol):
    """One namespace at one moment. Only inside the `with` block that opened it."""

    @property
    def exists(self) -> bool:
        """Whether anything was ever stored in the namespace."""
        ...

    @property
    def size(self) -> Size:
        """Hidden items count."""
        ...

    @property
    def hidden(self) -> Hidden: ...

    @property
    def space(self) -> Space | None: ...

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

    def expand(self, given: Expansion, filters: Filters) -> Expanded | None:
        """Walk, shared tags and missing scores in one step; None if this store has no columns for that now."""
        ...

    def files(self, prefix: str) -> Mapping[str, FileRow]:
        """The known files whose path begins with this, by path."""
        ...

    def pending(self, limit: int, among: Sequence[int] | None = None) -> list[PendingText]:
        """Items that wait for a vector, oldest first: of all but the rejected ones, or of `among`, rejected or not."""
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
    def deadline(self) -> Deadline:
        """A read that exceeds it is TimedOut. The caller may change its fields."""
        ...

"""Memory: the public object. It checks arguments and hands over to the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fourfold import addresses
from fourfold import validation as rules
from fourfold.arguments import checks_arguments
from fourfold.config import default_store
from fourfold.embed.base import check_dimension, check_vector
from fourfold.engine import keyed
from fourfold.engine.confidence import without_unlikely
from fourfold.engine.embedding_queue import Progress
from fourfold.engine.graph_methods import GraphMethods
from fourfold.engine.maintenance import remove_expired
from fourfold.engine.open_store import now, open_store, require_lasting
from fourfold.engine.present import JUDGED, ResultOptions, check_per_source, merged
from fourfold.engine.proposals import ProposalMethods
from fourfold.engine.scope import CURRENT, View, window_of
from fourfold.engine.search import Analysis, Why, analysis
from fourfold.errors import InvalidQuery, RequestError
from fourfold.model import NO_FILTERS, GivenFilters, Json, NewItem, Stats, Vector
from fourfold.ranking.factors import TimeMode, check_mode
from fourfold.ranking.plan import PlanRequest, checked_cut
from fourfold.retrieval import SearchResponse
from fourfold.storage.protocols import Peer, Store
from fourfold.storage.sql.dialect import micros

if TYPE_CHECKING:
    from fourfold.engine.replication import SyncReport
    from fourfold.storage.exchange import Moved
    from fourfold.storage.values import Vocabulary


@checks_arguments
class Memory(ProposalMethods, GraphMethods):
    """A store of texts with vector, keyword, graph and tag search in one ranking.

        with Memory.open("notes") as memory:
            memory.add(NewItem("The router's password is in the blue folder", tags=("office",)))
            response = memory.search("how do I get into the network?")

    Every method blocks until it is done; threads may share one Memory. `AsyncMemory` has the same methods for asyncio.
    Methods act on `namespace` unless they are given another one.
    """

    # ------------------------------------------------------------ searching

    def search(
        self,
        text: str,
        *,
        vector: Sequence[float] | Vector | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        preset: str | None = None,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        alpha: float | None = None,
        recency: float | None = None,
        source_weights: Mapping[str, float] | None = None,
        rerank: str | None = None,
        time: str | None = None,
        only: Collection[str] | None = None,
        rrf_k: int | None = None,
        filters: GivenFilters | None = None,
        per_source: int | None = None,
        min_confidence: float | None = None,
        cut: str | None = None,
        explain: bool = False,
        candidates: bool = False,
        namespaces: Sequence[str] | None = None,
        history: bool = False,
        as_of: datetime | str | None = None,
    ) -> SearchResponse:
        """The items that answer a text, best first, with the reasons. Several `namespaces` are searched separately.

        `history` also shows what was superseded, `as_of` what was believed then.
        `text`: a question, keywords or names. `filters`: what an item must satisfy.
        """
        filters = NO_FILTERS if filters is None else rules.checked_filters(filters)
        chosen, second = preset or self.settings.preset, rerank or self.settings.rerank
        most = self.settings.top_k if top_k is limit is preset is None else _one_of(top_k, limit)
        request = PlanRequest(text, chosen, fusion, weights, alpha, most, only, rrf_k, recency, second, source_weights)
        per_file = None if per_source is None else check_per_source(per_source)
        if min_confidence is not None and not 0 <= min_confidence <= 1:
            raise InvalidQuery(f"min_confidence is {min_confidence!r}", "It is a number from 0 to 1")
        surest, cuts = (min_confidence or 0.0), cut is not None and checked_cut(cut)
        view = View(history, rules.time_of(as_of, "as_of")) if history or as_of is not None else CURRENT
        options = ResultOptions(per_file, surest, explain, candidates=candidates, time=self._time_mode(time), view=view)
        names = [self.namespace]
        if namespaces:
            names = list(dict.fromkeys(rules.name(name, "namespace") for name in namespaces))
        if len(names) > 1:
            if candidates:
                raise InvalidQuery("candidates of several namespaces", "Ask for those of one namespace at a time")
            options = replace(options, at_least=JUDGED)
        asked = request, options, None if vector is None else check_vector(vector), filters
        answers = [self._search.answer(name, *asked, datetime.now(UTC)) for name in names]
        answer = answers[0] if len(answers) == 1 else merged(answers)
        return without_unlikely(answer) if cuts else answer

    def why(
        self,
        item: int | str,
        text: str,
        *,
        vector: Sequence[float] | Vector | None = None,
        preset: str | None = None,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        alpha: float | None = None,
        recency: float | None = None,
        source_weights: Mapping[str, float] | None = None,
        rerank: str | None = None,
        time: str | None = None,
        filters: GivenFilters | None = None,
    ) -> Why:
        """Why an item has its place in the answer to a text, or was not found.

        `text`: a question, keywords or names. `filters`: what an item must satisfy.
        """
        filters = rules.checked_filters(filters)
        with self._reading() as snapshot:
            (stored,) = self._items(snapshot, [item])
            sources = tuple(self._sources(snapshot, stored))
        chosen, second = preset or self.settings.preset, rerank or self.settings.rerank
        request = PlanRequest(
            text, chosen, fusion, weights, alpha, recency=recency, rerank=second, source_weights=source_weights
        )
        query_vector = None if vector is None else check_vector(vector)
        why = self._search.why(stored, request, query_vector, filters, now(), self._time_mode(time))
        return replace(why, sources=sources)

    def analyze(
        self,
        text: str,
        *,
        preset: str | None = None,
        fusion: str | None = None,
        weights: Mapping[str, float] | None = None,
        alpha: float | None = None,
        recency: float | None = None,
        source_weights: Mapping[str, float] | None = None,
        rerank: str | None = None,
        time: str | None = None,
    ) -> Analysis:
        """How a search would read a text: its language, words, names and tags, and the plan.

        `text`: a question, keywords or names.
        """
        chosen, second = preset or self.settings.preset, rerank or self.settings.rerank
        request = PlanRequest(
            text, chosen, fusion, weights, alpha, recency=recency, rerank=second, source_weights=source_weights
        )
        plan = self._search.plan(self.namespace, request)
        window = window_of(text, self._time_mode(time), now(), self.settings.time_zone)
        with self._reading() as snapshot:
            return replace(analysis(snapshot, text, plan), time_window=window)

    def _time_mode(self, given: str | None) -> TimeMode:
        return self.settings.time if given is None else check_mode(given)

    # ------------------------------------------------------------ the whole store

    def tags(self) -> list[tuple[str, int]]:
        """Tags with the number of their items, the commonest first."""
        with self._reading() as snapshot:
            return _commonest(snapshot.tags.counts())

    def kinds(self) -> list[tuple[str, int]]:
        """Kinds with the number of their items, the commonest first."""
        return self._vocabulary("kind")

    def languages(self) -> list[tuple[str, int]]:
        """Languages with the number of their items, the commonest first."""
        return self._vocabulary("language")

    def metadata_keys(self) -> list[tuple[str, int]]:
        """Top-level keys of metadata with the number of items that have them, the commonest first."""
        return self._vocabulary("metadata")

    def _vocabulary(self, field: Vocabulary) -> list[tuple[str, int]]:
        with self._reading() as snapshot:
            return _commonest(snapshot.rows.vocabulary(field))

    def namespaces(self) -> list[tuple[str, int]]:
        """Namespaces with the number of their items, by name."""
        return [*self.store.namespaces().items()]

    def status(self) -> dict[str, Json]:
        """What the store holds, what waits for a vector, and what the indexes lack."""
        embedder = None if self._embedding is None else self._embedding.embedder.fingerprint
        return {**self.store.status(), "namespace": self.namespace, "embedder": embedder}

    def stats(self, *, limit: int = 20) -> Stats:
        """What interfaces were asked and given, how often nothing was known, and which items nobody was ever given.

        `limit`: how many of these items are named, the oldest first.
        """
        rules.check_page(limit, 0)
        self.receipts.write()
        with self._reading() as snapshot:
            return snapshot.stats(limit)

    def check(self) -> list[str]:
        """Lists what is wrong with the store, one line each."""
        return self.store.maintenance.check()

    def repair(self, *, purge: bool = False) -> list[str]:
        """Rebuilds what can be rebuilt from the rows; lists what was done.

        Items that have expired are removed. `purge`: also removes what was forgotten or has expired from all files of
        the store, so that no byte of it is left.
        """
        counts = {name: remove_expired(self.store, name, now()) for name in self.store.namespaces()}
        removed = [f"namespace {name}: removed {count} expired items" for name, count in counts.items() if count]
        done = [*removed, *self.store.maintenance.repair(purge=purge)]
        if purge:  # stores that are synchronised with this one follow
            with self.store.transaction(self.namespace) as tx:
                tx.replica.set_purged(micros(now()))
        return done

    def scan_secrets(self, *, mask: bool = False) -> list[str]:
        """Lists secrets that are stored, in all namespaces, one line each: namespace, place and kind.

        `mask`: masks them and removes every byte of them from the files of the store; lists what was done.
        """
        from fourfold.engine.secret_policy import mask as mask_stored
        from fourfold.engine.secret_policy import scan

        if not mask:
            return scan(self.store)
        with self._maintenance.writing(self.namespace):
            return mask_stored(self.store, now(), links=self.settings.links)

    def backup(self, target: str | Path) -> None:
        """Copies the database into one file that must not exist yet, while it is in use."""
        self.store.maintenance.backup(_file(target))

    @staticmethod
    def restore(source: str | Path, store: str | Path | None = None) -> None:
        """Puts a backup into a folder that holds no store yet."""
        if isinstance(store, str):
            require_lasting(store)
        if isinstance(store, str) and addresses.is_address(store):
            raise RequestError("a backup goes into a folder", "Restore it there, then: fourfold copy DSN")
        from fourfold.storage.sqlite.maintenance import restore

        restore(_file(source), Path(store).expanduser() if store is not None else default_store())

    def export(self, target: str | Path, *, namespace: str | None = None) -> dict[str, int]:
        """Writes everything, or one namespace, into a JSON Lines file; returns counts by kind."""
        from fourfold.storage.exchange import export_file

        return export_file(self.store, _file(target), None if namespace is None else rules.name(namespace, "namespace"))

    def move(
        self, target: str | Path | Store, progress: Progress | None = None, *, delete_source: bool = False
    ) -> Moved:
        """Copies everything into another store, which is empty or holds a part of this copy; compares both.

        `delete_source`: removes this store after that, unless something was written to it meanwhile.
        """
        from fourfold.storage.exchange import checksum, move

        opened = open_store(target)
        try:
            moved = move(self.store, opened, progress)
            if delete_source:
                self.store.portable.remove(lambda records: checksum(records) == moved.checksum)
            return moved
        finally:
            if opened is not target:
                opened.close()

    def sync(self, peer: str | Path | Peer, progress: Progress | None = None) -> SyncReport:
        """Makes this namespace and that of the same name in another store equal, also what was deleted; resumable.

        `peer`: a folder or DSN, or a memory: `fourfold.connect(URL)` is one on a server.
        What both sides changed is settled by rules that docs/sync.md states; nothing that was stored is lost.
        """
        from fourfold.engine.replication import synchronise

        if not isinstance(peer, str | Path):
            return synchronise(self, peer, progress)
        with Memory(open_store(peer), None, self.namespace, self.settings, background=False) as other:
            return synchronise(self, other, progress)

    def sync_step(self, lines: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
        """Answers one request of another store that synchronises with this one."""
        from fourfold.engine.replication import Side

        side = Side(self.store, self.namespace, self._secrets.record, self.settings.links)
        with self._maintenance.writing(self.namespace):
            return side.answer(lines, now())

    def import_file(
        self,
        source: str | Path,
        progress: Progress | None = None,
        *,
        namespace: str | None = None,
        skip: Callable[[str], None] | None = None,
    ) -> dict[str, int]:
        """Imports an export, or rows {"text", "key"?, "title"?, ...}; returns counts by kind.

        An export fills an empty store; with `namespace`, an export of one namespace fills this one, if it is empty.
        One invalid row refuses all of them, unless `skip` is given: it is told of each, and the others are stored.
        """
        from fourfold.storage.exchange import RowRules, import_file

        with self._maintenance.writing(self.namespace):
            into = None if namespace is None else rules.name(namespace, "namespace")
            rows = RowRules(self._row_check(), skip)
            counts = import_file(keyed.Batches(self), _file(source), progress, into, self._secrets.record, rows)
        with self._writing() as tx:
            keyed.done(tx, [counts.get(kind, 0) for kind in keyed.IMPORTED])
        return counts

    def _row_check(self) -> Callable[[NewItem], None]:
        """Refuses what `add_many` would refuse: secrets, and vectors of another dimension than those before them."""
        dimension: int | None = None

        def check(item: NewItem) -> None:
            nonlocal dimension
            self._secrets.items([item])
            if item.vector is not None:
                dimension = dimension or self._dimension() or len(item.vector)
                check_dimension(len(item.vector), dimension)

        return check

    def _dimension(self) -> int | None:
        """The dimension that vectors of callers must have; None if any may be the first."""
        if self._embedding is not None:
            return self._embedding.space().dimension
        with self._reading() as snapshot:
            return None if snapshot.space is None else snapshot.space.dimension


def _file(path: str | Path) -> Path:
    if not Path(path).name:
        raise InvalidQuery(f"{str(path)!r} does not name a file", "Give the path of a file")
    return Path(path)


def _commonest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def _one_of(top_k: int | None, limit: int | None) -> int | None:
    if top_k is not None and limit is not None:
        raise InvalidQuery("both top_k and limit are given", "Give one of them: they mean the same")
    return limit if top_k is None else top_k

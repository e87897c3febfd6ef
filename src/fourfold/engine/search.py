"""One question to one namespace: plan -> embed -> retrieve, expand and fuse -> later stages -> present."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from fourfold import limits, scheduling
from fourfold.config import Settings
from fourfold.embed.base import EmbeddingModel
from fourfold.engine import present, scope
from fourfold.engine.confidence import Judge
from fourfold.engine.embedding_queue import RENEW, EmbeddingQueue, require_space
from fourfold.engine.pipeline import Outcome, Pipeline, hits_of
from fourfold.engine.reranking import Reranking
from fourfold.engine.retrievers import FACTORIES, tag_candidates
from fourfold.errors import WorldError
from fourfold.frozen import value
from fourfold.model import NO_FILTERS, Filters, Item, NodeSummary, RawRecord, Vector
from fourfold.ranking.factors import TimeMode, recency_factor
from fourfold.ranking.fusion import FILE_NAME_PRESETS, NO_HITS, RERANK, ranks, with_file_names
from fourfold.ranking.plan import PlanRequest, StoreFacts, make_plan
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Candidates, Degraded, Plan, Query, Ranking, Result, Retriever, SearchResponse, TimeWindow
from fourfold.storage.protocols import Snapshot, Store
from fourfold.text.analysis import query_words
from fourfold.text.entities import file_names, named_files, query_names, without_names
from fourfold.text.language import detect
from fourfold.text.negation import ANY_NEGATION, affirmed, negated_phrases, negation_note
from fourfold.text.time_window import TIME_HINT

log = logging.getLogger("fourfold")

_TURN_SECONDS: Final = 0.25
"""A search waits this long for its turn, then runs beside the others."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why an item has its place in the answer to a query, or is missing from it."""

    item: Item
    rank: int | None
    result: Result | None
    reasons: tuple[str, ...]
    sources: tuple[RawRecord, ...] = ()
    """The raw records that the item is drawn from."""


@value
class Question:
    """What retrievers are asked, and how their answers are fused."""

    query: Query
    plan: Plan
    degraded: Sequence[Degraded]
    """Retrievers that are known to be unable to answer."""
    embed_ms: float
    notes: Sequence[str]
    model: EmbeddingModel | None = None
    """The embedder, where the query has to be in its space."""


Stage: TypeAlias = Callable[[Snapshot, Query, Outcome], Outcome]
"""A step between fusion and presentation. It may wait, and it may change the ranking."""


def name_files(snapshot: Snapshot, query: Query, outcome: Outcome) -> Outcome:
    """Ranks the chunks of a file that the query names first; a note says why one that was skipped has none."""
    if outcome.plan.preset not in FILE_NAME_PRESETS or not snapshot.has_files:
        return outcome
    if not (spelled := file_names(query.text)):
        return outcome
    skipped = snapshot.rows.skipped_files(list(spelled))
    outcome = replace(outcome, notes=(*outcome.notes, *(f"{path} is not indexed: {why}" for path, why in skipped)))
    named = snapshot.rows.named_chunks(list(spelled), query.filters)
    if not named:
        return outcome
    files = named_files(spelled, named)
    return replace(outcome, fusion=with_file_names(outcome.fusion, files), files=files)


STAGES: Final[list[Stage]] = [name_files]


class Search:
    """Searches of a store, in any of its namespaces."""

    def __init__(
        self,
        store: Store,
        embedding: EmbeddingQueue | None,
        settings: Settings,
        troubles: Mapping[str, str],
        retrievers: Sequence[Retriever] = (),
    ) -> None:
        """`retrievers`: injected ones; one with the name of a built-in retriever replaces it."""
        self._store = store
        self._embedding = embedding
        self._settings = settings
        self._troubles = troubles
        self._reranking = Reranking(settings)
        self._injected = {each.name: each for each in retrievers}
        self._turns = scheduling.Turns(store.concurrent_searches)

    def close(self) -> None:
        self._reranking.close()

    def answer(
        self,
        namespace: str,
        request: PlanRequest,
        options: present.ResultOptions,
        vector: Vector | None,
        filters: Filters,
        now: datetime,
    ) -> SearchResponse:
        """What current items answer; superseded ones are added if none of the best JUDGED is an answer."""
        response, hides = self._answer(namespace, request, options, vector, filters, now)
        if hides and present.response_confidence(response.results[: present.JUDGED]) < present.ANSWERS:
            past = replace(options, view=scope.View(history=True), at_least=present.JUDGED)
            everything, _ = self._answer(namespace, request, past, vector, filters, now)
            response = present.with_past(response, everything.results[: present.JUDGED])
        if hides:
            response = present.cut(response, max(response.plan.top_k, options.at_least))
        if log.isEnabledFor(logging.INFO):
            log.info("search", extra={"fourfold": present.log_fields(response)})
        return response

    def _answer(
        self,
        namespace: str,
        request: PlanRequest,
        options: present.ResultOptions,
        vector: Vector | None,
        filters: Filters,
        now: datetime,
    ) -> tuple[SearchResponse, bool]:
        """The answer, and whether it left superseded items out; then it has at least JUDGED results."""
        started, begun = time.perf_counter(), time.monotonic()
        named = options.time != "off" and TIME_HINT.search(request.text.lower())
        window = scope.window_of(request.text, options.time, now, self._settings.time_zone) if named else None
        question = self._question(namespace, request, vector, filters)
        reranks = question.plan.rerank is not None
        with self._turns.search(_TURN_SECONDS) as end_turn, self._store.snapshot(namespace) as snapshot:
            seen = _seen(question, snapshot, filters, now, options.view)
            options, hides = _judging(options, snapshot)
            find = self._retrieved if reranks else self._found
            outcome, searched, window = _windowed(seen, window, partial(find, snapshot))
            if not reranks:
                return self._presented(snapshot, outcome, question, options, now, started, window), hides
            end_turn()  # others may search while the model reads
            clock = self._reranking.clock(begun)
            outcome = _staged(snapshot, searched, self._reranking.rerank(snapshot, searched.query, outcome, clock))
            response = self._presented(snapshot, outcome, question, options, now, started, window)
            return replace(response, notes=(*response.notes, *clock.end())), hides

    def _presented(
        self,
        snapshot: Snapshot,
        outcome: Outcome,
        question: Question,
        options: present.ResultOptions,
        now: datetime,
        started: float,
        window: TimeWindow | None,
    ) -> SearchResponse:
        """`started`: of the search, by `time.perf_counter`."""
        fetch, query = snapshot.rows.get, question.query
        whole = query.text if query.typed is None else query.typed
        order = present.ordered(outcome, outcome.plan, fetch, now, window)
        judge = self._judge(snapshot, query, outcome, order)
        chosen = present.results(outcome, outcome.plan, order, fetch, options, judge, whole)
        unread: Sequence[str] = ()
        if snapshot.size.windows and "semantic" in outcome.rankings and "semantic" not in self._injected:
            chosen = present.with_parts(snapshot, query, chosen)
            unread = present.unread_notes(chosen)
        if options.view.as_of is not None:
            chosen, changed = present.as_believed(snapshot.rows, chosen, options.view.as_of)
            unread = [*unread, *changed]
        fused = self._candidates(outcome, order, fetch, now) if options.candidates else None
        ranked = bool(len(order.hits.ids))
        notes: Sequence[str] = ()
        if window is not None and scope.is_outside(window, order.windows):
            window = scope.without_items(window)
            outcome = replace(outcome, notes=(*outcome.notes, scope.nothing_inside(window)))
        if not ranked and not snapshot.exists:
            notes = [f"nothing was ever stored in the namespace {query.namespace!r}"]
        elif query.filters.condition is not None:
            notes = scope.unknown_names(snapshot.rows, snapshot.tags, query.filters.condition, negated_only=ranked)
        if notes or unread:
            outcome = replace(outcome, notes=(*outcome.notes, *notes, *unread))
        total = (time.perf_counter() - started) * 1000
        response = present.response(whole, outcome.plan, query.filters, outcome, chosen, snapshot.size.items, total)
        if fused is None and window is None:
            return response
        return replace(response, candidates=fused, time_window=window)

    @staticmethod
    def _judge(snapshot: Snapshot, query: Query, outcome: Outcome, order: present.Ordered) -> Judge:
        names = outcome.rankings["graph"].names if "graph" in outcome.rankings else ()
        unnamed = without_names(query.text, names) if names and "keyword" in outcome.rankings else ""
        first = order.hits.ids[0].item() if len(order.hits.ids) else None
        return Judge(outcome, first, (lambda ids: snapshot.words.scores(unnamed, ids).evidence) if unnamed else None)

    def why(
        self,
        stored: Item,
        request: PlanRequest,
        vector: Vector | None,
        filters: Filters,
        now: datetime,
        mode: TimeMode = "off",
    ) -> Why:
        begun = time.monotonic()
        window = scope.window_of(request.text, mode, now, self._settings.time_zone)
        question = self._question(stored.namespace, request, vector, filters)
        with self._store.snapshot(stored.namespace) as snapshot:
            question = _seen(question, snapshot, filters, now)
            pipeline = self._pipeline(snapshot)
            outcome, searched, window = _windowed(
                question, window, partial(self._retrieved, snapshot, pipeline=pipeline)
            )
            if question.plan.rerank is not None:
                outcome = self._reranking.rerank(snapshot, searched.query, outcome, self._reranking.clock(begun))
            outcome = _staged(snapshot, searched, outcome)
            fetch = snapshot.rows.get
            narrowed = searched.query.filters
            passes = narrowed == NO_FILTERS or bool(snapshot.rows.ids(narrowed, [stored.id]))
            order = present.ordered(outcome, outcome.plan, fetch, now, window)
            ids = order.hits.ids.tolist()
            rank = ids.index(stored.id) + 1 if stored.id in ids else None
            result = None
            if rank is not None:
                alone = replace(order, hits=order.hits[rank - 1 : rank])
                judge = self._judge(snapshot, searched.query, outcome, order)
                shown_as = present.ResultOptions(explain=True)
                shown = present.results(outcome, outcome.plan, alone, fetch, shown_as, judge, request.text)
                result = next(iter(present.with_parts(snapshot, searched.query, shown)), None)
            scored = pipeline.scores(question.query, question.plan, stored.id)
            reasons = (*scope.why_hidden(stored, now), *_reasons(stored.id, question.plan, outcome, scored, passes))
            better = list(fetch(ids[: min(rank - 1, limits.FOLD_DEPTH)]).values()) if rank else []
        return Why(stored, rank, result, (*reasons, *outcome.notes, *_folded(stored, better)))

    # ------------------------------------------------------------ the question

    def plan(self, namespace: str, request: PlanRequest) -> Plan:
        """The plan of a search before the graph is read."""
        return make_plan(request, self._settings.plan, self._facts(namespace, request))

    def _question(self, namespace: str, request: PlanRequest, ready: Vector | None, filters: Filters) -> Question:
        """Embeds the query before a snapshot is opened: a model may have to load, an endpoint to answer.

        Retrievers get the query without the phrases that say what is not wanted.
        """
        plan = self.plan(namespace, request)
        phrases = negated_phrases(request.text) if ANY_NEGATION.search(request.text) else ()
        text = affirmed(request.text, phrases) if phrases else request.text
        started = time.perf_counter()
        vector, degraded = self._query_vector(plan, text, ready)
        embed_ms = (time.perf_counter() - started) * 1000
        embedding = self._embedding if ready is None and "semantic" in plan.retrievers else None
        notes = [*self._notes(text, embedded=vector is not None and ready is None), *map(negation_note, phrases)]
        query = Query(namespace, text, vector, filters, request.text if phrases else None)
        model = None if embedding is None or degraded else embedding.embedder
        return Question(query, plan, degraded, embed_ms, notes, model)

    def _facts(self, namespace: str, request: PlanRequest) -> StoreFacts:
        """Only adaptive alpha needs them."""
        if request.preset != "memories":
            return StoreFacts()
        with self._store.snapshot(namespace) as snapshot:
            counts = snapshot.tags.counts()
            named = [tag for tag in tag_candidates(request.text) if tag in counts]
            return StoreFacts(snapshot.size.items, len(named))

    def _query_vector(self, plan: Plan, text: str, ready: Vector | None) -> tuple[Vector | None, list[Degraded]]:
        if ready is not None:
            return ready, []  # the store checks whether it fits the namespace
        if "semantic" not in plan.retrievers:
            return None, []
        if self._embedding is None:
            return None, [Degraded("semantic", "no embedder is set, and the query came without a vector")]
        try:
            return self._embedding.query(text), []
        except WorldError as error:
            return None, [Degraded("semantic", str(error))]

    def _notes(self, text: str, *, embedded: bool) -> list[str]:
        notes = [f"{what}: {why}" for what, why in self._troubles.items()]
        embedder = self._embedding.embedder if self._embedding is not None and embedded else None
        if embedder is not None and len(text) > limits.MODEL_TOKENS and embedder.truncates(text):
            notes.append("the model read only the beginning of the query")
        return notes

    # ------------------------------------------------------------ the answer

    def _candidates(self, outcome: Outcome, order: present.Ordered, fetch: present.Fetch, now: datetime) -> Candidates:
        whole = replace(self._settings.plan.memories_recency, strength=1.0)
        return present.candidates(
            outcome, order, fetch, lambda item: recency_factor(whole, item.updated_at, now, item.tags)
        )

    def _pipeline(self, snapshot: Snapshot) -> Pipeline:
        built_in = {name: make(snapshot) for name, make in FACTORIES.items() if name not in self._injected}
        expand = None if self._injected else snapshot.expand
        seconds = self._settings.retriever_seconds
        return Pipeline(built_in, self._injected, seconds, snapshot.deadline, self._find_keys, expand)

    def _find_keys(self, namespace: str, keys: Sequence[str]) -> Mapping[str, int]:
        """For injected retrievers, which run in threads of their own."""
        with self._store.snapshot(namespace) as snapshot:
            return snapshot.rows.find_keys(keys)

    def _found(self, snapshot: Snapshot, question: Question) -> Outcome:
        return _staged(snapshot, question, self._retrieved(snapshot, question))

    def _retrieved(self, snapshot: Snapshot, question: Question, pipeline: Pipeline | None = None) -> Outcome:
        question = _fitting(snapshot, question)
        pipeline = pipeline or self._pipeline(snapshot)
        timings = {"embed": question.embed_ms}
        return pipeline.run(question.query, question.plan, question.degraded, question.notes, timings)


def _staged(snapshot: Snapshot, question: Question, outcome: Outcome) -> Outcome:
    for stage in STAGES:
        outcome = stage(snapshot, question.query, outcome)
    return outcome


def _windowed(
    question: Question, window: TimeWindow | None, find: Callable[[Question], Outcome]
) -> tuple[Outcome, Question, TimeWindow | None]:
    """What lies in the window, and the question with it as a filter; if nothing does, everything, and the window."""
    if window is None or window.applied != "filter":
        return find(question), question, window
    query = question.query
    narrowed = replace(question, query=replace(query, filters=scope.within(query.filters, window)))
    outcome = find(narrowed)
    if len(outcome.fusion.ids):
        return outcome, narrowed, window
    return find(question), question, scope.without_items(window)


def _fitting(snapshot: Snapshot, question: Question) -> Question:
    """The question without vectors, if those of the items come from an earlier version of the embedder."""
    if question.model is None or require_space(snapshot.space, question.model):
        return question
    count = snapshot.size.items
    reason = f"{count} of {count} items have vectors of an earlier version, or none; {RENEW}"
    return replace(question, degraded=[*question.degraded, Degraded("semantic", reason, count)])


def _seen(
    question: Question, snapshot: Snapshot, filters: Filters, now: datetime, view: scope.View = scope.CURRENT
) -> Question:
    """The question, about what may be shown."""
    hidden = snapshot.hidden
    if view is scope.CURRENT and not hidden.superseded and not hidden.expiring:
        return question
    shown = scope.visible(snapshot, filters, now, view)
    return question if shown is filters else replace(question, query=replace(question.query, filters=shown))


def _judging(options: present.ResultOptions, snapshot: Snapshot) -> tuple[present.ResultOptions, bool]:
    """The options with enough results to judge, if superseded items are left out; and whether they are."""
    if options.view != scope.CURRENT or options.candidates or not snapshot.hidden.superseded:
        return options, False
    return replace(options, at_least=max(options.at_least, present.JUDGED)), True


# ---------------------------------------------------------------- why


def _reasons(
    item: int, plan: Plan, outcome: Outcome, scores: Mapping[str, float], passes_filters: bool
) -> tuple[str, ...]:
    """`scores`: what retrievers say of the item, listed or not."""
    lines = [] if passes_filters else ["the filters leave it out"]
    failed = {failure.retriever: failure.reason for failure in outcome.degraded}
    for name in plan.retrievers:
        lines.append(f"{name}: {failed.get(name) or _placed(name, item, outcome, scores.get(name))}")
    if plan.rerank is not None:
        lines.append(f"{RERANK}: {failed.get(RERANK) or _reread(item, outcome)}")
    return tuple(lines)


def _reread(item: int, outcome: Outcome) -> str:
    """The line of `why` about the reranking of an item."""
    read = hits_of(outcome.rankings.get(RERANK, Ranking(NO_HITS)))
    for rank, hit in zip(ranks(read.scores).tolist(), read, strict=True):
        if hit.id == item:
            return f"rank {rank} of {len(read)}, score {hit.score:.4g}"
    return f"not read: the model reads at most the {limits.RERANKED} best results, in languages that it knows"


def _placed(name: str, item: int, outcome: Outcome, score: float | None) -> str:
    hits = hits_of(outcome.rankings[name])
    spec = RETRIEVERS[name]
    for rank, hit in zip(ranks(hits.scores).tolist(), hits, strict=True):
        if hit.id == item:
            return f"rank {rank} of {len(hits)}, {spec.score} {hit.score:.4g}"
    if score is None or (score == 0 and spec.scale != "cosine"):
        return spec.missed
    last = f"the best {limits.CANDIDATES} end at {hits[-1].score:.4g}" if hits else "it listed nothing"
    return f"not listed with {spec.score} {score:.4g}: {last}"


def _folded(item: Item, better: Iterable[Item]) -> tuple[str, ...]:
    """One line if a better item of another file has the same text: a search shows that one, and this as its copy."""
    text = present.shared_text(item)
    same = (one for one in better if text is not None and one.path != item.path and present.shared_text(one) == text)
    return tuple(f"folded: item {one.id} ({one.location}) has the same text and comes first" for one in same)[:1]


# ---------------------------------------------------------------- how a query is read

_LISTED_NODES: Final = 64
"""Nodes that an analysis lists at most."""


@dataclass(frozen=True, slots=True)
class AnalysedWord:
    surface: str
    """The folded word, as the user typed it."""
    stems: tuple[str, ...]
    """One for each language of the namespace, without repetition."""
    compounds: tuple[str, ...]
    """Related terms of the namespace, such as German compounds with this word."""
    weight: float
    """The idf of the word: its share in how much of the query an item covers. 0 if no item contains it."""
    share: float
    """Share of the items that contain it."""
    corrections: tuple[str, ...] = ()
    """Words of the namespace that replace it, because no item contains it."""


@dataclass(frozen=True, slots=True)
class NegatedPhrase:
    """A part of the query that excludes something; it is not searched for."""

    text: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    query: str
    language: str
    words: tuple[AnalysedWord, ...]
    names: tuple[NodeSummary, ...]
    """Nodes of the graph that the query names, most connected first."""
    tags: tuple[tuple[str, int], ...]
    """Tags that the query names, with the number of their items."""
    plan: Plan
    notes: tuple[str, ...]
    time_window: TimeWindow | None = None
    negated: tuple[NegatedPhrase, ...] = ()
    """`words`, `names` and `tags` are those of the query without these phrases."""


def analysis(snapshot: Snapshot, text: str, plan: Plan) -> Analysis:
    languages = tuple(snapshot.rows.vocabulary("language"))
    whole, phrases = text, negated_phrases(text)
    text = affirmed(whole, phrases)
    query = snapshot.keyword_query(text)
    by_surface = {word.surface: word for word in query.words}
    replaced = {correction.surface: correction for correction in query.corrections}
    words: list[AnalysedWord] = []
    for word in query_words(text, languages):
        stems = tuple(term for term, _ in word.variants)
        outcome = by_surface.get(word.surface)
        correction = replaced.get(word.surface)
        corrected = () if correction is None else correction.spellings
        related = () if outcome is None or corrected else tuple(term for term in outcome.terms if term not in stems)
        weight, share = (0.0, 0.0) if outcome is None else (outcome.idf, outcome.share)
        words.append(AnalysedWord(word.surface, stems, related, weight, share, corrected))
    counts = snapshot.tags.counts()
    tags = tuple((tag, counts[tag]) for tag in tag_candidates(text) if tag in counts)
    dropped = tuple(NegatedPhrase(whole[phrase.start : phrase.end], phrase.words) for phrase in phrases)
    notes = (*query.notes, *map(negation_note, phrases))
    named = snapshot.graph.named(query_names(text))
    nodes = sorted({node for having in named.values() for node in having})
    names = tuple(snapshot.graph.nodes("", _LISTED_NODES, 0, nodes)) if nodes else ()
    return Analysis(whole, detect(whole, languages), tuple(words), names, tags, plan, notes, negated=dropped)

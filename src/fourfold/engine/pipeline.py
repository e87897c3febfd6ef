"""The retrievers of one search, expansion from their best hits, and the fusion of all lists into one ranking.

Built-in retrievers read one snapshot in the calling thread; vector search runs beside them where the store can do that.
Injected retrievers may wait for a network: each runs in a thread of its own, with a deadline. A retriever that fails or
is late is named in `degraded`, and the others answer.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from fourfold import threads
from fourfold.arguments import checks_arguments
from fourfold.errors import DamagedError, FourfoldError, InvalidRanking, RequestError, SearchFailed, StoreReplaced
from fourfold.frozen import value
from fourfold.limits import CANDIDATES, RETRIEVER_SECONDS
from fourfold.model import Filters
from fourfold.native.rankings import common, missing
from fourfold.ranking import fusion
from fourfold.ranking.connections import mention_factor, walk_starts
from fourfold.ranking.plan import routed
from fourfold.ranking.questions import is_question
from fourfold.ranking.retrievers import EXPANSIONS, RETRIEVERS
from fourfold.retrieval import (
    Degraded,
    ExpandingRetriever,
    Hit,
    Hits,
    Numbers,
    Plan,
    Query,
    Ranking,
    Retriever,
    ScoringRetriever,
)
from fourfold.storage.values import Deadline

if TYPE_CHECKING:
    from fourfold.retrieval import Ints

T = TypeVar("T")
Call: TypeAlias = Callable[[], Ranking]


@value
class Outcome:
    """Everything that one search found out."""

    rankings: Mapping[str, Ranking]
    """By retriever, for those that answered, and by expansion (`walk`, `shared`)."""
    scores: Mapping[str, Ranking]
    """Scores of a retriever for items that it did not list."""
    fusion: fusion.Fusion
    coverage: Mapping[int, float]
    """Share of the query's words, weighted by rarity, that an item contains."""
    degraded: tuple[Degraded, ...]
    notes: tuple[str, ...]
    timings_ms: Mapping[str, float]
    plan: Plan
    """The plan as carried out; routing may depend on the graph."""
    files: Mapping[str, Sequence[int]] = field(default_factory=dict[str, "Sequence[int]"])
    """Files that the query names, with their chunks."""

    overlap: int = 0
    """Number of items that both semantic and keyword search listed."""

    def raw(self, retriever: str) -> Numbers:
        """The retriever's own scores, of the items that it listed and of others."""
        return Numbers(
            tuple([hits_of(table[retriever]) for table in (self.scores, self.rankings) if retriever in table])
        )


@dataclass(slots=True)
class _Progress:
    """The intermediate results of one search."""

    rankings: dict[str, Ranking] = field(default_factory=dict[str, Ranking])
    degraded: list[Degraded] = field(default_factory=list[Degraded])
    timings_ms: dict[str, float] = field(default_factory=dict[str, float])
    fatal: DamagedError | StoreReplaced | None = None
    """An error of the store itself."""

    def answered(self, name: str, ranking: Ranking) -> None:
        """From here on, hits are columns; retrievers that are not built in may return a list."""
        hits = ranking.hits
        self.rankings[name] = ranking if isinstance(hits, Hits) else replace(ranking, hits=fusion.columns(hits))

    def failed(self, name: str, error: Exception) -> None:
        self.degraded.append(
            Degraded(name, str(error) if isinstance(error, FourfoldError) else f"{type(error).__name__}: {error}")
        )
        if isinstance(error, DamagedError | StoreReplaced):
            self.fatal = error


class Pipeline:
    """One search with `built_in` retrievers, which read a snapshot here, and `injected` ones, which run in threads."""

    def __init__(
        self,
        built_in: Mapping[str, Retriever],
        injected: Mapping[str, Retriever],
        seconds: float,
        deadline: Deadline,
        find_keys: FindKeys | None,
        expand: Callable[[fusion.Expansion, Filters], fusion.Expanded | None] | None = None,
    ) -> None:
        """`seconds`: for each retriever. `deadline`: of the snapshot that the built-in ones read.

        `expand`: of a snapshot, if no built-in retriever is replaced.
        """
        self._retrievers = {**built_in, **injected}
        self._injected = injected
        self._seconds = seconds
        self._deadline = deadline
        self._find_keys = find_keys
        self._expand_at_once = expand

    def run(
        self,
        query: Query,
        plan: Plan,
        degraded: Sequence[Degraded] = (),
        notes: Sequence[str] = (),
        timings_ms: Mapping[str, float] | None = None,
    ) -> Outcome:
        """`degraded` names retrievers that are known to be unable to answer; they are not called.

        `notes` and `timings_ms`: of steps before this one.
        """
        progress = _Progress(degraded=list(degraded), timings_ms=dict(timings_ms or {}))
        self._search_all(query, plan, progress)
        rankings = progress.rankings
        graph, words = rankings.get("graph", _SILENT), rankings.get("keyword", _SILENT)
        if graph.answers:
            plan = routed(plan)
        inputs = _auto_inputs(plan, rankings) if plan.fusion == "auto" else None
        scores = {} if inputs is None else self._unlisted_scores(query, plan, progress, inputs)
        coverage = _united(words.evidence, scores["keyword"].evidence) if "keyword" in scores else words.evidence
        started = time.perf_counter()
        lists = {name: hits_of(ranking) for name, ranking in rankings.items()}
        if inputs is not None:
            unlisted = {name: hits_of(ranking) for name, ranking in scores.items()}
            fused = fusion.fuse_auto(inputs._replace(lists=lists, unlisted=unlisted, coverage=highest(coverage)))
        else:
            weights = plan.weights or {}
            fused = fusion.rrf(lists, weights, plan.k) if plan.fusion == "rrf" else fusion.weighted(lists, weights)
        connected = graph.linked or graph.evidence or graph.answers or any(name in lists for name in fusion.LIFTING)
        if fused.weights["graph"] > 0 and connected:
            held = fusion.held_back(fused, graph.linked, graph.evidence, coverage, fusion.HELD_SHARES[plan.fusion])
            fused = fusion.with_answers(held, graph.answers)
        both = all(name in lists for name in fusion.TEXTS)
        progress.timings_ms["fusion"] = (time.perf_counter() - started) * 1000
        return Outcome(
            rankings,
            scores,
            fused,
            coverage,
            degraded=tuple(progress.degraded),
            notes=(*[note for ranking in rankings.values() for note in ranking.notes], *notes),
            timings_ms=progress.timings_ms,
            plan=plan,
            overlap=common(*[lists[name] for name in fusion.TEXTS]) if both else 0,
        )

    def scores(self, query: Query, plan: Plan, item: int) -> dict[str, float]:
        """Scores of one item by the planned retrievers that can score, listed or not."""
        progress = _Progress()
        able = [name for name in plan.retrievers if hasattr(self._retrievers.get(name), "score")]
        self._all(progress, {name: self._score(name, query, [item]) for name in able})
        return {name: ranking.scores[item] for name, ranking in progress.rankings.items() if item in ranking.scores}

    # ------------------------------------------------------------ stages

    def _search_all(self, query: Query, plan: Plan, progress: _Progress) -> None:
        """The lists of the planned retrievers, in the order of the plan; SearchFailed if none could answer."""
        lost = {failure.retriever for failure in progress.degraded}
        wanted = [name for name in plan.retrievers if name in self._retrievers and name not in lost]
        self._all(progress, self._searches(query, wanted, progress))
        if not progress.rankings:
            raise progress.fatal or SearchFailed(
                _reasons(progress.degraded), "Fix what the message names, and try again"
            )
        progress.rankings = {name: progress.rankings[name] for name in wanted if name in progress.rankings}

    def _unlisted_scores(
        self, query: Query, plan: Plan, progress: _Progress, inputs: fusion.AutoInputs
    ) -> dict[str, Ranking]:
        """Expands from the best hits, if planned; then the scores of each retriever for what only others listed."""
        expanded = self._expand(query, plan, progress, inputs) if plan.expand else None
        if expanded is None:
            several = len(progress.rankings) > 1
            return self._true_scores(query, self._unlisted(progress.rankings), progress) if several else {}
        scores = self._true_scores(query, expanded.unlisted, progress) if expanded.unlisted else {}
        return {**scores, **expanded.scores}

    def _searches(self, query: Query, names: Sequence[str], progress: _Progress) -> dict[str, Call]:
        """The search of each retriever. One that can run beside the others is started, and waited for last."""
        begun: dict[str, Call] = {}
        calls: dict[str, Call] = {}
        for name in names:
            retriever = self._retrievers[name]
            begin = None if len(names) == 1 else getattr(retriever, "begin", None)
            if name in self._injected:
                calls[name] = partial(self._search, retriever, query)
            elif begin is None:
                calls[name] = partial(retriever.search, query, CANDIDATES)
            elif (finish := self._attempt(progress, name, partial(begin, query, CANDIDATES))) is not None:
                begun[name] = finish
        return calls | begun

    def _search(self, retriever: Retriever, query: Query) -> Ranking:
        """The search of an injected retriever."""
        ranking = retriever.search(query, CANDIDATES)
        return with_item_ids(ranking, retriever.name, query.namespace, self._find_keys)

    def _score(self, name: str, query: Query, ids: Sequence[int]) -> Call:
        return partial(cast("ScoringRetriever", self._retrievers[name]).score, query, ids)

    def _unlisted(self, rankings: Mapping[str, Ranking]) -> dict[str, Ints]:
        """For each retriever that can score, the ids that only others listed."""
        listed = {name: hits_of(ranking).ids for name, ranking in rankings.items()}
        able = [name for name in listed if hasattr(self._retrievers.get(name), "score")]
        every = np.concatenate(list(listed.values()))
        return {name: missing(every, listed[name]) for name in able}

    def _true_scores(self, query: Query, unlisted: Mapping[str, Ints], progress: _Progress) -> dict[str, Ranking]:
        """The scores of each retriever for the items that only others listed."""
        scored = _Progress(degraded=progress.degraded)
        calls = {
            name: self._score(name, query, array("q", ids.tobytes())) for name, ids in unlisted.items() if len(ids)
        }
        self._all(scored, calls)
        for name, milliseconds in scored.timings_ms.items():
            progress.timings_ms[name] += milliseconds
        return scored.rankings

    def _expand(
        self, query: Query, plan: Plan, progress: _Progress, inputs: fusion.AutoInputs
    ) -> fusion.Expanded | None:
        """Graph and tags search from the best hits of semantic and keyword together, and from what the query names.

        Returns what the store found in one step, if it can.
        """
        rankings, has_weights = progress.rankings, plan.weights is not None or plan.fixed is not None
        able: dict[str, ExpandingRetriever] = {
            expansion: cast("ExpandingRetriever", self._retrievers[name])
            for name, expansion in EXPANSIONS.items()
            if name in rankings and (not has_weights or RETRIEVERS[name].expands_weighted)
            if hasattr(self._retrievers[name], "expand")
        }
        if not able:
            return None
        named = rankings[able[fusion.WALK].name].evidence if fusion.WALK in able else dict[int, float]()
        texts = {name: hits_of(rankings[name]) for name in fusion.TEXTS if name in rankings}
        if self._expand_at_once is not None and len(named) <= fusion.MOST_NAMED:
            failures = len(progress.degraded)
            others = [hits_of(ranking).ids for name, ranking in rankings.items() if name not in texts]
            factor = mention_factor(named, asks=is_question(query.text if query.typed is None else query.typed))
            expansion = fusion.plan_expansion(inputs, texts, named, factor, others, frozenset(able), CANDIDATES)
            at_once = partial(self._expand_at_once, expansion, query.filters)
            expanded = self._attempt(progress, next(iter(able)), at_once)
            if expanded is not None:
                rankings.update({name: Ranking(hits) for name, hits in expanded.lists.items()})
            if expanded is not None or len(progress.degraded) > failures:
                return expanded
        starts = walk_starts(fusion.fuse_auto(inputs._replace(lists=texts)), named)
        if starts:
            self._all(progress, {name: partial(each.expand, query, starts, CANDIDATES) for name, each in able.items()})
        return None

    # ------------------------------------------------------------ calls

    def _all(self, progress: _Progress, calls: Mapping[str, Call]) -> None:
        """Makes the calls: those of injected retrievers in threads, the others one after the other meanwhile."""
        begun = self._begun(calls) if self._injected else {}
        until = time.monotonic() + self._seconds
        for name, call in calls.items():
            if name not in begun and (answer := self._attempt(progress, name, call)) is not None:
                progress.answered(name, answer)
        for name, task in begun.items():
            if not task.done.wait(until - time.monotonic()):
                progress.timings_ms[name] = self._seconds * 1000
                progress.degraded.append(Degraded(name, f"no answer within {self._seconds:g} s"))
                continue
            answer, progress.timings_ms[name] = task.result()
            if isinstance(answer, Ranking):
                progress.answered(name, answer)
            elif isinstance(answer, RequestError):
                raise answer
            else:
                progress.failed(name, answer)

    def _begun(self, calls: Mapping[str, Call]) -> dict[str, threads.Task[tuple[Ranking | Exception, float]]]:
        expanding = {expansion: name for name, expansion in EXPANSIONS.items()}
        injected = [name for name in calls if expanding.get(name, name) in self._injected]
        return {name: threads.start(partial(_timed, calls[name]), "fourfold-retriever") for name in injected}

    def _attempt(self, progress: _Progress, name: str, call: Callable[[], T]) -> T | None:
        """Limits the time of a built-in retriever; if it fails, that is noted, and the search continues without it."""
        started, deadline = time.perf_counter(), self._deadline
        whole = deadline.seconds, deadline.until
        deadline.seconds, deadline.until = self._seconds, time.monotonic() + self._seconds
        try:
            return call()
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001  WorldError, DamagedError or a bug; `degraded` names each
            progress.failed(name, error)
            return None
        finally:
            deadline.seconds, deadline.until = whole
            spent = (time.perf_counter() - started) * 1000
            progress.timings_ms[name] = progress.timings_ms.get(name, 0.0) + spent


@checks_arguments
class HybridSearch:
    """A search with retrievers of your own: anything with a name and a `search` method.

    Each runs in a thread of its own, except for those that read a snapshot (the built-in ones, and any with a true
    attribute `reads_snapshot`): a snapshot belongs to the thread that opened it, so they run in the calling thread, and
    the snapshot limits their time.
    """

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        seconds: float = RETRIEVER_SECONDS,
        find_keys: FindKeys | None = None,
    ) -> None:
        """`find_keys` (of a store) is for retrievers that rank by the keys of items instead of their ids."""
        here = {each.name: each for each in retrievers if getattr(each, "reads_snapshot", False)}
        others = {each.name: each for each in retrievers if each.name not in here}
        self._pipeline = Pipeline(here, others, seconds, Deadline(), find_keys)

    def run(self, query: Query, plan: Plan, degraded: Sequence[Degraded] = ()) -> Outcome:
        """`degraded` names retrievers that are known to be unable to answer; they are not called."""
        return self._pipeline.run(query, plan, degraded)


def _timed(call: Call) -> tuple[Ranking | Exception, float]:
    """What the call returned or raised, and its milliseconds."""
    started = time.perf_counter()
    try:
        answer: Ranking | Exception = call()
    except Exception as error:  # noqa: BLE001  an injected retriever raises anything; `degraded` names it
        answer = error
    return answer, (time.perf_counter() - started) * 1000


def hits_of(ranking: Ranking) -> Hits:
    """The columns of a ranking that `_Progress.answered` has taken."""
    return cast("Hits", ranking.hits)


def highest(numbers: Mapping[int, float]) -> float | None:
    """The highest number, None if there is none."""
    if not isinstance(numbers, Numbers):
        return max(numbers.values(), default=None)
    return max([float(hits.scores.max()) for hits in numbers.columns if len(hits.ids)], default=None)


def _united(first: Mapping[int, float], more: Mapping[int, float]) -> Mapping[int, float]:
    if isinstance(first, Numbers) and isinstance(more, Numbers):
        return Numbers((*first.columns, *more.columns))
    return {**first, **more}


def _auto_inputs(plan: Plan, rankings: Mapping[str, Ranking]) -> fusion.AutoInputs:
    """What the retrievers say of the weights; the lists are not complete before expansion."""
    words, tags = rankings.get("keyword", _SILENT), rankings.get("tags", _SILENT)
    evidence = highest(words.evidence), words.unknown, words.items, max(tags.evidence.values(), default=1.0)
    average = rankings.get("semantic", _SILENT).background
    return fusion.AutoInputs(
        {}, {}, average, plan.weights, *evidence, plan.fixed, words.code, words.foreign, plan.tuning
    )


_SILENT: Final = Ranking(fusion.NO_HITS)


def _reasons(degraded: Sequence[Degraded]) -> str:
    reasons = "; ".join(f"{failure.retriever}: {failure.reason}" for failure in degraded)
    return f"no retriever could answer ({reasons})"


# ---------------------------------------------------------------- rankings of injected retrievers

FindKeys: TypeAlias = Callable[[str, Sequence[str]], Mapping[str, int]]
"""The ids of those of these keys that a namespace has."""


def with_item_ids(answer: object, retriever: str, namespace: str, find_keys: FindKeys | None) -> Ranking:
    """The ranking with ids of items; hits of unknown keys are dropped, and a note counts them."""
    if not isinstance(answer, Ranking):
        raise _invalid(retriever, f"returned a {type(answer).__name__}", "Return a Ranking")
    if isinstance(answer.hits, Hits):  # made by the engine
        return answer
    hits = [_hit(retriever, each) for each in cast("Sequence[object]", answer.hits)]
    keys = [hit[0] for hit in hits if isinstance(hit[0], str)]
    if not keys:
        return replace(answer, hits=_each_once(cast("Sequence[tuple[int, float]]", hits)))
    if find_keys is None:
        raise _invalid(
            retriever, f"returned the id {keys[0]!r}", "Return ids of items, or give HybridSearch `find_keys`"
        )
    ids = find_keys(namespace, keys)
    known = [(item, score) for item, score in hits if not isinstance(item, str) or item in ids]
    of_items = [(ids[item] if isinstance(item, str) else item, score) for item, score in known]
    dropped = len(hits) - len(of_items)
    note = (f"{retriever}: {dropped} of {len(hits)} keys belong to no item",) if dropped else ()
    return replace(
        answer,
        hits=_each_once(of_items),
        evidence=_by_id(answer.evidence, ids),
        related=_by_id(answer.related, ids),
        notes=(*answer.notes, *note),
    )


def _hit(retriever: str, hit: object) -> tuple[int | str, float]:
    match hit:
        case (int() | str() as item, int() | float() as score) if not isinstance(item, bool) and math.isfinite(score):
            return item, float(score)
        case _:
            raise _invalid(retriever, f"returned the hit {hit!r}", "A hit is Hit(id or key of an item, finite score)")


def _each_once(hits: Sequence[tuple[int, float]]) -> tuple[Hit, ...]:
    """The first hit of each item: a retriever lists its best first."""
    best: dict[int, float] = {}
    for item, score in hits:
        best.setdefault(item, score)
    return tuple(Hit(item, score) for item, score in best.items())


def _by_id(told: Mapping[Any, float], ids: Mapping[str, int]) -> dict[int, float]:
    return {ids.get(item, 0) if isinstance(item, str) else item: share for item, share in told.items()}


def _invalid(retriever: str, what: str, remedy: str) -> InvalidRanking:
    return InvalidRanking(f"the retriever {retriever!r} {what}", remedy)

"""The reranking stage: a model reads the best candidates of a search, as many as its time allows.

The budget covers the whole search, so the model gets what the retrievers have left of it. A model that fails, or that
has no time for two candidates, is named in `degraded`, and the ranking stays as it was.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from fourfold import limits, threads
from fourfold.config import Settings
from fourfold.engine.pipeline import Outcome
from fourfold.errors import FourfoldError, RequestError, RerankerUnavailable
from fourfold.model import Item
from fourfold.ranking.connections import names_something
from fourfold.ranking.fusion import FEWEST_RERANKED, RERANK, ranked, with_rerank
from fourfold.ranking.plan import AUTO, BUILT_IN
from fourfold.ranking.questions import is_question
from fourfold.retrieval import Degraded, Query, Ranking
from fourfold.storage.protocols import Snapshot
from fourfold.text.language import detect

if TYPE_CHECKING:
    from fourfold.rerank import Budget, Reranker

THREADS: Final = 2
"""Models that read at the same time; each run of a local one uses several cores."""


@dataclass(slots=True)
class _Reading:
    """Scores of the texts that a model has read so far, in their order."""

    texts: Sequence[str]
    scores: list[float] = field(default_factory=list[float])
    state: str = "waits for other searches"
    """Of the model."""

    def run(self, model: Reranker, query: str, budget: Budget) -> None:
        self.state = "is being loaded"
        model.load()
        self.state = "has too little time"
        for score in model.scores(query, self.texts, budget):
            self.scores.append(score)


class Reranking:
    """The rerankers of a store, made on first use. Several threads may use it at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._models: dict[str, Reranker] = {}
        self._changing = threading.Lock()
        self._workers: threads.Workers | None = None
        self._delays = Delays()

    def clock(self, started: float) -> RerankClock:
        """For one search. `started`: by `time.monotonic`."""
        return RerankClock(started, self._settings.rerank_seconds, self._delays)

    def close(self) -> None:
        with self._changing:
            models, self._models = self._models, {}
            workers, self._workers = self._workers, None
        for model in models.values():
            model.close()
        if workers is not None:
            workers.close()

    def rerank(self, snapshot: Snapshot, query: Query, outcome: Outcome, clock: RerankClock) -> Outcome:
        """The found ranking with the model's part."""
        name = outcome.plan.rerank
        if name is None or len(outcome.fusion.hits) < FEWEST_RERANKED:
            return outcome
        if name == AUTO and not is_question(query.whole):
            return _noted(outcome, "auto reorders the results of questions only")
        if name == AUTO and names_something(outcome.rankings.get("graph", Ranking()).evidence):
            return _noted(outcome, "auto leaves questions about names of the graph to the graph")
        begun = time.perf_counter()
        try:
            if (model := self._model(name)) is None:
                return outcome
            outcome = self._reranked(model, snapshot, query, outcome, clock)
        except RequestError:
            raise
        except Exception as error:  # noqa: BLE001  WorldError or a bug in a model; `degraded` names it
            reason = str(error) if isinstance(error, FourfoldError) else f"{type(error).__name__}: {error}"
            outcome = replace(outcome, degraded=(*outcome.degraded, Degraded(RERANK, reason)))
        spent = time.perf_counter() - begun
        snapshot.deadline.until += spent  # it limits reads, not the model
        return replace(outcome, timings_ms={**outcome.timings_ms, RERANK: spent * 1000})

    def _model(self, name: str) -> Reranker | None:
        """None: `auto` without an installed model."""
        from fourfold.rerank import RerankSettings, create

        if name == AUTO:
            from fourfold.rerank import is_installed

            if not is_installed():
                return None
            name = BUILT_IN
        options = self._settings
        with self._changing:
            if name not in self._models:
                endpoint = (options.rerank_base_url, options.rerank_api_key, options.rerank_model)
                settings = RerankSettings(*endpoint, options.rerank_languages, options.onnx_provider)
                self._models[name] = create(name, settings)
            return self._models[name]

    def _reranked(
        self, model: Reranker, snapshot: Snapshot, query: Query, outcome: Outcome, clock: RerankClock
    ) -> Outcome:
        language = detect(query.whole)
        if not _knows(model, language):
            return _noted(outcome, f"the model does not know the language of the query ({language})")
        ids = outcome.fusion.ids[: limits.RERANKED]
        rows = snapshot.rows.get(ids)
        items = [rows[item] for item in ids if item in rows and _knows(model, rows[item].language)]
        if len(items) < FEWEST_RERANKED:
            return _noted(outcome, "the model does not know the language of the results")
        scores = self._read(model, query.whole, items, clock)
        ranking = Ranking(ranked(scores, len(scores)))
        outcome = replace(
            outcome, fusion=with_rerank(outcome.fusion, scores), rankings={**outcome.rankings, RERANK: ranking}
        )
        return (
            outcome if len(scores) == len(items) else _noted(outcome, f"read {len(scores)} of {len(items)} in its time")
        )

    def _read(self, model: Reranker, query: str, items: Sequence[Item], clock: RerankClock) -> dict[int, float]:
        """The scores of the first items: of those that the model has read when its time is over."""
        from fourfold.rerank import Budget, passages

        read = passages(query, items)
        reading, budget = _Reading(list(dict.fromkeys(read))), Budget(clock.model_begins())
        if budget.is_over:
            reading.state = "got no time from the retrievers"
        task = self._submit(lambda: reading.run(model, query, budget))
        try:
            in_time = clock.wait(task.done, budget)
        finally:
            budget.cancel()
        if in_time:
            task.result()
        if len(reading.scores) < min(FEWEST_RERANKED, len(reading.texts)):
            raise RerankerUnavailable(
                f"the model {reading.state} ({clock.seconds:g} s for the search)", "Raise rerank_seconds"
            )
        by_text = dict(zip(reading.texts, list(reading.scores), strict=False))
        return {item.id: by_text[text] for item, text in zip(items, read, strict=True) if text in by_text}

    def _submit(self, call: Callable[[], None]) -> threads.Task[None]:
        with self._changing:
            self._workers = self._workers or threads.Workers(THREADS, "fourfold-rerank")
            return self._workers.submit(call)


def _knows(model: Reranker, language: str) -> bool:
    return model.languages is None or language in model.languages


def _noted(outcome: Outcome, why: str) -> Outcome:
    return replace(outcome, notes=(*outcome.notes, f"{RERANK}: {why}"))


# ---------------------------------------------------------------- when a model has to stop
#
# The budget covers the whole search. After the model, the caller has to wake up and present the results. On a busy
# machine both wait for a core, and how long cannot be predicted, so it is measured: the caller wakes several times
# while the model reads and compares the clock with the moment at which it should have woken; each search measures how
# long its end took. The model stops earlier by the longest delay of this search so far, or of nearly all of the last
# searches.

STEP: Final = 0.05
"""Share of the budget between two looks at the clock, and the least share that is kept for the results."""
MOST_RESERVED: Final = 0.5
"""Largest share of the budget that is kept for the results."""
REMEMBERED: Final = 100
"""Searches whose delays count."""
USUAL: Final = 0.95
"""Share of these searches whose longest delays are provided for. The other searches are rarely late: a search sees
about 20 delays, and only the last one counts."""


class Waited(Protocol):
    def wait(self, seconds: float) -> bool:
        """Returns whether it happened in time."""
        ...


class Delays:
    """The longest delay of each of the last searches. Several threads may use it at once."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    def add(self, seconds: float) -> None:
        self._seconds.append(seconds)

    @property
    def usual(self) -> float:
        """What few searches exceed; the longest delay of the first 20."""
        longest = sorted(self._seconds.copy())
        return longest[math.ceil(USUAL * len(longest)) - 1] if longest else 0.0


class RerankClock:
    """The time of one search with a reranker."""

    def __init__(
        self, started: float, seconds: float, delays: Delays, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`started`: of the search, by `now`. `seconds`: its budget."""
        self.seconds = seconds
        self._started = started
        self._delays = delays
        self._now = now
        self._spent = 0.0
        """By the retrievers."""
        self._longest = delays.usual
        self._own = 0.0
        """The longest delay of this search."""
        self._model_until: float | None = None
        """When the caller should have been woken; None: no model ran."""

    def model_begins(self) -> float:
        """When the model has to stop."""
        self._spent = self._now() - self._started
        return self._last_moment()

    def wait(self, done: Waited, budget: Budget) -> bool:
        """Whether the model ended within its budget, which shrinks when the caller is woken late."""
        self._model_until = now = self._now()
        while now < budget.until:
            self._model_until = min(now + STEP * self.seconds, budget.until)
            if done.wait(self._model_until - now):
                self._model_until = self._now()
                return True
            now = self._now()
            self._observe(now - self._model_until)
            budget.until = self._last_moment()
        return False

    def end(self) -> tuple[str, ...]:
        """Ends the search; a note if it is late."""
        if self._model_until is None:
            return ()
        now = self._now()
        self._observe(now - self._model_until)
        self._delays.add(self._own)
        took = now - self._started
        return (f"{RERANK}: the search took {took:.2f} s of {self.seconds:g} s",) if took > self.seconds else ()

    def _last_moment(self) -> float:
        """Presenting takes less than retrieving; on a busy machine both take many times longer than on a quiet one."""
        reserved = STEP * self.seconds + max(self._spent, self._longest)
        return self._started + self.seconds - min(reserved, MOST_RESERVED * self.seconds)

    def _observe(self, delay: float) -> None:
        self._own = max(self._own, delay)
        self._longest = max(self._longest, delay)

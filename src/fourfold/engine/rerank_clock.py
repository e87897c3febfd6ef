"""When a model that reranks has to stop, so that the answer of the search comes within its budget.

The budget covers the whole search. After the model, the caller has to wake up and present the results. On a busy
machine both wait for a core, and how long cannot be predicted, so it is measured: the caller wakes several times while
the model reads and compares the clock with the moment at which it should have woken; each search measures how long its
end took. The model stops earlier by the longest delay of this search so far, or of nearly all of the last searches.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from fourfold.ranking.fusion import RERANK

if TYPE_CHECKING:
    from fourfold.rerank import Budget

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
        found = sorted(self._seconds.copy())
        return found[math.ceil(USUAL * len(found)) - 1] if found else 0.0


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

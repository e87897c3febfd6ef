"""Counters of a server in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final

from fourfold.model import Json
from fourfold.retrieval import SearchResponse

MEDIA: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Histogram:
    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        place = next((index for index, most in enumerate(_BUCKETS_SECONDS) if seconds <= most), len(_BUCKETS_SECONDS))
        self.counts[place] += 1
        self.sum += seconds

    def lines(self, name: str, labels: str) -> Iterable[str]:
        total = 0
        for bound, count in zip((*map(str, _BUCKETS_SECONDS), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self.sum:.6f}"
        yield f"{name}_count{{{labels}}} {total}"


class Metrics:
    """Labels are routes, statuses and names of retrievers, never values of requests."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._stages: dict[str, Histogram] = {}
        self._routes: dict[str, Histogram] = {}
        self._degraded: Counter[str] = Counter()
        self._searches = 0

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[method, route, status] += 1
            self._routes.setdefault(f'method="{method}",route="{route}"', Histogram()).add(seconds)

    def search(self, response: SearchResponse) -> None:
        with self._lock:
            self._searches += 1
            for stage, milliseconds in response.timings_ms.items():
                self._stages.setdefault(f'stage="{stage}"', Histogram()).add(milliseconds / 1000)
            self._degraded.update(failure.retriever for failure in response.degraded)

    def text(self, status: Mapping[str, Json]) -> str:
        """`status` is that of the store: pending vectors and sizes."""
        known = status["namespaces"].values()
        pending = sum(facts["pending_vectors"] for facts in known)
        with self._lock:
            lines = [
                *_family("fourfold_requests_total", "counter", "Requests by route and status."),
                *(
                    f'fourfold_requests_total{{method="{method}",route="{route}",status="{code}"}} {count}'
                    for (method, route, code), count in sorted(self._requests.items())
                ),
                *_family("fourfold_request_seconds", "histogram", "Time to answer, by route."),
                *_histograms("fourfold_request_seconds", self._routes),
                *_family("fourfold_errors_total", "counter", "Answers with a status of 500 or more."),
                f"fourfold_errors_total {sum(n for (_, _, code), n in self._requests.items() if code >= 500)}",
                *_family("fourfold_searches_total", "counter", "Searches."),
                f"fourfold_searches_total {self._searches}",
                *_family("fourfold_search_stage_seconds", "histogram", "Time of each retriever and stage."),
                *_histograms("fourfold_search_stage_seconds", self._stages),
                *_family("fourfold_degraded_total", "counter", "Retrievers that could not answer completely."),
                *(f'fourfold_degraded_total{{retriever="{name}"}} {n}' for name, n in sorted(self._degraded.items())),
            ]
        gauges = {
            "items": ("Items in all namespaces.", sum(facts["items"] for facts in known)),
            "vectors_pending": ("Items that wait for a vector: the lag of vector search.", pending),
            "changes_unpublished": (
                "Changes that no published index holds yet: the index lag.",
                sum(facts.get("unpublished_changes", 0) for facts in known),
            ),
            "namespaces": ("Namespaces.", len(status["namespaces"])),
        }
        indexes = [facts["index"] for facts in known if "index" in facts]
        if indexes:
            changes, seconds = (max(index[name] for index in indexes) for name in ("lag_changes", "lag_seconds"))
            gauges["index_lag_changes"] = ("Changes that a distributed index lacks: the longest lag.", changes)
            gauges["index_lag_seconds"] = ("Age of the oldest of these changes.", seconds)
        for name, (told, value) in gauges.items():
            lines += [*_family(f"fourfold_{name}", "gauge", told), f"fourfold_{name} {value}"]
        return "\n".join(lines) + "\n"


def _family(name: str, kind: str, told: str) -> tuple[str, str]:
    return f"# HELP {name} {told}", f"# TYPE {name} {kind}"


def _histograms(name: str, by_labels: Mapping[str, Histogram]) -> Iterable[str]:
    for labels, histogram in sorted(by_labels.items()):
        yield from histogram.lines(name, labels)

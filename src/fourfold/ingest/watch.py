"""Watching folders by walking them repeatedly, which works on every file system."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from fourfold.errors import FourfoldError
from fourfold.ingest.report import IndexReport

PAUSE_SECONDS = 1.0
_PAUSE_PER_WALK = 20
"""Ratio of the pause to the walk before it: watching a large tree takes a twentieth of a core."""


def watch(index: Callable[[], IndexReport], pause: float = PAUSE_SECONDS) -> Generator[IndexReport | FourfoldError]:
    """Indexes repeatedly, with pauses, without end. Yields the report of each run, or its error: a missing folder."""
    while True:
        started = time.monotonic()
        try:
            yield index()
        except FourfoldError as error:
            yield error
        time.sleep(max(pause, _PAUSE_PER_WALK * (time.monotonic() - started)))

"""The process that opened something: a forked child has its memory, but not its threads, locks and connections."""

from __future__ import annotations

import os

from fourfold.errors import StoreUnavailable


class Owner:
    """Remembers the process that made it."""

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self._process

    def check(self) -> None:
        """Refuses use by a forked child, which would wait for threads that it does not have."""
        if not self.is_here:
            raise StoreUnavailable(
                f"this memory was opened by process {self._process}, and used in its child {os.getpid()}",
                "Open the store in the child, after the fork",
            )

"""Sizes at which the embedded store changes its way of working. Tests pass smaller ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from fourfold.index.log_tail import IndexTuning
from fourfold.limits import BUSY_SECONDS
from fourfold.storage.values import Pace


@dataclass(frozen=True, slots=True)
class Tuning(IndexTuning):
    pace: Pace = field(default_factory=Pace)
    publish_every_changes: int = 1000
    """Changes in the tail that are worth a publication."""
    rebuild_at_changes: int = 40_000
    """Above this many changes an index is published before it is searched: folding them into a tail costs the same."""
    child_at_changes: int = 10_000
    """Above this many changes a child process publishes."""
    load_at_items: int = 10_000
    """Items written without a pause that count as a bulk load, which is published while it runs."""
    load_every_changes: int = 20_000
    """Changes between two publications of a bulk load."""
    searched_every_changes: int = 5000
    """Replaces the two above while the namespace is searched: a long tail slows searches down."""
    log_kept_changes: int = 10_000
    """Published changes that stay in the log for processes that have not followed yet."""
    look_every_seconds: float = 1.0
    """How often a search with a long tail looks for a newer publication."""
    bulk_items: int = 64
    """A write of this many items folds its changes into searched indexes itself, so that no search has to."""
    inline_vectors: int = 50_000
    """Up to this many vectors are not searched in another thread of Python, which costs more than it saves."""
    columns_after_searches: int = 4
    """Searches of an unchanged namespace after which its names, links and tags are read into memory."""
    columns_pause: float = 20.0
    """They are read again at the earliest after this many times the duration of the last reading."""
    columns_fold_changes: int = 1000
    """Changes of links and tags since the last search that a search folds into them."""
    columns_tail: int = 5000
    """Items, nodes and tags that changed, above which they are read again."""
    max_column_rows: int = 2_000_000
    """A namespace with more rows of names, links and tags is searched in the tables."""
    wal_bytes: int = 64 * 1024 * 1024
    """From this length on, writers wait a moment for readers in order to reset SQLite's write-ahead log."""
    wal_retry_seconds: float = 10.0
    """Time until the next attempt after readers did not finish."""
    busy_seconds: float = BUSY_SECONDS
    """How long a write waits for the lock of another process."""
    durable: bool = True
    """Commits survive a power loss. False for stores that end with the process: opening and writing do not wait for
    the disk."""


DEFAULT = Tuning()

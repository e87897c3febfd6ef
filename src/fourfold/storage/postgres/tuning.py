"""Thresholds for the indexes of a namespace. Tests use smaller numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fourfold.storage.values import Pace


@dataclass(frozen=True, slots=True)
class Tuning:
    pace: Pace = field(default_factory=Pace)
    postings_items: int = 2_000
    """A namespace of this many items gets postings."""
    postings_tail_texts: int = 1_000
    """This many texts that are newer than the postings make a new part."""
    postings_uses: int = 500_000
    """The rarest words of a query that have this many uses together propose; commoner ones only count in the scores."""
    first_stage_uses: int = 1_000
    """Without postings, the rows of this many uses of words are read first, then four times as many, and so on."""
    vector_index_items: int = 2_000
    """A namespace of this many vectors gets an HNSW index; a smaller one is searched exactly."""
    narrow_items: int = 5_000
    """Up to this many items that pass a filter are all scored, without an index."""
    feed_changes: int = 200
    """This many changes that a distributed index lacks are carried there."""
    feed_seconds: float = 10.0
    """Fewer changes are carried there when the first is this old."""
    feed_batch_items: int = 500
    feed_marks: int = 1_000
    """A node that has lost at most this many batches gets them again; with more, the index is rebuilt."""
    feed_turn_seconds: float = 20.0
    """Feeding yields to other work under the lease after this long."""
    tail_items: int = 10_000
    """With more changes that the index lacks, PostgreSQL answers from its own indexes."""
    check_grace_seconds: float = 2.0
    """A difference between index and rows counts if it is still there after this long."""
    server_settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further settings of every connection."""

"""Sizes at which indexes change their way of working. Tests pass smaller ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexTuning:
    fold_at_most_changes: int = 2000
    """Changes that a search folds into the tail itself; above this a background thread does it."""
    scan_rows: int = 5000
    """If a filter passes at most this many rows, all of them are scored, without postings or FAISS."""
    exact_rows: int = 20_000
    """Up to this many vectors one matrix product is as fast as FAISS, and exact."""
    min_faiss_lists: int = 64
    block_rows: int = 64
    """Adjacent vectors that are multiplied in place: copying more of them costs more than the products."""
    rough_factor: int = 4
    """Above this many candidates for each wanted hit, cosines are computed in single precision first."""
    coded_after_scans: int = 3
    """Scans of all vectors after which their codes are made, which rule out most rows of later scans."""
    thread_rows: int = 1000
    """Vectors whose search is worth waking the thread of the kernel."""
    dead_share: float = 0.1
    """With a larger share of dead rows, an index is rebuilt from all items."""
    unknown_to_faiss_share: float = 0.25
    """FAISS is trained again when it lacks a larger share of the rows."""
    publish_batch_items: int = 2000
    """Items that a publication reads in one snapshot."""


DEFAULT = IndexTuning()

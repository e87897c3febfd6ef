"""The part of a long item that is nearest to the query by meaning, and what no vector reads of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fourfold.limits import WINDOWS
from fourfold.ranking.explain import explained
from fourfold.retrieval import Part, Query, Result
from fourfold.storage.protocols import Snapshot


def with_parts(snapshot: Snapshot, query: Query, results: list[Result]) -> list[Result]:
    """Names the part of each result that has several vectors, also in its explanation."""
    queries = [vector for vector in (query.vector, query.second) if vector is not None]
    if not queries or not results or not snapshot.size.windows:
        return results
    parts = snapshot.nearest_parts(queries, [result.id for result in results])
    return [_with_part(result, parts[result.id]) if result.id in parts else result for result in results]


def _with_part(result: Result, part: Part) -> Result:
    with_part = replace(result, part=part)
    return with_part if result.explanation is None else explained(with_part)


def unread_notes(results: Sequence[Result]) -> list[str]:
    """A line for each result whose text is longer than its vectors read."""
    return [
        f"item {result.id}: its {result.part.count} vectors (at most {WINDOWS}) read the first "
        f"{len(result.item.text or result.item.title) - result.part.unread:,} characters of its text; "
        f"only keyword search reads the last {result.part.unread:,}"
        for result in results
        if result.part is not None and result.part.unread
    ]

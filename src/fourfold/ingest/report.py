"""Summary of an index run: counts, and files skipped by reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_EXAMPLES = 5


@dataclass(slots=True)
class Skipped:
    count: int = 0
    examples: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class IndexReport:
    files: int = 0
    """Number of files after exclusion by rules, name and size."""
    new: int = 0
    changed: int = 0
    moved: int = 0
    removed: int = 0
    unchanged: int = 0
    opened: int = 0
    """Files whose content was read."""
    chunks: int = 0
    """Items of the files that were stored in this run."""
    skipped: dict[str, Skipped] = field(default_factory=dict[str, Skipped])
    """By reason."""
    notes: dict[str, Skipped] = field(default_factory=dict[str, Skipped])
    """Stored files with missing parts, by reason."""

    def skip(self, reason: str, path: str) -> None:
        _count(self.skipped, reason, path)

    def note(self, reason: str, path: str) -> None:
        _count(self.notes, reason, path)

    def skip_all(self, found: Iterable[tuple[str, str]]) -> None:
        for reason, path in found:
            self.skip(reason, path)

    @property
    def touched(self) -> bool:
        """Whether anything changed."""
        return bool(self.new or self.changed or self.moved or self.removed)


def _count(found: dict[str, Skipped], reason: str, path: str) -> None:
    entry = found.setdefault(reason, Skipped())
    entry.count += 1
    if len(entry.examples) < _EXAMPLES:
        entry.examples.append(path)


def reasons(skipped: Mapping[str, Skipped]) -> list[tuple[str, Skipped]]:
    """Return the reasons, most frequent first."""
    return sorted(skipped.items(), key=lambda reason: (-reason[1].count, reason[0]))

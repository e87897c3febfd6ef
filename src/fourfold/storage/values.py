"""The values that storage takes and returns, besides those of the model, and the errors that all stores raise."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from fourfold.embed.windows import Windows
from fourfold.errors import Ambiguous, NotFound, RequestError, SpaceMismatch
from fourfold.model import Json, NewItem, Source, Space, Vector
from fourfold.text.entities import split_label, with_label

Record = dict[str, Json]
"""A line of an export."""
Direction = Literal["both", "out", "in"]
Vocabulary = Literal["kind", "language", "metadata"]

PendingText: TypeAlias = tuple[int, str, str]
"""(id, title, text) of an item that waits for a vector."""
MadeVectors: TypeAlias = "tuple[int, str, str, Vector | Windows]"
"""The same with the vector that was made from it, or with one per window."""
GIVEN_SPACE = "given"
"""The fingerprint of a space whose vectors come from callers."""
HOW_TO_CREATE = "Create a store with `fourfold add`, `import` or `index`, or name another one with --store"
"""The remedy of StoreNotFound."""


@dataclass(slots=True)
class Deadline:
    """When the reads of a snapshot have to end. The engine moves it while a retriever reads."""

    seconds: float = math.inf
    """Time that was given."""
    until: float = math.inf
    """On the monotonic clock."""

    @property
    def seconds_left(self) -> float:
        return max(self.until - time.monotonic(), 0.0)


@dataclass(frozen=True, slots=True)
class Pace:
    """When background work of a store is due."""

    quiet_seconds: float = 0.25
    """Indexes are published when there was no write for this long, so that a bulk load publishes once."""
    longest_wait_seconds: float = 30.0
    """Continuous writes delay a publication for at most this long."""
    watch_seconds: float = 2.0
    """How often a long-lived process looks for work that other processes left."""
    longest_pause_seconds: float = 60.0
    """Between attempts while the embedder fails."""


@dataclass(frozen=True, slots=True)
class Size:
    items: int
    vectors: int
    """Number of items that have one."""
    windows: int = 0
    """Number of vectors beyond the first of each item."""

    @property
    def pending(self) -> int:
        return self.items - self.vectors


class Hidden(NamedTuple):
    """Whether a namespace has items that searches may have to leave out."""

    superseded: bool
    expiring: bool


@dataclass(frozen=True, slots=True)
class NewNode:
    name: str
    label: str = "entity"
    aliases: tuple[str, ...] = ()
    properties: Mapping[str, Json] | None = None
    item: int | None = None


class TagUse(NamedTuple):
    """An item that carries a tag."""

    item: int
    tag: str
    uses: int
    """How many items carry it."""


class NewRaw(NamedTuple):
    """A raw record to be stored."""

    content: str
    speaker: str | None
    session_id: str | None
    metadata: Mapping[str, Json]
    created_at: datetime
    source: Source | None = None


class Receipt(NamedTuple):
    """What was asked through one interface."""

    asked: int
    answered: int
    """With enough confidence."""
    items: int
    """That were given."""


class Version(NamedTuple):
    """An item as it was before a change, or before it was merged into another one."""

    id: int
    """Of the version; of the item itself if it was merged."""
    item: int
    """Whose version it is, or into which item it was merged."""
    until: int
    """When it was replaced, in microseconds since 1970. Later changes of the same item have later times."""
    merged: bool
    record: Record
    """The record of the item in an export, without its type, namespace and id."""


# ---------------------------------------------------------------- what stores tell each other


class Head(NamedTuple):
    """What two stores compare about one thing."""

    uid: str
    kind: str
    life: int
    edits: int
    born: int
    """When it was created, in microseconds since 1970; 0 if that is not known."""
    state: str
    """The hash of its content; empty after it was deleted."""
    at: Json = None
    """Where this store has it."""
    time: int = 0
    """Of its last change."""
    content: str = ""
    """The hash of what a version of an item keeps."""
    owner: str = ""
    """The item that it is a version of."""
    name: str = ""
    """The hash of the key of an item that has one: no two items have the same."""

    @property
    def exists(self) -> bool:
        return self.life % 2 == 1

    @property
    def clock(self) -> tuple[int, int, int, str]:
        """The larger one wins."""
        return self.life, self.edits, self.time, self.state


class Change(NamedTuple):
    """What one store is to do about one thing."""

    uid: str
    kind: str
    life: int
    edits: int
    born: int
    state: str
    """What the thing will be."""
    at: Json
    """Where this store has it; None: it has not."""
    expected: str
    """The state that it has here now; with another one it stays as it is."""
    record: Record | None
    """What to write; None: only the clocks, or, with an even `life`, remove it."""


class NeighborQuery(NamedTuple):
    """Nodes within `depth` steps of one node, and the page of them that is wanted; without a limit, all."""

    name: str
    label: str | None
    depth: int
    direction: Direction
    relation: str | None
    limit: int | None = None
    offset: int = 0


class FileState(NamedTuple):
    """A file as it was when it was last indexed."""

    path: str
    size: int
    mtime_ns: int
    digest: str
    """Of its content, in hexadecimal; empty if the file was not read."""
    skipped: str = ""
    """Why nothing of it is stored; empty if something is."""


FileRow = tuple[str, int, int, str, str]
"""The fields of a FileState. A run over 100,000 files only compares most of them: plain tuples cost less."""


class FileUpdate(NamedTuple):
    state: FileState
    chunks: Sequence[NewItem] | None = ()
    """Checked, with the state's path, and numbered from 0 without a gap. None: the stored chunks stay as they are."""
    moved_from: str | None = None
    """The path under which this content is stored so far."""


# ---------------------------------------------------------------- the order of the values of a fact


class Place(NamedTuple):
    """An item among the values of its fact. Times are in microseconds since 1970."""

    id: int
    valid_from: int
    superseded_at: int | None
    supersedes: int | None


def arranged(values: Sequence[Place]) -> list[Place]:
    """Return the values whose place changes, in the order in which they were believed.

    Each value supersedes the one before it and is superseded when the next one begins. A value whose successor was
    forgotten stays superseded: forgetting the present value does not bring an old one back.
    """
    ordered = sorted(values, key=lambda value: (value.valid_from, value.id))
    changed: list[Place] = []
    for number, value in enumerate(ordered):
        before = ordered[number - 1].id if number else None
        until = value.superseded_at
        if number + 1 < len(ordered) and (until is None or until > ordered[number + 1].valid_from):
            until = ordered[number + 1].valid_from
        new = value._replace(superseded_at=until, supersedes=before)
        if new != value:
            changed.append(new)
    return changed


# ---------------------------------------------------------------- errors in the same words on every store


def ambiguous(name: str, labels: Iterable[str]) -> Ambiguous:
    """A name that several nodes share; the remedy shows what to write instead."""
    nodes = sorted(labels)
    forms = [with_label(name, label) for label in nodes if split_label(with_label(name, label)) == (name, label)]
    remedy = f"Write {' or '.join(forms)}" if forms else "Give the label, too"
    if len(set(nodes)) < len(nodes):
        remedy = "It is an alias: write the node's own name"
    return Ambiguous(f"{name!r} names {len(nodes)} nodes, with the labels {', '.join(nodes)}", remedy)


def no_node(reference: str) -> NotFound:
    name, label = split_label(reference)
    if label is None:
        return NotFound(
            f"no node {name!r}", "fourfold graph nodes --like TEXT finds names, fourfold graph node NAME makes one"
        )
    remedy = "Leave the label out, or write \\# for a # that belongs to the name"
    return NotFound(f"no node {name!r} with the label {label!r}", remedy)


# ---------------------------------------------------------------- raw records

SHOWN_ITEMS: Final = 5
"""Items that are named in the refusal."""


def no_raw(record: int) -> NotFound:
    return NotFound(f"no raw record {record}", "fourfold raw list shows what there is")


def still_a_source(record: int, items: Sequence[int]) -> RequestError:
    """`items`: some of those that it is a source of, at most one more than is shown."""
    named = ", ".join(map(str, items[:SHOWN_ITEMS])) + (" and others" if len(items) > SHOWN_ITEMS else "")
    return RequestError(
        f"raw record {record} is a source of item {named}",
        "Forget these items first, or use force: then their source_ids lose it",
    )


# ---------------------------------------------------------------- vectors


def other_space(space: Space, wanted: Space) -> SpaceMismatch:
    return SpaceMismatch(
        f"the vectors here come from {space.fingerprint}, not from {wanted.fingerprint}",
        "Use that embedder again, or compute all vectors again: fourfold reembed",
    )

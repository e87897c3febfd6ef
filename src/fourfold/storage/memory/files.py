"""Files and their chunks in a draft of a namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from fourfold.limits import CANDIDATES
from fourfold.model import Filters, Item
from fourfold.storage.chunk_matching import continued
from fourfold.storage.memory import graph, items
from fourfold.storage.memory.filters import passes
from fourfold.storage.memory.state import Namespace
from fourfold.storage.values import FileUpdate
from fourfold.text.fold import fold


def put(ns: Namespace, file: FileUpdate, now: datetime, *, links: bool) -> list[int]:
    """Returns the items whose links must be rebuilt."""
    changed: list[int] = []
    if file.moved_from is not None:
        _move(ns, file.moved_from, file.state.path)
    if file.chunks is not None:
        _renumber(ns, file)
        written = [items.put(ns, chunk, now, links=links) for chunk in file.chunks]
        changed = [item for item, new in written if new]
    ns.files[file.state.path] = file.state
    return changed


def _move(ns: Namespace, source: str, target: str) -> None:
    ns.files.pop(source, None)
    occupied = bool(chunks(ns, target))
    for item in chunks(ns, source):
        if occupied:
            graph.forget(ns, item.id)
        else:
            _set(ns, replace(item, path=target))


def _renumber(ns: Namespace, file: FileUpdate) -> None:
    old = [(item.id, item.title, item.text) for item in chunks(ns, file.state.path)]
    kept, rest = continued(old, file.chunks or ())
    for item in rest:
        graph.forget(ns, item)
    for number, item in enumerate(kept):
        if item is not None:
            _set(ns, replace(ns.items[item].item, chunk_index=number))


def _set(ns: Namespace, item: Item) -> None:
    ns.items[item.id] = replace(ns.items[item.id], item=item)


def forget(ns: Namespace, path: str) -> int:
    gone = chunks(ns, path)
    for item in gone:
        graph.forget(ns, item.id)
    ns.files.pop(path, None)
    return len(gone)


def forget_state(ns: Namespace, item: int) -> None:
    """Drops the recorded state of the file that this item is a chunk of."""
    known = ns.items[item].item
    if known.key is None and known.path is not None:
        ns.files.pop(known.path, None)


def chunks(ns: Namespace, path: str) -> list[Item]:
    found = [item for _, item in items.all_items(ns) if item.path == path and item.key is None]
    return sorted(found, key=lambda item: item.chunk_index or 0)


def named(ns: Namespace, names: Sequence[str], filters: Filters) -> list[tuple[int, str]]:
    paths = [path for path in sorted(ns.files) if fold(path.rpartition("/")[2]) in names]
    found = [(item.id, path) for path in paths for item in chunks(ns, path) if passes(item, filters)]
    return found[:CANDIDATES]

"""Two stores become equal: each tells what it has and which clocks that has, and gets what the other one knows later.

Both sides reach the same result, whichever starts, by these rules. A deletion wins over changes that did not know of
it; what was stored again after it stays. Of two changes the one that knew of the other wins, else the one of the side
that counted more changes of the thing, else the later one by time, else the one with the larger hash. A state of an
item that is replaced stays in its history, unless it is there already. Nodes get the aliases and texts of both sides,
and items with the same text the tags of both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, cast

from fourfold import validation as rules
from fourfold.engine import keyed
from fourfold.errors import Conflict, InvalidQuery, NewerSchema
from fourfold.model import Json
from fourfold.storage.protocols import Peer, Snapshot, Store
from fourfold.storage.sql import replica
from fourfold.storage.sql.dialect import dumps, micros, moment, pages
from fourfold.storage.sql.records import parse_time
from fourfold.storage.values import Change, Head, Record

Lines: TypeAlias = "Sequence[Mapping[str, Json]]"
"""A request, or the answer to it: one line that says what it is, then its rows."""
Progress: TypeAlias = Callable[[int, int], None]

FORMAT: Final = 1
_READ_SECONDS: Final = 3600.0
_BATCH: Final = 200
"""Things that are written by one transaction."""
_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Of the records that are read by one request."""
_READ_TOGETHER: Final = 16
_ROUNDS: Final = 8
_WAYS: Final = ("received", "sent")
_STEP: Final = {kind: number for number, kind in enumerate(replica.ORDER)}


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a synchronisation changed on each side, by kind of thing."""

    sent: dict[str, int] = field(default_factory=dict[str, int])
    received: dict[str, int] = field(default_factory=dict[str, int])
    conflicts: int = 0
    """Items that both sides had changed: the state that did not win is in the history."""
    complete: bool = True
    """False if something that was there when it began is still missing, because others changed what it refers to."""
    purged: bool = False
    """Whether one side removed every byte of what was forgotten, because the other one had."""


# ---------------------------------------------------------------- one side


@dataclass(frozen=True, slots=True)
class Side:
    """A namespace of an open store, which answers the requests of another one."""

    store: Store
    namespace: str
    protect: Callable[[Record], Record]
    """Converts what is to be stored."""
    links: bool

    def answer(self, lines: Lines, now: datetime) -> list[dict[str, Json]]:
        asked, rows = lines[0].get("ask") if lines else None, lines[1:]
        match asked:
            case "heads":
                return self._heads()
            case "read":
                return self._read(rows)
            case "write":
                return self._write(rows, now)
            case "purge" if rules.is_whole(lines[0].get("time"), 0):
                return self._purge(min(cast("int", lines[0]["time"]), micros(now)))
            case _:
                raise InvalidQuery("the other store asks for something unknown", "Upgrade Fourfold on both sides")

    def _snapshot(self) -> AbstractContextManager[Snapshot]:
        return self.store.snapshot(self.namespace, seconds=_READ_SECONDS)

    def _heads(self) -> list[dict[str, Json]]:
        with self._snapshot() as at:
            heads, fresh = at.replica.heads()
            purged, removed = at.replica.purged(), at.replica.has_removed()
        if fresh:
            with self.store.transaction(self.namespace) as tx:
                tx.replica.write_heads(fresh)
        return [{"format": FORMAT, "purged": purged, "removed": removed}, *({"head": list(head)} for head in heads)]

    def _read(self, rows: Lines) -> list[dict[str, Json]]:
        """As many of the records, from the first one on, as fit into one answer."""
        places = [(str(row.get("kind")), replica.read_place(row.get("kind"), row.get("at"))) for row in rows]
        told: list[dict[str, Json]] = []
        size = 0
        with self._snapshot() as at:
            for record in _records(at.replica, places):
                size += len(dumps(record))
                if told and size > _ANSWER_BYTES:
                    break
                told.append({"record": record})
        return told

    def _write(self, rows: Lines, now: datetime) -> list[dict[str, Json]]:
        with self._snapshot() as at:
            changes = replica.read_changes([row.get("change") for row in rows], at.space)
        told = [each for each in changes if each.record is None or not replica.has_secret_name(each.record)]
        safe = [each._replace(record=_protected(each.record, self.protect)) for each in told]
        with self.store.transaction(self.namespace, names=True) as tx:
            keyed.check(tx)
            tx.replica.write(safe, now, links=self.links)
            keyed.done(tx)
        return []

    def _purge(self, time: int) -> list[dict[str, Json]]:
        self.store.maintenance.repair(purge=True)
        with self.store.transaction(self.namespace) as tx:
            tx.replica.set_purged(time)
        return []


def _records(held: replica.Replica, places: Sequence[tuple[str, Any]]) -> Iterator[Record | None]:
    """A few at a time, because they may be large."""
    for kind, same in groupby(places, key=itemgetter(0)):
        for some in pages(same, _READ_TOGETHER):
            yield from held.read(kind, [place for _, place in some])


def _protected(record: Record | None, protect: Callable[[Record], Record]) -> Record | None:
    if record is not None and record["type"] == "file":
        return {**record, "chunks": [protect(chunk) for chunk in record["chunks"]]}
    return None if record is None else protect(record)


# ---------------------------------------------------------------- what is to be done


class Decision(NamedTuple):
    """What becomes of one thing. `heads`, and all pairs below: here, there."""

    heads: tuple[Head | None, Head | None]
    life: int
    edits: int
    winner: int
    """The side whose content stays."""
    keeps: bool = False
    """Whether the content of the other side goes into the history."""
    unites: bool = False
    """Whether neither side knew of the change of the other one."""
    absorbs: tuple[Decision, ...] = ()
    """Items with the same key, which become versions of this one, as if they had been merged into it."""

    @property
    def best(self) -> Head:
        return cast("Head", self.heads[self.winner])

    @property
    def uid(self) -> str:
        return self.best.uid

    @property
    def exists(self) -> bool:
        return self.life % 2 == 1

    @property
    def is_done(self) -> bool:
        return all(
            head is not None and (head.life, head.edits) == (self.life, self.edits) and head.state == self.state
            for head in self.heads
        )

    @property
    def state(self) -> str:
        return self.best.state if self.exists else ""


def plan(here: Iterable[Head], there: Iterable[Head]) -> list[Decision]:
    """What is to be done until both sides are equal, in an order in which it can be done."""
    sides = [{head.uid: head for head in heads} for heads in (here, there)]
    history = {(h.owner, h.content) for side in sides for h in side.values() if h.owner and h.exists}
    decisions = {uid: _decision(sides[0].get(uid), sides[1].get(uid), history) for uid in {**sides[0], **sides[1]}}
    _break_circles(decisions)
    _follow_owners(decisions)
    _unite_keys(decisions)
    undone = [each for each in decisions.values() if not each.is_done or each.absorbs]
    return sorted(undone, key=lambda each: _order(each, decisions))


def _order(decision: Decision, decisions: Mapping[str, Decision]) -> tuple[int, int, bool, str]:
    """Deletions first, then things after those that they refer to."""
    step, depth, owner = _STEP[decision.best.kind], 0, decision.best.owner
    if not decision.exists:
        return 0, -step, False, decision.uid
    while owner in decisions and depth < len(decisions):
        depth, owner = depth + 1, decisions[owner].best.owner
    return step + 1, depth, not decision.absorbs, decision.uid


def _decision(one: Head | None, other: Head | None, history: set[tuple[str, str]]) -> Decision:
    present = [head for head in (one, other) if head is not None]
    best = max(present, key=lambda head: head.clock)
    life, edits = best.life, max(head.edits for head in present)
    alive = [head for head in present if head.exists]
    if len(alive) == 1 and len(present) == 2 and not best.exists and 0 != alive[0].born != best.born != 0:
        best, life = alive[0], best.life + 1  # deleted was another one, which had the same key or text
    winner = 0 if best is one else 1
    lost = (other, one)[winner]
    if best.exists and lost is not None and lost.exists and lost.life == best.life and lost.state != best.state:
        keeps = bool(lost.content) and lost.content != best.content and (best.uid, lost.content) not in history
        return Decision((one, other), life, edits, winner, keeps, lost.edits == best.edits)
    return Decision((one, other), life, edits, winner)


def _break_circles(decisions: dict[str, Decision]) -> None:
    """Of two items, each of which one side merged into the other one, one stays an item."""
    seen: set[str] = set()
    for start in [uid for uid, each in decisions.items() if each.exists and each.best.kind == "item"]:
        chain: list[str] = []
        owner = start
        while owner in decisions and owner not in seen:
            seen.add(owner)
            chain.append(owner)
            owner = decisions[owner].best.owner
        for uid in sorted(chain[chain.index(owner) :]) if owner in chain else ():
            each = decisions[uid]
            other = each.heads[1 - each.winner]
            if other is not None and other.exists and not other.owner:
                decisions[uid] = each._replace(winner=1 - each.winner, edits=each.edits + 1)
                break


def _follow_owners(decisions: dict[str, Decision]) -> None:
    """Versions of what is deleted are deleted, also if another item has its key now."""
    owned = {uid: each for uid, each in decisions.items() if each.exists and each.best.owner}
    while gone := [uid for uid, each in owned.items() if _has_lost_owner(each, decisions.get(each.best.owner))]:
        for uid in gone:
            each = owned.pop(uid)
            decisions[uid] = each._replace(life=each.life + 1, keeps=False)


def _has_lost_owner(version: Decision, owner: Decision | None) -> bool:
    if owner is None or not owner.exists:
        return owner is not None
    heads = [head for head in owner.heads if head is not None]
    if any(not head.exists and head.born == version.best.born for head in heads):
        return True  # what was deleted, and not what has its key
    return len({head.life for head in heads}) > 1 and version.heads[owner.winner] is None


def _unite_keys(decisions: dict[str, Decision]) -> None:
    """Of several items with one key the latest stays."""
    named: defaultdict[str, list[Decision]] = defaultdict(list)
    for each in decisions.values():
        if each.exists and each.best.name:
            named[each.best.name].append(each)
    for same in named.values():
        if len(same) > 1:
            kept, *others = sorted(same, key=lambda each: (each.best.time, each.best.state), reverse=True)
            decisions[kept.uid] = kept._replace(absorbs=tuple(others))
            for each in others:
                del decisions[each.uid]


# ---------------------------------------------------------------- doing it


def _state_of(record: Any) -> str:
    try:
        return replica.state_of(record)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise replica.unreadable(f"a record that cannot be read ({type(error).__name__})") from error


class _Purges(NamedTuple):
    """What a side says of its purges."""

    time: int
    """0: never."""
    has_removed: bool
    """Whether another store has removed something there since."""


class _Round:
    """Both sides as they were when the round began."""

    def __init__(self, peers: tuple[Peer, Peer]) -> None:
        self._peers = peers
        self._heads: list[list[Head]] = []
        self.purges: list[_Purges] = []
        for peer in peers:
            told, *rows = peer.sync_step([{"ask": "heads"}]) or [{}]
            if told.get("format") != FORMAT:
                raise NewerSchema("the other store synchronises in another format", "Upgrade both Fourfolds")
            purged: Any = told.get("purged")
            if not rules.is_whole(purged, 0):
                raise replica.unreadable("a time that is out of range")
            self._heads.append([replica.read_head(row.get("head")) for row in rows])
            self.purges.append(_Purges(purged, told.get("removed") is True))
        self.decisions = plan(*self._heads)
        self.left: list[Decision] = []
        """What was changed by others since, and what refers to it: it is planned again in the next round."""
        self._changed: dict[str, int] = {}
        for head in (head for heads in self._heads for head in heads):
            times = (self._changed.get(head.owner, 0), head.time)
            self._changed[head.owner] = max(times)

    def carry_out(self, some: Sequence[Decision], tally: Counter[str]) -> None:
        """Reads what the sides need of each other, and lets each write its part by one transaction.

        What is too large for one is done in halves, and so is what others have changed meanwhile.
        """
        own: Counter[str] = Counter()
        try:
            if (records := self._read(some)) is not None:
                self._write(some, records, own)
        except Conflict:
            if len(some) == 1:
                self.left += some
                return
            records = None
        if records is None:
            middle = len(some) // 2
            self.carry_out(some[:middle], tally)
            self.carry_out(some[middle:], tally)
        else:
            tally.update(own)

    def _write(self, some: Sequence[Decision], records: Mapping[tuple[int, str], Record], tally: Counter[str]) -> None:
        changes: tuple[list[Change], list[Change]] = ([], [])
        waiting = {each.uid for each in self.left}
        try:
            for each in some:
                if waiting and not waiting.isdisjoint(_mentioned(records.get((each.winner, each.uid)))):
                    self.left.append(each)
                else:
                    self._change(each, records, changes, tally)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise replica.unreadable(f"a record that cannot be read ({type(error).__name__})") from error
        for side in (1, 0):
            if changes[side]:
                rows = [{"change": list(change)} for change in changes[side]]
                self._peers[side].sync_step([{"ask": "write"}, *rows])

    def is_behind(self, first: _Round) -> bool:
        """Whether something is left that was there already when the first round began."""
        known = [{head.uid: head.state for head in heads} for heads in first._heads]
        return any(known[each.winner].get(each.uid) == each.best.state for each in self.left)

    def _read(self, some: Sequence[Decision]) -> dict[tuple[int, str], Record] | None:
        """The contents that are needed, by side and uid; None if several decisions need too much."""
        wanted: tuple[list[Head], list[Head]] = ([], [])
        for each in some:
            if each.exists and any(head is None or head.state != each.state for head in each.heads):
                wanted[each.winner].append(each.best)
            lost = each.heads[1 - each.winner]
            if lost is not None and (each.keeps or each.unites):
                wanted[1 - each.winner].append(lost)
            for other in each.absorbs:
                wanted[other.winner].append(other.best)
        records: dict[tuple[int, str], Record] = {}
        for side, heads in enumerate(wanted):
            rows = [{"kind": head.kind, "at": head.at} for head in heads]
            read: list[dict[str, Json]] = []
            while len(read) < len(rows):
                if read and len(some) > 1:
                    return None
                more = self._peers[side].sync_step([{"ask": "read"}, *rows[len(read) :]])
                if not 0 < len(more) <= len(rows) - len(read):
                    raise replica.unreadable("too few or too many records")
                read += more
            for head, row in zip(heads, read, strict=True):
                if row.get("record") is None or _state_of(row["record"]) != head.state:
                    raise replica.changed_meanwhile()
                records[side, head.uid] = row["record"]
        return records

    def _change(
        self,
        each: Decision,
        records: Mapping[tuple[int, str], Record],
        changes: tuple[list[Change], list[Change]],
        tally: Counter[str],
    ) -> None:
        record, state, edits = records.get((each.winner, each.uid)), each.state, each.edits
        lost = records.get((1 - each.winner, each.uid))
        if each.unites and record is not None and lost is not None:
            record = _united(record, lost)
            state = replica.state_of(record)
            edits += state != each.state
        self._tell(each, record, edits, state, changes, tally)
        if each.keeps and lost is not None:
            tally["conflicts"] += 1
            self._keep(each, lost, changes)
        for other in each.absorbs:
            tally["conflicts"] += 1
            version = self._version(each, records[other.winner, other.uid], merged=True)
            self._tell(other, version, other.edits + 1, replica.state_of(version), changes, tally)

    def _tell(
        self,
        each: Decision,
        record: Record | None,
        edits: int,
        state: str,
        changes: tuple[list[Change], list[Change]],
        tally: Counter[str],
    ) -> None:
        """What each side has to write to be at these clocks and in this state."""
        best = each.best
        for side, head in enumerate(each.heads):
            at, here = (None, "") if head is None else (head.at, head.state)
            if head is not None and (head.life, head.edits, here) == (each.life, edits, state):
                continue
            told = record if each.exists and here != state else None
            changes[side].append(Change(best.uid, best.kind, each.life, edits, best.born, state, at, here, told))
            if told is not None:
                tally[f"{_WAYS[side]} {best.kind}"] += 1
            elif not each.exists and at is not None:
                tally[f"{_WAYS[side]} deletion"] += 1

    def _keep(self, owner: Decision, lost: Record, changes: tuple[list[Change], list[Change]]) -> None:
        """Puts a content that was replaced into the history of an item, on both sides."""
        record = self._version(owner, lost, merged=False)
        until = self._changed[owner.uid]
        inner = record["record"]
        uid, born = replica.version_uid(owner.uid, until, inner), micros(parse_time(inner["created_at"]))
        for side in changes:
            side.append(Change(uid, "version", 1, 1, born, replica.state_of(record), None, "", record))

    def _version(self, owner: Decision, lost: Record, *, merged: bool) -> Record:
        """A content as the last version of an item."""
        inner = lost["record"] if lost["type"] == "version" else lost
        left_out = ("type", "version_of", "spans")
        kept = {name: value for name, value in inner.items() if name not in left_out} | {"vector": None}
        times = (head.time for head in owner.heads if head is not None)
        until = self._changed[owner.uid] = max(self._changed.get(owner.uid, 0), *times) + 1
        shown = moment(until).isoformat()
        return {"type": "version", "item": owner.uid, "until": shown, "merged": merged, "record": kept}


def _mentioned(record: Record | None) -> set[str]:
    """The uids of what a record refers to."""
    if record is None:
        return set()
    inner = record.get("record", record)
    chunks = record.get("chunks", ())
    sources = [each for part in (inner, *chunks) for each in part.get("source_ids", ())]
    return {*sources, *record.get("items", ()), record.get("item", ""), inner.get("version_of", "")}


def _united(record: Record, lost: Record) -> Record:
    """A content with what the other one adds to it."""
    if record["type"] == lost["type"] == "node":
        names = {name: sorted({*record[name], *lost[name]}) for name in ("aliases", "items")}
        return {**record, **names, "properties": {**lost["properties"], **record["properties"]}}
    if record["type"] == lost["type"] == "item" and record["key"] is None and record["text"] == lost["text"]:
        return {**record, "tags": sorted({*record["tags"], *lost["tags"]})}
    return record


def synchronise(here: Peer, there: Peer, progress: Progress | None = None) -> SyncReport:
    """Repeats until nothing is left to do, since what one side derives from what it got may be news to the other.

    Others may write without end: what they write after the first round may stay for the next synchronisation.
    """
    tally: Counter[str] = Counter()
    current = first = _Round((here, there))
    for number in range(_ROUNDS):
        current = _Round((here, there)) if number else first
        if not current.decisions:
            break
        done = 0
        for batch in pages(current.decisions, _BATCH):
            current.carry_out(batch, tally)
            done += len(batch)
            if progress is not None:
                progress(done, len(current.decisions))
    if current.is_behind(first):
        return replace(_report(tally, purged=False), complete=False)
    return _report(tally, purged=_purge((here, there), current.purges))


def _purge(peers: tuple[Peer, Peer], told: Sequence[_Purges]) -> bool:
    """A side follows the other one if that was purged later, or ever and something was removed here since."""
    now = micros(datetime.now(UTC))
    times = [each.time if each.time <= now else 0 for each in told]  # a clock that is wrong must not win for ever
    behind = [
        side for side in (0, 1) if times[side] < times[1 - side] or (told[side].has_removed and told[1 - side].time > 0)
    ]
    for side in behind:
        peers[side].sync_step([{"ask": "purge", "time": max(times) or now}])
    return bool(behind)


def _report(tally: Counter[str], *, purged: bool) -> SyncReport:
    kinds = (*replica.ORDER, "deletion")
    sent, received = ({kind: n for kind in kinds if (n := tally[f"{way} {kind}"])} for way in reversed(_WAYS))
    return SyncReport(sent, received, tally["conflicts"], purged=purged)

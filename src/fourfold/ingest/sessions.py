"""Import of sessions that other tools recorded: turns become raw records, exchanges become items.

An exchange is what the user said and what the assistant answered, cut into chunks that fit into one window of the
encoder. A transaction stores some exchanges, and up to where they reach; after an interruption the next run continues
there. The last exchange of a session may grow: the next run reads it again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from fourfold import validation as rules
from fourfold.errors import InvalidItem, RequestError
from fourfold.ingest.document import Section, chunks, numbered
from fourfold.ingest.sync import Progress
from fourfold.ingest.transcripts import USER, Position, Session, Turn, sessions_of
from fourfold.limits import LARGEST_ID
from fourfold.model import Filters, Item, Json, NewItem
from fourfold.storage.protocols import Snapshot, Store, Transaction
from fourfold.storage.sql.linking import bring_names
from fourfold.storage.values import FileRow, FileState, FileUpdate, NewRaw

KIND: Final = "exchange"
"""The kind of the items."""
_STATES: Final = "imported"
"""Begins the paths under which the state of sessions is stored. It differs from the path of their items, so that a
forgotten item does not take the state with it and come back."""
_FORMAT: Final = "1"
"""Begins a stored position: sessions that were read by other rules are read again."""
_EXCHANGE_CHARACTERS: Final = 64_000
"""A longer exchange is stored in parts, as if the user had said something in between."""
_TRANSACTION_CHUNKS: Final = 256
_NAME_CHARACTERS: Final = 100
_LABELS: Final[Mapping[str, str]] = {USER: "User: "}
_OTHER_LABEL: Final = "Assistant: "
_INCOMPLETE: Final = -1
"""Stands for the time of a file that was not read to its end."""


@dataclass(slots=True)
class SessionReport:
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    """Sessions that were not opened, because they are as they were."""
    bytes: int = 0
    """Of new and changed sessions."""
    turns: int = 0
    """Raw records that were stored."""
    items: int = 0
    left_out: Counter[str] = field(default_factory=Counter[str])
    """By reason."""

    @property
    def sessions(self) -> int:
        return self.new + self.changed


def import_sessions(
    store: Store,
    namespace: str,
    tool: str,
    place: Path | None,
    *,
    links: bool = True,
    protect: Callable[[str], str] = str,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> SessionReport:
    """Stores what is new in the sessions of a tool: those of a file or folder, or those that it keeps here.

    `protect` converts a text before it is stored; an InvalidItem leaves it out. `dry_run`: only counts sessions.
    """
    states = _stored_states(store, namespace, tool)
    planned = SessionReport()
    for session in sessions_of(tool, place):
        _count(planned, session, states)
    if dry_run:
        return planned
    run = _Run(store, namespace, links, protect, SessionReport())
    done = 0
    for session in sessions_of(tool, place):
        if not _count(run.report, session, states):
            continue
        for piece in _pieces(run, session, states):
            run.add(piece)
            if progress is not None and piece.is_last:
                progress(done + session.cost, planned.bytes)
            elif progress is not None:
                progress(done + min(piece.reached.start, session.cost), planned.bytes)
        done += session.cost
    run.write()
    return run.report


# ---------------------------------------------------------------- what was read before


class _Reached(NamedTuple):
    """How far a session is stored."""

    start: int
    mark: str
    chunk: int
    """Number of the chunk that begins there."""
    chunks: int
    """Number of chunks that were stored."""

    @property
    def text(self) -> str:
        return f"{_FORMAT} {self.start} {self.chunk} {self.chunks} {self.mark}"

    @classmethod
    def of(cls, row: FileRow | None) -> _Reached | None:
        match row[3].split() if row is not None else []:
            case [format_, start, chunk, chunks, mark] if format_ == _FORMAT:
                return cls(int(start), mark, int(chunk), int(chunks))
            case _:
                return None


_NOTHING: Final = _Reached(0, "-", 0, 0)


class _States(NamedTuple):
    rows: Mapping[str, FileRow]
    are_valid: bool
    """False if everything that was imported is forgotten: then all sessions are new."""

    def reached(self, session: Session) -> _Reached | None:
        return _Reached.of(self.rows.get(_state_path(session))) if self.are_valid else None

    def is_unchanged(self, session: Session) -> bool:
        row = self.rows.get(_state_path(session))
        return self.reached(session) is not None and row is not None and row[1:3] == (session.size, session.mtime_ns)


def _stored_states(store: Store, namespace: str, tool: str) -> _States:
    with store.snapshot(namespace) as snapshot:
        rows = snapshot.files(f"{_STATES}/{tool}/")
        return _States(rows, bool(rows) and snapshot.rows.count(Filters(path=f"{tool}/**")) > 0)


def _state_path(session: Session) -> str:
    return f"{_STATES}/{session.path}"


def _count(report: SessionReport, session: Session, states: _States) -> bool:
    """Whether the session has to be read."""
    if states.is_unchanged(session):
        report.unchanged += 1
        return False
    if states.reached(session) is None:
        report.new += 1
    else:
        report.changed += 1
    report.bytes += session.cost
    return True


# ---------------------------------------------------------------- from turns to chunks


class _Part(NamedTuple):
    """A chunk of an exchange."""

    text: str
    turns: range
    """Those that it is drawn from, in the list of its piece."""


@dataclass(slots=True)
class _Piece:
    """Exchanges that are stored in one transaction."""

    session: Session
    expected: FileRow | None
    """The stored state; if another one is stored by then, another process is importing the session."""
    first: int
    """Number of its first chunk."""
    stored: range
    """Numbers of the chunks from there on that are stored, unless they were forgotten."""
    is_again: bool
    """Whether something of the session may be stored from its first chunk on."""
    turns: list[Turn] = field(default_factory=list[Turn])
    parts: list[_Part] = field(default_factory=list[_Part])
    reached: _Reached = _NOTHING
    is_last: bool = False

    @property
    def state(self) -> FileState:
        session = self.session
        mtime_ns = session.mtime_ns if self.is_last else _INCOMPLETE
        return FileState(_state_path(session), session.size, mtime_ns, self.reached.text)

    def add(self, exchange: Sequence[Turn]) -> None:
        lines = [
            (number, line)
            for number, turn in enumerate(exchange, len(self.turns))
            for line in [*f"{_LABELS.get(turn.speaker, _OTHER_LABEL)}{turn.text}".split("\n"), ""]
        ]
        text = "\n".join(line for _, line in lines)
        for chunk in chunks([Section((), numbered(text))]):
            said = range(lines[chunk.first - 1][0], lines[chunk.last - 1][0] + 1)
            self.parts.append(_Part(chunk.text, said))
        self.turns += exchange

    def follow(self, row: FileRow) -> _Piece:
        """The next piece of the session, which finds this state stored."""
        first = self.first + len(self.parts)
        return _Piece(self.session, row, first, range(first, self.stored.stop), self.is_again)


def _pieces(run: _Run, session: Session, states: _States) -> Iterator[_Piece]:
    reached, row = states.reached(session), states.rows.get(_state_path(session))
    wanted = Position(reached.start, reached.mark) if reached is not None else None
    piece: _Piece | None = None
    last = (0, 0)
    exchange: list[Turn] = []
    for exchange in _exchanges(run.protected(session.turns(wanted, run.report.left_out))):
        turn = exchange[0]
        if piece is None:
            is_continued = reached is not None and (turn.start, turn.mark) == wanted
            first, end = (reached.chunk, reached.chunks) if reached is not None and is_continued else (0, 0)
            piece = _Piece(session, row, first, range(first, end), row is not None)
        elif len(piece.parts) >= _TRANSACTION_CHUNKS:
            number = piece.first + len(piece.parts)
            piece.reached = _Reached(turn.start, turn.mark, number, number)
            yield piece
            piece = piece.follow(piece.state)
        last = piece.first + len(piece.parts), len(piece.turns)
        piece.add(exchange)
    if piece is None:  # nobody said anything: only the state is stored
        piece = _Piece(session, row, 0, range(0), is_again=False)
        piece.reached = reached or _NOTHING
    else:
        turn = exchange[0]
        piece.reached = _Reached(turn.start, turn.mark, last[0], piece.first + len(piece.parts))
    piece.is_last = True
    yield piece


def _exchanges(turns: Iterable[Turn]) -> Iterator[list[Turn]]:
    exchange: list[Turn] = []
    size = 0
    for turn in turns:
        is_question = turn.speaker == USER and exchange and exchange[-1].speaker != USER
        if is_question or size > _EXCHANGE_CHARACTERS:
            yield exchange
            exchange, size = [], 0
        exchange.append(turn)
        size += len(turn.text)
    if exchange:
        yield exchange


# ---------------------------------------------------------------- storing


@dataclass(slots=True)
class _Run:
    store: Store
    namespace: str
    links: bool
    protect: Callable[[str], str]
    report: SessionReport
    waiting: list[_Piece] = field(default_factory=list[_Piece])

    def protected(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        for turn in turns:
            try:
                names = self.protect(_name(turn.project)), self.protect(_name(turn.title))
                yield turn._replace(text=self.protect(turn.text), project=names[0], title=names[1])
            except InvalidItem as error:
                self.report.left_out[f"turns that may not be stored: {error.message}"] += 1

    def add(self, piece: _Piece) -> None:
        self.waiting.append(piece)
        if sum(len(each.parts) for each in self.waiting) >= _TRANSACTION_CHUNKS:
            self.write()

    def write(self) -> None:
        pieces, self.waiting = self.waiting, []
        if not pieces:
            return
        names = self.links and any(bring_names(_items(piece, {})) for piece in pieces)
        with self.store.transaction(self.namespace, names=names) as tx:
            with self.store.snapshot(self.namespace) as snapshot:
                expected = _as_expected(pieces, snapshot)
                earlier = [_earlier(piece, snapshot) for piece in expected]
            for piece, stored in zip(expected, earlier, strict=True):
                self._store(tx, piece, stored)
        if len(expected) < len(pieces):
            self.report.left_out["sessions that another process is importing"] += len(pieces) - len(expected)

    def _store(self, tx: Transaction, piece: _Piece, earlier: _Earlier) -> None:
        made, now = _Raws(tx, piece, earlier), datetime.now(UTC)
        items = rules.checked_many(_items(piece, made.ids), "import")
        forgotten = set(piece.stored) - earlier.items.keys()
        tx.items.put([item for item in items if item.chunk_index not in forgotten], now, links=self.links)
        end = piece.first + len(piece.parts)
        if surplus := [item.id for number, item in earlier.items.items() if number >= end]:
            tx.items.forget(surplus)
        made.forget_unused()
        tx.files.put([FileUpdate(piece.state, None)], now)
        self.report.turns += made.count
        self.report.items += len(items)


def _as_expected(pieces: Sequence[_Piece], snapshot: Snapshot) -> list[_Piece]:
    """The pieces of sessions whose stored state is the one that they continue."""
    rows: dict[str, FileRow | None] = {}
    expected: list[_Piece] = []
    for piece in pieces:
        path = piece.state.path
        if path not in rows:
            rows[path] = snapshot.files(path).get(path)
        if rows[path] == piece.expected:
            rows[path] = piece.state
            expected.append(piece)
    return expected


class _Earlier(NamedTuple):
    """What is stored of a session from the first chunk of a piece on."""

    items: Mapping[int, Item]
    """By the number of the chunk."""
    raw: Mapping[tuple[str | None, str], list[int]]
    """Ids of the raw records of these items, the newest first, by speaker and content."""


def _earlier(piece: _Piece, snapshot: Snapshot) -> _Earlier:
    if not piece.is_again:
        return _Earlier({}, {})
    end = LARGEST_ID if piece.is_last else piece.first + len(piece.parts) - 1
    items = snapshot.rows.chunks(piece.session.path, piece.first, end)
    ids = sorted({raw for item in items for raw in item.source_ids})
    by_content: defaultdict[tuple[str | None, str], list[int]] = defaultdict(list)
    for raw in reversed(snapshot.raw.get(ids).values()):
        by_content[raw.speaker, raw.content].append(raw.id)
    return _Earlier({item.chunk_index or 0: item for item in items}, by_content)


class _Raws:
    """The raw records of the turns of a piece; those that are stored are used again."""

    def __init__(self, tx: Transaction, piece: _Piece, earlier: _Earlier) -> None:
        self._tx = tx
        session, turns = piece.session, piece.turns
        self._unused = {said: [*ids] for said, ids in earlier.raw.items()}
        known = [ids.pop() if (ids := self._unused.get((turn.speaker, turn.text))) else None for turn in turns]
        new = [turn for turn, id in zip(turns, known, strict=True) if id is None]
        written = datetime.fromtimestamp(max(session.mtime_ns, 0) / 1e9, UTC)
        called = f"session {session.id}" if session.id.startswith(rules.RESERVED_SESSIONS) else session.id
        made = iter(
            tx.raw.add_many(
                [
                    NewRaw(turn.text, turn.speaker, called, _place(session, turn), turn.at or written, "import")
                    for turn in new
                ]
            )
        )
        self.ids = {number: next(made) if id is None else id for number, id in enumerate(known)}
        self.count = len(new)

    def forget_unused(self) -> None:
        """Removes those of turns that are gone, unless somebody drew other items from them."""
        for id in chain.from_iterable(self._unused.values()):
            try:
                self._tx.raw.forget([id])
            except RequestError:
                continue


def _items(piece: _Piece, raw_ids: Mapping[int, int]) -> list[NewItem]:
    """`raw_ids`: by the place of a turn in the piece."""
    session = piece.session
    items: list[NewItem] = []
    for number, part in enumerate(piece.parts, piece.first):
        turn = piece.turns[part.turns.start]
        items.append(
            NewItem(
                part.text,
                title=turn.title,
                kind=KIND,
                metadata={"session": session.id, **_place(session, turn)},
                created_at=turn.at,
                source_ids=tuple(raw_ids[each] for each in part.turns if each in raw_ids),
                path=session.path,
                chunk_index=number,
            )
        )
    return items


def _place(session: Session, turn: Turn) -> dict[str, Json]:
    return {"tool": session.tool, **({"project": turn.project} if turn.project else {})}


def _name(text: str) -> str:
    return " ".join(text.split())[:_NAME_CHARACTERS]

"""Writing the indexes of a namespace, one after the other: here, or in a process of its own where that takes long.

A build in threads of this process would hold the interpreter's lock, for which every search then waits again and again;
another process leaves them their core, and all cores where it trains FAISS, which it does with low priority.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from fourfold import child_process
from fourfold.stores.sqlite import items, links, publish, spaces
from fourfold.stores.sqlite.database import Database
from fourfold.stores.sqlite.text_index import TextIndex
from fourfold.stores.sqlite.vector_index import VectorIndex

_NICE = 10
_LOAD_NICE = 5
_LEFT = 20
"""What is left of a load is published with it unless it is this much less than that."""
_LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be published."""

    database: str
    folder: str
    """The namespace's."""
    ns: int
    owner: str
    anew: bool
    """From the rows alone, whatever the files say."""
    faiss: bool
    """Also put FAISS over the vectors, if it is due."""
    load: int = 0
    """More is being written: publish again whenever it is so many changes, until the end of the input."""


class NotApart(Exception):
    """No process of its own could do it."""


class Ending:
    """Tells a process that goes on publishing to come to its end: it publishes what is left, and stops."""

    def __init__(self, every: int) -> None:
        """`every`: after so many changes it publishes again."""
        self.every = every
        self._changing = threading.Lock()
        self._input: IO[bytes] | None = None
        self._has_come = False

    def of(self, process: subprocess.Popen[bytes]) -> None:
        with self._changing:
            self._input = process.stdin
        if self._has_come:
            self.come()

    def come(self) -> None:
        with self._changing:
            self._has_come = True
            if self._input is not None:
                self._input.close()


def written(order: Order, database: Database, *, apart: bool = False) -> Iterator[str]:
    """Writes one index after the other, and says each time which one can be read anew."""
    folder = Path(order.folder)
    with database.read() as db:
        space = spaces.space(db, order.ns)
    if publish.publish_text(_work(order, database), folder / TextIndex.KIND):
        yield TextIndex.KIND
    if space is None:
        return
    if publish.publish_vectors(_work(order, database), folder / VectorIndex.KIND, space):
        yield VectorIndex.KIND
    if not order.faiss:
        return
    if apart:
        os.nice(_NICE)
    if publish.publish_faiss(folder / VectorIndex.KIND, order.owner, space, _announcing(order, database)):
        yield VectorIndex.KIND


def _work(order: Order, database: Database) -> publish.Work:
    def marks(kind: str) -> Sequence[str]:
        with database.read() as db:
            return items.marks_of(db, order.ns, kind)

    with database.read() as db:
        last = items.last_change(db, order.ns)
    return publish.Work(database.read, order.ns, order.owner, last, marks, _announcing(order, database), order.anew)


def _announcing(order: Order, database: Database) -> Callable[[str], str]:
    def announce(kind: str) -> str:
        with database.write() as db:
            return items.add_mark(db, order.ns, kind)

    return announce


# ---------------------------------------------------------------- in a process of its own


def written_apart(order: Order, lease: int, load: Ending | None = None) -> Iterator[str]:
    """The same by another process, which has the lease too, as long as it lives. NotApart if it cannot.

    With a `load`, it goes on with what is written meanwhile, until that has come to its end.
    """
    yield from _apart("publish", order, lease, load=load)


def caught_up_apart(database: Path, ns: int) -> None:
    """Looks for new names in all texts by another process. NotApart if it cannot."""
    list(_apart("links", Order(str(database), "", ns, "", anew=False, faiss=False)))


def _apart(work: str, order: Order, *handles: int, load: Ending | None = None) -> Iterator[str]:
    """The lines that another process says."""
    if sys.platform == "win32":
        raise NotApart
    placed = replace(order, database=_absolute(order.database), folder=_absolute(order.folder))
    given = subprocess.DEVNULL if load is None else subprocess.PIPE
    try:
        process = child_process.start(
            __name__, work, json.dumps(asdict(placed)), stdin=given, stdout=subprocess.PIPE, pass_fds=handles
        )
    except child_process.CannotStart as error:
        raise NotApart from error
    with process:
        if load is not None:
            load.of(process)
        for line in process.stdout or ():
            yield line.decode().strip()
    if process.returncode:
        raise NotApart


def _absolute(path: str) -> str:
    """The other process has another working folder."""
    return str(Path(path).absolute())


def main(work: str, ordered: str) -> None:
    """What the other process does."""
    order = Order(**json.loads(ordered))
    database = Database(Path(order.database))
    if work == "links":
        os.nice(_NICE)
        links.catch_up(database, order.ns)
    else:
        for kind in _followed(order, database) if order.load else written(order, database, apart=True):
            sys.stdout.write(f"{kind}\n")
            sys.stdout.flush()
    database.close()


def _followed(order: Order, database: Database) -> Iterator[str]:
    """Publishes whenever much has been written, and what is left once the input has ended. Who writes goes first."""
    os.nice(_LOAD_NICE)
    yield from _round(order, database)
    while not _has_ended(order, database):
        yield from _round(order, database)
    if _lacks(order, database, order.load // _LEFT):
        yield from _round(order, database)


def _round(order: Order, database: Database) -> Iterator[str]:
    yield from written(order, database, apart=True)
    for kind in (TextIndex.KIND, VectorIndex.KIND):
        publish.collect(Path(order.folder) / kind)


def _has_ended(order: Order, database: Database) -> bool:
    """Waits for much to publish, or for the end of the input, which also comes with that of who has ordered this."""
    while not select.select([sys.stdin], [], [], _LOOK_SECONDS)[0]:
        if _lacks(order, database, order.load):
            return False
    return True


def _lacks(order: Order, database: Database, changes: int) -> bool:
    """Whether so many are not published yet."""
    with database.read() as db:
        seq = publish.published_seq(Path(order.folder), order.owner, spaces.space(db, order.ns))
        if items.last_change(db, order.ns) - seq < changes:
            return False
        return items.count_changes(db, order.ns, seq, changes) >= changes

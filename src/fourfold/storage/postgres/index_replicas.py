"""The state of the nodes of a distributed index.

A batch counts when a majority of the nodes has it. A node that does not answer, or that has lost writes, is behind:
PostgreSQL records the row up to which it holds everything, searches do not ask it, and batches do not wait for it. When
it answers again, it is fed from there, in turns with new changes, until it has caught up. Until then its own mark does
not show how much it holds, because the engine may copy the mark to it, but not earlier writes.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from fourfold.errors import IndexUnavailable
from fourfold.storage.engines.protocol import Engine, Node
from fourfold.storage.postgres import index_log
from fourfold.storage.postgres.database import Database
from fourfold.storage.postgres.index_log import Cursor, Generation

STATE_SECONDS = 5.0
_RETRY_SECONDS = 15.0
"""A node that is behind and did not answer is asked again after this long."""
_POLL_SECONDS = 0.1
_ADVICE = "It is repeated; check the node"
_CHECKED_ENTRIES = 200
"""The last objects that a node should hold, before it is fed again, because it may have been emptied or restored."""


class Replicas:
    def __init__(self, database: Database, engine: Engine) -> None:
        self._database = database
        self._engine = engine
        self._retry_at: dict[str, float] = {}
        self._checked: set[tuple[int, str]] = set()

    def settled(self, generation: Generation) -> Generation | None:
        """The generation, after nodes that do not hold all of it were noted as behind.

        If no majority holds all of it, its cursor goes back to what all nodes hold that answer. None if the index is
        not ours: it was emptied, or restored from a backup. IndexUnavailable if no majority answers.
        """
        held: dict[str, Cursor] = {}
        failures: list[IndexUnavailable] = []
        is_empty = True
        for node in self._engine.nodes:
            if node.name in generation.behind:
                continue
            try:
                applied = node.applied(generation.collection, STATE_SECONDS)
            except IndexUnavailable as error:
                failures.append(error)
                continue
            end = Cursor(0, 0) if applied is None else self._end(generation, applied.mark)
            if end is None:
                return None
            is_empty, held[node.name] = is_empty and applied is None, end
        if held and is_empty:
            return None
        self._require_majority(len(held), failures)
        current = [name for name, end in held.items() if end >= generation.cursor]
        if len(current) < self._majority:
            return self._moved(generation, min(held.values()))
        late = [node.name for node in self._engine.nodes if node.name not in {*current, *generation.behind}]
        for name in late:
            self._note(generation, name, held.get(name, generation.cursor))
        return self._again(generation) if late else generation

    def reached(self, generation: Generation) -> Generation:
        """A new generation, after nodes that do not have its collection were noted as behind.

        A collection that was just created may reach some nodes a moment later.
        """
        until, failures = time.monotonic() + STATE_SECONDS, dict[str, IndexUnavailable]()
        for node in self._engine.nodes:
            while True:
                try:
                    node.applied(generation.collection, STATE_SECONDS)
                except IndexUnavailable as error:
                    if time.monotonic() < until:
                        time.sleep(_POLL_SECONDS)
                        continue
                    failures[node.name] = error
                break
        self._require_majority(len(self._engine.nodes) - len(failures), list(failures.values()))
        for name in failures:
            self._note(generation, name, Cursor(0, 0))
        return self._again(generation) or generation

    def leave_behind(self, generation: Generation, names: Collection[str]) -> None:
        """Notes that nodes lack what comes after the cursor; IndexUnavailable if no majority is left."""
        left = len(self._engine.nodes) - len({*generation.behind, *names})
        self._require_majority(left, [IndexUnavailable(f"{name} did not apply a write", _ADVICE) for name in names])
        for name in names:
            self._note(generation, name, generation.cursor)

    @property
    def _majority(self) -> int:
        return len(self._engine.nodes) // 2 + 1

    def _require_majority(self, count: int, failures: Sequence[IndexUnavailable]) -> None:
        if count < self._majority:
            few = f"{count} of {len(self._engine.nodes)} nodes of {self._engine.shown} can be written to"
            raise failures[0] if failures else IndexUnavailable(few, "Wait until the others have caught up")

    def _end(self, generation: Generation, mark: str) -> Cursor | None:
        return self._database.read(lambda db: index_log.mark_end(db, generation.id, mark))

    def _moved(self, generation: Generation, to: Cursor) -> Generation | None:
        with self._database.write() as db:
            index_log.advance(db, generation, to)
        return self._again(generation)

    def _again(self, generation: Generation) -> Generation | None:
        return self._database.read(lambda db: index_log.find(db, generation.id))

    def _note(self, generation: Generation, name: str, end: Cursor) -> None:
        self._checked.discard((generation.id, name))
        with self._database.write() as db:
            index_log.fall_behind(db, generation.id, name, end)

    # ------------------------------------------------------------ nodes that are behind

    def may_help(self, generation: Generation) -> bool:
        """Whether a node that is behind should be asked whether it is back."""
        return any(time.monotonic() >= self._retry_at.get(name, 0.0) for name in generation.behind)

    def postpone(self, node: Node) -> None:
        self._retry_at[node.name] = time.monotonic() + _RETRY_SECONDS

    def returned(self, generation: Generation) -> Node | None:
        """A node that is behind and answers."""
        for node in self._engine.nodes:
            if node.name in generation.behind and time.monotonic() >= self._retry_at.get(node.name, 0.0):
                try:
                    node.applied(generation.collection, STATE_SECONDS)
                except IndexUnavailable:
                    self.postpone(node)
                else:
                    return node
        return None

    def start(self, ns: int, generation: Generation, node: Node) -> Cursor:
        """From where a node that is behind has to be fed: from the beginning, if it lacks what it held.

        It then keeps objects whose tombstones are gone from the log, until the index is repaired or rebuilt.
        """
        end = generation.behind[node.name]
        if (generation.id, node.name) in self._checked:
            return end
        is_logged = self._database.read(lambda db: index_log.is_logged_after(db, generation.id, end))
        last = self._database.read(lambda db: index_log.last_held(db, ns, end, _CHECKED_ENTRIES))
        if not is_logged or node.held(generation.collection, last) < len(last):
            end = Cursor(0, 0)
            self._note(generation, node.name, end)
        self._checked.add((generation.id, node.name))
        return end

"""hook: answers an event of Claude Code or Codex.

A hook must never stop an agent. It exits with 0 whatever happens, writes one JSON object, and has a deadline for
everything, from reading stdin to closing the store. At the deadline it sends what it has so far.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from fourfold.cli.commands import argument, load_config, open_memory
from fourfold.errors import FourfoldError, InvalidItem, StoreNotFound
from fourfold.model import NewItem

if TYPE_CHECKING:
    from pathlib import Path

    from fourfold.cli.hooks.capture import Captured
    from fourfold.cli.hooks.events import Answer, Event
    from fourfold.config import Settings
    from fourfold.memory import Memory

EventName = Annotated[
    str, argument(metavar="EVENT", help="session-start, prompt, stop or pre-compact; its JSON is on stdin.")
]
_LATER: Final = "what you asked to remember is kept and will be stored later"


def hook(event: EventName) -> None:
    from fourfold import threads
    from fourfold.cli.hooks.events import Answer

    started, answer, context = time.monotonic(), Answer(event), click.get_current_context()

    def work() -> None:
        with context.scope(cleanup=False):
            _work(answer, settings)

    late = False
    try:
        settings = load_config().settings
        task = threads.start(work, "fourfold-hook")
        task.result(max(0.0, settings.hook_seconds - (time.monotonic() - started)))
    except TimeoutError:
        late = True
    except FourfoldError as error:
        answer.messages.append(str(error))
    except Exception as error:  # noqa: BLE001 - a failing hook must not fail the agent: the user is told instead
        answer.messages.append(f"the hook failed ({type(error).__name__}: {error})")
    with suppress(OSError, ValueError):
        sys.stdout.write(answer.json() + "\n")
        sys.stdout.flush()
    if late:
        os._exit(0)  # a thread that waits for a lock would delay the exit


def _work(answer: Answer, settings: Settings) -> None:
    from fourfold.cli.hooks.capture import Pending, captured
    from fourfold.cli.hooks.events import UnreadableEvent, read_event

    try:
        event = read_event(answer.event, sys.stdin.buffer)
    except UnreadableEvent as error:
        answer.messages.append(str(error))
        return
    pending = Pending(settings)
    refused: list[str] = []
    for item in captured(event):
        try:
            pending.keep(item)
            answer.messages[:] = [_LATER]
        except InvalidItem as error:
            refused.append(_not_remembered(error))
    answer.messages += refused
    waiting = list(pending.all())
    if event.name in ("session-start", "prompt"):
        _recall(event, answer, settings)
    if waiting:
        _store(waiting, answer, refused)


def _recall(event: Event, answer: Answer, settings: Settings) -> None:
    """Fills the context. A prompt is first searched without a model, which may take longer than the hook has."""
    from fourfold.cli.hooks import recall

    if event.name == "prompt" and not recall.is_question(event.prompt):
        return
    with suppress(StoreNotFound), open_memory() as memory:
        if event.name == "session-start":
            answer.context = recall.session_context(memory, event, settings)
        elif memory.count():
            answer.context = recall.prompt_context(memory, event, settings, words_only=True)
            if settings.embedder != "none":
                answer.context = recall.prompt_context(memory, event, settings)


def _not_remembered(error: InvalidItem) -> str:
    return f"not remembered, because {error}"


def _store(waiting: list[tuple[Path, Captured]], answer: Answer, refused: list[str]) -> None:
    """Moves kept texts into the store; an item without a vector gets it from a background process."""
    ids: list[int] = []
    try:
        with open_memory(create=True) as memory:
            for path, item in waiting:
                try:
                    ids.append(_add(memory, item))
                except InvalidItem as error:  # dropped: it would be refused again, and block those after it
                    refused.append(_not_remembered(error))
                path.unlink(missing_ok=True)
            _start_worker(memory)
    except FourfoldError as error:
        answer.messages[:] = [*refused, f"{_LATER}: {error}"]
        return
    stored = [f"remembered as {'item' if len(ids) == 1 else 'items'} {', '.join(map(str, ids))}"] if ids else []
    answer.messages[:] = [*stored, *refused]


def _add(memory: Memory, item: Captured) -> int:
    from datetime import datetime

    from fourfold.cli.hooks.recall import project_tag

    new = NewItem(
        item.text,
        tags=(project_tag(item.project),) if item.project else (),
        metadata={"session": item.session} if item.session else {},
        created_at=datetime.fromisoformat(item.created_at),
    )
    return memory.add(new).id


def _start_worker(memory: Any) -> None:
    """Lets a background process make the vectors; a server makes its own."""
    from fourfold.cli import embedding_worker
    from fourfold.memory import Memory

    if isinstance(memory, Memory) and memory.settings.embedder != "none":
        embedding_worker.start(memory.settings)

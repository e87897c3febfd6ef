"""Child processes that are cheap to start and may be killed: forks of one process that has imported everything."""

import multiprocessing
import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_IMPORTED = [
    "faiss", "hypothesis", "pytest", "fourfold.memory", "fourfold.storage.sqlite.store", "engine_support",
    "trust_preload",
]  # fmt: skip

_PLACES = [str(_HERE), str(_HERE.parent / "support")]

sys.path[:0] = [path for path in _PLACES if path not in sys.path]


def context() -> ForkServerContext:
    """A context whose server process imports `_IMPORTED` once; modules that fail to import there are skipped."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_IMPORTED)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        dict.fromkeys([*_PLACES, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    )
    return found


def start(work: Callable[..., Any], *args: Any) -> ForkServerProcess:
    """Starts `work(*args)` in a child. Both are pickled, so `work` must be a module-level function; kill or join it."""
    child = context().Process(target=work, args=args, daemon=True)
    child.start()
    return child


def run(work: Callable[..., Any], *args: Any) -> Any:
    """The result of `work(*args)` in a child; AssertionError if the child raises or dies."""
    mine, theirs = context().Pipe(duplex=False)
    child = start(_answering, theirs, work, args)
    theirs.close()
    try:
        answer = mine.recv()
    except EOFError:
        answer = None
    finally:
        mine.close()
    child.join()
    assert child.exitcode == 0, f"the child ended with {child.exitcode}"
    return answer


def _answering(pipe: Any, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    pipe.send(work(*args))
    pipe.close()


def kill_after(messages: int, chance: random.Random, work: Callable[..., Any], *args: Any) -> None:
    """Starts `work(*args, seed, pipe)`, waits for this many messages or its end, and kills it shortly afterwards."""
    mine, theirs = context().Pipe(duplex=False)
    child = start(work, *args, chance.randrange(1 << 30), theirs)
    theirs.close()
    with suppress(EOFError):
        for _ in range(messages):
            mine.recv()
    child.join(chance.random() / 50)
    child.kill()
    child.join()
    mine.close()

"""What is expensive to make, made once in a whole run: by the first test that asks for it, in whatever process. Nobody
changes what is made: who wants to change a store takes a copy."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_FOLDER = "FOURFOLD_TEST_SHARED"
_MEMORY = Path("/dev/shm")


def begin() -> None:
    """In the process that starts the others, before it does."""
    if _FOLDER not in os.environ:
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="fourfold-shared-", dir=_MEMORY if _MEMORY.is_dir() else None)
        os.environ[f"{_FOLDER}_OWNER"] = str(os.getpid())


def end() -> None:
    """In the same process, after the others are done."""
    if os.environ.get(f"{_FOLDER}_OWNER") == str(os.getpid()):
        shutil.rmtree(os.environ.pop(_FOLDER), ignore_errors=True)


def made(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` was given empty and has filled; the same for every process of this run."""
    import fcntl

    done = Path(os.environ[_FOLDER]) / name
    with done.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            part = done.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.rename(done)
    return done

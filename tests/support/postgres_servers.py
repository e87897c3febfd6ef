"""Real PostgreSQL servers for the tests. The shared one is started from its wheel by the first test that asks for it,
in any process, and stopped when the whole run is over."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

_FOLDER = "FOURFOLD_TEST_SERVERS"
_numbers = count(1)


def begin() -> None:
    """In the process that starts the others, before it does."""
    if _FOLDER not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="fourfold-servers-"))
        folder.chmod(0o755)  # the server runs as another user where we are root
        os.environ[_FOLDER] = str(folder)
        os.environ[f"{_FOLDER}_OWNER"] = str(os.getpid())


def end() -> None:
    """In the same process, after the others are done."""
    if os.environ.get(f"{_FOLDER}_OWNER") != str(os.getpid()):
        return
    folder = Path(os.environ.pop(_FOLDER))
    pid = folder / "postgres" / "postmaster.pid"
    if pid.exists():
        with suppress(ProcessLookupError):
            os.kill(int(pid.read_text().splitlines()[0]), 3)  # SIGQUIT: at once
    shutil.rmtree(folder, ignore_errors=True)


def server() -> str:
    """The address of the shared server; the same for every process of this run."""
    folder = Path(os.environ[_FOLDER])
    with _locked(folder / "postgres.lock"):
        known = folder / "postgres.dsn"
        if not known.exists():
            known.write_text(start(folder / "postgres"))
        return known.read_text()


def start(data: Path) -> str:
    """A server of our own in that folder, made for tests: what it says is committed need not survive the machine."""
    import psycopg

    command = [sys.executable, str(Path(__file__).with_name("postgres_start.py")), str(data)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    dsn = done.stdout.strip().splitlines()[-1]
    with psycopg.connect(dsn, autocommit=True) as db:
        for setting in ("fsync", "full_page_writes", "autovacuum"):
            db.execute(f"ALTER SYSTEM SET {setting} = off")
        db.execute("SELECT pg_reload_conf()")
    return dsn


def fresh() -> str:
    """The address of an empty store: a schema that nobody has used."""
    dsn = server()
    return f"{dsn}{'&' if '?' in dsn else '?'}schema=t{os.getpid()}_{next(_numbers)}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Own:
    """A server that a test may do to what it likes."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.server = start(data)

    def fresh(self) -> str:
        """The address of an empty store."""
        return f"{self.server}&schema=o{next(_numbers)}"

    def kill(self) -> None:
        """Without any farewell; what it had committed is there when it starts again."""
        pid = self.data / "postmaster.pid"
        if pid.exists():
            with suppress(ProcessLookupError):
                os.kill(int(pid.read_text().splitlines()[0]), 3)
            _until(lambda: not pid.exists())

    def restart(self) -> None:
        self.kill()
        self.revive()

    def revive(self) -> None:
        if not (self.data / "postmaster.pid").exists():
            assert start(self.data) == self.server

    def configure(self, **settings: str) -> None:
        """Takes effect with the next restart."""
        import psycopg

        with psycopg.connect(self.server, autocommit=True) as db:
            for name, value in settings.items():
                db.execute(f"ALTER SYSTEM SET {name} = {value}")
            db.execute("SELECT pg_reload_conf()")


def _until(happened: Callable[[], bool]) -> None:
    for _ in range(500):
        if happened():
            return
        time.sleep(0.02)
    raise TimeoutError

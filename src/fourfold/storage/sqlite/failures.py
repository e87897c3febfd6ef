"""SQLite's errors in Fourfold's words."""

from __future__ import annotations

import errno
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from fourfold.errors import (
    DamagedStore,
    FourfoldError,
    ReadOnlyStore,
    StorageFull,
    StoreBusy,
    StoreUnavailable,
)
from fourfold.limits import BUSY_SECONDS

WORLD = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.IOError,
    apsw.ProtocolError,
    apsw.ConnectionClosedError,
    json.JSONDecodeError,
    OSError,
)
"""Errors that are translated. Any other error of apsw is a bug of ours."""


@contextmanager
def translated(path: Path) -> Generator[None]:
    try:
        yield
    except WORLD as error:
        raise translate(error, path) from error


def translate(error: Exception, path: Path) -> FourfoldError:
    what = str(error) or type(error).__name__
    match error:
        case OSError(errno=errno.ENOSPC):
            return StorageFull(f"no space left for {error.filename or path}", "Free some space; what is stored is safe")
        case OSError(errno=errno.EROFS | errno.EACCES | errno.EPERM):
            return ReadOnlyStore(f"{error.filename or path} cannot be written", "Check the permissions of the folder")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(f"another process has been using {path} for {BUSY_SECONDS:.0f} s", "Try again")
        case apsw.ConnectionClosedError():
            return StoreUnavailable(f"{path.parent} was closed", "Open it again")
        case apsw.FullError():
            return StorageFull(f"no space left for {path}", "Free some space; what was confirmed is safe")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return ReadOnlyStore(f"{path} cannot be written", "Check the permissions of the folder and its files")
        case apsw.CorruptError() | apsw.NotADBError() | json.JSONDecodeError():
            return DamagedStore(
                f"{path} is damaged ({what})",
                "Restore a backup into a new folder: fourfold --store FOLDER restore FILE",
            )
        case _:
            return StoreUnavailable(
                f"{path} cannot be used ({what})", "Check that the folder exists and can be written"
            )

"""Prints the folder for the files of tests: in memory if there is room, since tests wait for the disk half of the time.

A store on a file system in memory is as real as one on a disk, except that it does not wait for writes to be durable.
Tests of power loss have a file system of their own.
"""

import shutil
import sys
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108  (pytest makes a folder that only its user can read)
LEAST_FREE_BYTES = 6 * 1024**3
"""One run of `make test` takes 1 to 2 GB, and pytest keeps the files of the last one."""

if __name__ == "__main__":
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= LEAST_FREE_BYTES
    sys.stdout.write(str(MEMORY) if has_room else tempfile.gettempdir())

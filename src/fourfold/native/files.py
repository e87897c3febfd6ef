"""Binding of `files.c`: whether files are still those that were opened, in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_int64, c_uint64, c_void_p

from fourfold.native import KEEPING_GIL, function

_are_files = function(KEEPING_GIL, "are_files", c_int, c_void_p, c_int64, c_void_p, c_int64)


class Stamps:
    """Paths, and the files that they led to."""

    def __init__(self, paths: Sequence[str], files: Sequence[tuple[int, ...]]) -> None:
        """`files`: device and inode of each, and perhaps its modification time in nanoseconds."""
        numbers = [number for file in files for number in file]
        self._paths = (c_char_p * len(files))(*[os.fsencode(path) for path in paths[: len(files)]])
        self._numbers = (c_uint64 * len(numbers))(*numbers)
        self._arguments = self._paths, len(files), self._numbers, len(files[0]) if files else 0

    def hold(self) -> bool:
        """Return whether nothing changed. Where this says no, which it always does on Windows, ask `os.stat`."""
        return bool(_are_files(*self._arguments))

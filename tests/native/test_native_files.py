"""Stamps: whether paths still lead to the same files, unmodified."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fourfold.native.bindings import Stamps

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files have no inodes there")


def stamps(*paths: Path, timed: bool) -> Stamps:
    found = [path.stat() for path in paths]
    files = [(file.st_dev, file.st_ino, file.st_mtime_ns)[: 3 if timed else 2] for file in found]
    return Stamps([os.fsdecode(path) for path in paths], files)


def two_files(folder: Path) -> tuple[Path, Path]:
    first, second = folder / "first", folder / os.fsdecode("zweite Dätei \udcff".encode("utf-8", "surrogateescape"))
    for path in (first, second):
        path.write_bytes(b"one")
        os.utime(path, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    return first, second


@pytest.mark.parametrize("timed", [True, False])
def test_unchanged_files_hold(tmp_path: Path, timed: bool) -> None:
    assert stamps(*two_files(tmp_path), timed=timed).hold()
    assert Stamps((), ()).hold()


def test_a_file_that_was_written_to_does_not_hold_if_times_count(tmp_path: Path) -> None:
    first, second = two_files(tmp_path)
    timed, untimed = stamps(first, second, timed=True), stamps(first, second, timed=False)
    os.utime(second, ns=(0, 1_700_000_000_123_456_790))
    assert (timed.hold(), untimed.hold()) == (False, True)


@pytest.mark.parametrize("timed", [True, False])
def test_a_replaced_or_deleted_file_does_not_hold(tmp_path: Path, timed: bool) -> None:
    first, second = two_files(tmp_path)
    known, other = stamps(first, second, timed=timed), tmp_path / "other"
    moved = second.rename(tmp_path / "moved")
    assert not known.hold()
    other.write_bytes(b"one")
    os.utime(other, ns=(0, 1_700_000_000_123_456_789))
    other.rename(second)
    assert not known.hold()
    moved.replace(second)
    assert known.hold()


def test_times_before_1970_are_compared(tmp_path: Path) -> None:
    first, _ = two_files(tmp_path)
    os.utime(first, ns=(-1, -1_500_000_001))
    known = stamps(first, timed=True)
    assert known.hold()
    os.utime(first, ns=(-1, -1_500_000_002))
    assert not known.hold()


def test_a_path_below_a_file_does_not_hold(tmp_path: Path) -> None:
    first, _ = two_files(tmp_path)
    assert not Stamps([str(first / "below")], [(1, 2)]).hold()

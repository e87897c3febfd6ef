"""Backups that fail or are killed leave no files behind, and the next backup is complete."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest
import trust_child
from trust_vfs import FULL, IO_ERRORS, FaultyDisk, open_store, prepare

from fourfold.errors import FourfoldError, StorageFull, StoreUnavailable
from fourfold.memory import Memory


def failing_backups(folder: Path) -> tuple[int, set[str]]:
    """Fails each write of a backup in turn; returns the number of failed backups and the files they left."""
    disk, failed, left = FaultyDisk(), 0, set[str]()
    target = folder / "backups"
    prepare(folder / "store")
    with open_store(folder / "store") as memory:
        for call in count(1):
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            disk.fail(call, IO_ERRORS if call % 2 else FULL, sticky=True)
            raised = _error_of(memory, target / "b")
            disk.heal()
            if raised is None:
                return failed, left
            assert isinstance(raised, StorageFull | StoreUnavailable), repr(raised)
            failed += 1
            left |= {path.name for path in target.iterdir()}
    raise AssertionError


def _error_of(memory: Memory, target: Path) -> FourfoldError | None:
    try:
        memory.backup(target)
    except FourfoldError as error:
        return error
    return None


@pytest.mark.spec("B9")
def test_a_backup_that_fails_leaves_no_file(fast_folder: Path) -> None:
    failed, left = trust_child.run(failing_backups, fast_folder)
    assert failed > 10
    assert left == set()


@pytest.mark.spec("B9")
def test_remains_of_a_killed_backup_do_not_enter_the_next_one(tmp_path: Path) -> None:
    prepare(tmp_path / "store")
    with open_store(tmp_path / "store") as memory:
        memory.backup(tmp_path / "whole")
        (tmp_path / "b.part").write_bytes((tmp_path / "whole").read_bytes()[:8192])
        for name in ("b.part-journal", "b.part-wal", "b.part-shm"):
            (tmp_path / name).write_bytes(b"left behind" * 1000)
        memory.backup(tmp_path / "b")
    assert {path.name for path in tmp_path.glob("b*")} == {"b"}
    Memory.restore(tmp_path / "b", tmp_path / "restored")
    with open_store(tmp_path / "restored") as memory:
        assert memory.check() == []

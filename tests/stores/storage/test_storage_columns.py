"""Columns: the append-only files of a published index."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from fourfold.index import segment_files
from fourfold.index.segment_files import Column, Part


def test_columns_are_closed_when_a_later_one_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "terms").mkdir()
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        with pytest.raises(IsADirectoryError), segment_files.opened_columns(tmp_path, None, ["ids", "terms"]):
            pass
        gc.collect()
    assert not [warning.message for warning in leaked]


def test_a_column_that_cannot_be_positioned_is_closed(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        with pytest.raises(OSError):
            Column(tmp_path / "ids", Part(size=-1))
        gc.collect()
    assert not [warning.message for warning in leaked]


def test_files_that_this_process_wrote_are_read_again_only_after_they_were_modified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "column"
    column = segment_files.Column(path, segment_files.Part())
    column.append(np.arange(100))
    column.sync()
    column.close()
    read: list[Path] = []
    checksum = segment_files.checksum
    monkeypatch.setattr(segment_files, "checksum", lambda path, size: read.append(path) or checksum(path, size))
    segment_files.verify(path, column.part, whole=True)
    (tmp_path / "link").hardlink_to(path)
    segment_files.verify(tmp_path / "link", column.part)
    assert read == []
    with pytest.raises(segment_files.Damaged):
        segment_files.verify(path, segment_files.Part(column.part.size, column.part.crc ^ 1))
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))  # also if the clock has not moved since
    with pytest.raises(segment_files.Damaged):
        segment_files.verify(tmp_path / "link", column.part)
    assert len(read) == 2


def test_notes_of_written_files_are_bounded_and_those_in_use_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_files, "_written", {})
    part = segment_files.replace_file(tmp_path / "used", b"content")
    segment_files.note_written(tmp_path / "used", part)
    for number in range(2 * segment_files.NOTED_FILES):
        path = tmp_path / str(number)
        path.write_bytes(b"content")
        segment_files.note_written(path, part)
        if number % 100 == 0:
            segment_files.verify(tmp_path / "used", part)
    assert len(segment_files._written) == segment_files.NOTED_FILES
    monkeypatch.setattr(segment_files, "checksum", lambda path, size: Part())
    segment_files.verify(tmp_path / "used", part)
    with pytest.raises(segment_files.Damaged):
        segment_files.verify(tmp_path / "0", part)

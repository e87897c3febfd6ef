"""Columns: the append-only files of a published index."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import pytest

from fourfold.index import generations
from fourfold.index.segment_files import Column, Part


def test_columns_are_closed_when_a_later_one_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "terms").mkdir()
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        with pytest.raises(IsADirectoryError), generations.columns(tmp_path, None, ["ids", "terms"]):
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

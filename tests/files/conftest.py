"""Tests of folders share a store without an embedder, and short ways to write trees."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fourfold.memory import Memory

sys.path.append(str(Path(__file__).parent.parent / "engine"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    opened = await Memory.open(tmp_path / "store", embedder="none", background=False)
    yield opened
    await opened.close()

"""The contract of a store is tested on every store, in every state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from conformance_subjects import KINDS, make


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    subject = make(request.param, tmp_path / "store")
    yield subject
    await subject.close()

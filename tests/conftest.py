"""What tests of every room share."""

import os

import postgres_servers
import pytest
import shared_once
from hypothesis import settings

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # ranx compiles for minutes what runs in milliseconds

settings.register_profile("fourfold", deadline=None)
settings.load_profile("fourfold")


def pytest_configure() -> None:
    postgres_servers.begin()
    shared_once.begin()


def pytest_unconfigure() -> None:
    postgres_servers.end()
    shared_once.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first: workers then share out the short ones, and none is left with a long one at the end."""
    items.sort(key=lambda item: "trust" not in item.path.parts)

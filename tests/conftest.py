"""What tests of every room share."""

import os

import postgres_servers
import pytest
import shared_once
from hypothesis import HealthCheck, settings

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # ranx compiles for minutes what runs in milliseconds

# How fast a machine draws and runs examples is no property of ours; a run has 60 new ones for each test.
settings.register_profile("fourfold", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
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

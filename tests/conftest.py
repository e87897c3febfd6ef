"""Fixtures and settings of all tests."""

import os
import signal

import index_servers
import postgres_servers
import pytest
import shared_once
from hypothesis import HealthCheck, settings

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # without this, ranx compiles for minutes

# The speed of the machine is not under test. `make test` draws the same examples in every run, so that a failure always
# belongs to a change; `make soak` looks for new ones (--hypothesis-profile explore).
settings.register_profile(
    "fourfold", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "explore", settings.get_profile("fourfold"), max_examples=1_000, derandomize=False, print_blob=True
)
settings.load_profile("fourfold")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background jobs so, and children inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure() -> None:
    postgres_servers.begin()
    shared_once.begin()


def pytest_unconfigure() -> None:
    index_servers.end()
    postgres_servers.end()
    shared_once.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts long tests first, so that no worker is left with a long one at the end."""
    items.sort(key=lambda item: ("frameworks" not in item.path.parts, "trust" not in item.path.parts))

"""The exact store in memory: the oracle of the conformance suite, and a store for tests."""

from fourfold.storage.memory.store import MemoryStore

__all__ = ["MemoryStore"]

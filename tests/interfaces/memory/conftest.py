"""Memory over a real store; an embedder without a model."""

from memory_fixtures import either, memory, office, opened, tuning

__all__ = ["either", "memory", "office", "opened", "tuning"]

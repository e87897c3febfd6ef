"""Memory over a real store; an embedder without a model."""

from memory_fixtures import memory, office, opened, tuning

__all__ = ["memory", "office", "opened", "tuning"]

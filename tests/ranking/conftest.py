"""Hypothesis without deadlines."""

from hypothesis import settings

settings.register_profile("fourfold", deadline=None)
settings.load_profile("fourfold")

"""No test here is judged by the clock."""

from hypothesis import settings

settings.register_profile("fourfold", deadline=None)
settings.load_profile("fourfold")

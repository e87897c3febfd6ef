"""What tests of every room share."""

from hypothesis import settings

settings.register_profile("fourfold", deadline=None)
settings.load_profile("fourfold")

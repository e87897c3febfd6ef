"""Settings: flag, then environment, then file, then preset, then default; every value knows where it came from."""

from fourfold.config.loading import Loaded, default_file, default_store, load, presets_file
from fourfold.config.settings import SETTINGS, Given, Settings

__all__ = ["SETTINGS", "Given", "Loaded", "Settings", "default_file", "default_store", "load", "presets_file"]

"""Tests here also use what tests of the engine share."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "engine"))

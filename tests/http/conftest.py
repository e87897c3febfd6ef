"""Tests here also use the attacks of tests/serve."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / name) for name in ("serve", "mcp")]

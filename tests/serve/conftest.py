"""Tests here also use the HTTP client of the MCP tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "mcp"))

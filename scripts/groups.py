"""Prints the requirements of dependency groups of pyproject.toml (pip learned `--group` only in 25.1)."""

import sys
import tomllib
from pathlib import Path

groups = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["dependency-groups"]
print("\n".join(requirement for group in sys.argv[1:] for requirement in groups[group]))  # noqa: T201

"""Prints the requirements of dependency groups of pyproject.toml (pip learned `--group` only in 25.1).

`fourfold[EXTRA]` in a group stands for the requirements of that extra: the project itself is installed from its folder.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())


def expanded(requirement: str) -> list[str]:
    own = re.fullmatch(r"fourfold\[(.+)\]", requirement)
    if own is None:
        return [requirement]
    extras = project["project"]["optional-dependencies"]
    return [one for extra in own[1].split(",") for part in extras[extra.strip()] for one in expanded(part)]


groups = (requirement for group in sys.argv[1:] for requirement in project["dependency-groups"][group])
print("\n".join(one for requirement in groups for one in expanded(requirement)))  # noqa: T201

"""How large an installed environment is, by package: `ENVIRONMENT/bin/python benchmarks/environment_size.py`.

A line has the size of the files that a package installed (pip counts bytecode among them), its name, and the packages
that require it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def size(package: Distribution) -> int:
    files = [Path(str(package.locate_file(file))) for file in package.files or ()]
    return sum(file.stat().st_size for file in files if file.is_file())


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(package: Distribution) -> Iterator[str]:
    """Names of its requirements, without those of extras."""
    for requirement in package.requires or ():
        found = _NAME.match(requirement)
        if found and "extra ==" not in requirement:
            yield normal(found[0])


def main() -> None:
    known = {normal(package.metadata["Name"]): package for package in distributions()}
    users: dict[str, list[str]] = {name: [] for name in known}
    for name, package in known.items():
        for each in required(package):
            users.setdefault(each, []).append(name)
    sizes = {name: size(package) for name, package in known.items()}
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        print(f"{sizes[name] / 1e6:8.1f} MB  {name:24} {', '.join(sorted(users[name]))}")
    print(f"{sum(sizes.values()) / 1e6:8.1f} MB  {len(sizes)} packages")


if __name__ == "__main__":
    main()

"""What is left out of an index: rules of .gitignore and .fourfoldignore, and what nobody searches for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

RULE_FILES: Final = (".gitignore", ".fourfoldignore")
"""In this order: what the second says of a path wins over the first, a deeper folder's over one above it."""
RULE_BYTES: Final = 1 << 20

_FOLDERS = frozenset({"node_modules", "__pycache__", "bower_components"})
_NAMES = frozenset({"package-lock.json", "npm-shrinkwrap.json"})
_ENDINGS = (".min.js", ".min.css", ".js.map", ".css.map", ".lock")


class Rules:
    """The rules of one file, for paths relative to its folder; a folder's path ends with a slash."""

    def __init__(self, lines: Iterable[str]) -> None:
        from pathspec import GitIgnoreSpec

        found = cast("Iterable[Any]", GitIgnoreSpec.from_lines(lines).patterns)
        said = [pattern for pattern in found if pattern.regex is not None and pattern.include is not None]
        patterns = [(_whole(pattern.regex.pattern), bool(pattern.include)) for pattern in said]
        self._runs = _runs(patterns)

    def ignores(self, path: str) -> bool | None:
        """None: these rules do not say. The last one that matches counts."""
        for run, ignored in self._runs:
            if run.fullmatch(path):
                return ignored
        return None


def _whole(pattern: str) -> str:
    """Without the name of the group for a folder's slash, so that patterns can be joined."""
    return pattern.replace("(?P<ps_d>/)", "/")


def _runs(patterns: list[tuple[str, bool]]) -> list[tuple[re.Pattern[str], bool]]:
    """Neighbouring rules of one kind as one expression, the last first."""
    runs: list[tuple[list[str], bool]] = []
    for pattern, ignored in reversed(patterns):
        if runs and runs[-1][1] == ignored:
            runs[-1][0].append(pattern)
        else:
            runs.append(([pattern], ignored))
    return [(re.compile("|".join(run)), ignored) for run, ignored in runs]


class Scope(NamedTuple):
    """Rules that apply in a folder, the nearest first, each with the length of the path down to its own folder."""

    rules: tuple[tuple[Rules, int], ...] = ()

    def within(self, found: Iterable[Rules], depth: int) -> Scope:
        """`found`: the rules of a folder whose path, slash included, has this length; the last of them wins."""
        return Scope((*((rules, depth) for rules in found), *self.rules))

    def ignores(self, path: str, name: str) -> bool:
        """`path`: from the root; `name`: its last part, with a slash if it is a folder."""
        for rules, depth in self.rules:
            said = rules.ignores(path[depth:])
            if said is not None:
                return said
        return by_default(name)


def by_default(name: str) -> bool:
    """Hidden, made by tools, or of no interest to a reader. A rule such as !.github/ brings it back."""
    if name[0] == ".":
        return True
    if name[-1] == "/":
        return name[:-1] in _FOLDERS
    return name in _NAMES or name.endswith(_ENDINGS)

"""What is left out of an index: rules of .gitignore and .fourfoldignore, and what nobody searches for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from fourfold.errors import InvalidQuery
from fourfold.limits import NAME_BYTES
from fourfold.stores.globs import matcher, regex

RULE_FILES: Final = (".gitignore", ".fourfoldignore")
"""In this order: what the second says of a path wins over the first, a deeper folder's over one above it."""
RULE_BYTES: Final = 1 << 20

_NAMES = frozenset({"node_modules/", "__pycache__/", "bower_components/", "package-lock.json", "npm-shrinkwrap.json"})
_ENDINGS = (".min.js", ".min.css", ".js.map", ".css.map", ".lock")


class Rule(NamedTuple):
    glob: str
    ignores: bool
    folders_only: bool


class TooManyRules(Exception):
    """Rules that would hold up the walk: every path is compared with each rule that has a wildcard."""


class Rules:
    """The rules of one file, for paths relative to its folder; a folder's path ends with a slash."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Raises TooManyRules."""
        runs = _runs(rule for rule in map(parsed, lines) if rule is not None)
        self.cost = len(runs) + sum(_cost(rule.glob) for run in runs for rule in run)
        if self.cost > _MOST_COST:
            raise TooManyRules
        self._of_files = _checks([rule for rule in run if not rule.folders_only] for run in runs)
        self._of_folders = _checks(runs)

    def ignores(self, path: str) -> bool | None:
        """None: these rules do not say. The last one that matches counts."""
        if path[-1] == "/":
            path, checks = path[:-1], self._of_folders
        else:
            checks = self._of_files
        for matches, ignores in checks:
            if matches(path):
                return ignores
        return None


def exclusions(globs: Sequence[str]) -> Rules | None:
    """Rules of the caller, in the syntax of .gitignore; None if there are none."""
    for glob in globs:
        rule = parsed(glob)
        if rule is None or not rule.ignores:
            raise InvalidQuery(f"{glob[:100]!r} excludes nothing", "Give a glob such as 'drafts/' or '*.log'")
    try:
        return Rules(globs) if globs else None
    except TooManyRules:
        raise InvalidQuery("too many globs to exclude", "Put them into .fourfoldignore of several folders") from None


def rules_of(text: str) -> Rules:
    """The rules of a file's text; short ones are kept, as every run meets those of the last one."""
    return _kept(text) if len(text) <= _SHORT else Rules(text.splitlines())


_SHORT: Final = 4096


@lru_cache(maxsize=256)
def _kept(text: str) -> Rules:
    return Rules(text.splitlines())


def parsed(line: str) -> Rule | None:
    """A line of .gitignore as a glob for whole paths; None for a comment, or what no path could match."""
    text = _trimmed(line.rstrip("\r\n"))
    negated = text.startswith("!")
    text = text[1:] if negated else text
    folders_only = text.endswith("/")
    text = text.rstrip("/") if folders_only else text
    if not text or line.startswith("#") or len(text) > _RULE_CHARACTERS:
        return None
    rooted = "/" in text
    parts = [_part(part) for part in text.removeprefix("/").split("/")]
    if not all(parts):
        return None
    return Rule(_joined(parts, rooted=rooted), not negated, folders_only)


def _trimmed(line: str) -> str:
    """Without blanks at the end, but for one that stands behind a backslash."""
    text = line.rstrip()
    backslashes = len(text) - len(text.rstrip("\\"))
    return line[: len(text) + backslashes % 2]


_RULE_CHARACTERS: Final = 2 * NAME_BYTES
"""A longer rule is left out: no path that is stored is as long."""
_PART: Final = re.compile(r"\\(.)|\*+|\[[!^]?[^\]/]{1,255}\]|(.)", re.DOTALL)


def _part(text: str) -> str:
    """One part of a path in the language of our globs: without backslashes, and ** only where it stands alone."""
    return "**" if text == "**" else _PART.sub(_piece, text)


def _piece(found: re.Match[str]) -> str:
    if found[1] is not None:
        return f"[{found[1]}]" if found[1] in "*?[" else found[1]
    if found[0].startswith("*"):
        return "*"
    return found[0].replace("[^", "[!", 1)


def _joined(parts: list[str], *, rooted: bool) -> str:
    """`**` between slashes is any number of folders, at the end whatever is below."""
    if not rooted and parts != ["**"]:
        parts = ["**", *parts]
    *above, last = parts
    return "".join(f"{part}/" for part in above) + ("?**" if last == "**" else last)


Matches = Callable[[str], object]


def _checks(runs: Iterable[Sequence[Rule]]) -> list[tuple[Matches, bool]]:
    """For each run with rules in it: whether one of them matches a path, and what they say then."""
    return [(_any([rule.glob for rule in run]), run[0].ignores) for run in runs if run]


_MOST_COST: Final = 1000
_SLOW_COST: Final = 10
_SOME_WILDCARD: Final = re.compile(r"[*?\[]")


def _cost(glob: str) -> int:
    """Of comparing a path with it: nothing for a plain name, which is looked up."""
    if _is_plain(glob):
        return 0
    return 1 if regex(glob) is not None else _SLOW_COST + len(glob) // 20


def _is_plain(glob: str) -> bool:
    return _SOME_WILDCARD.search(glob.removeprefix("**/")) is None


def _any(globs: Sequence[str]) -> Matches:
    """Plain names are looked up; one look serves for all globs that are regular expressions, which nearly all are."""
    plain = {glob for glob in globs if _is_plain(glob)}
    wild = [glob for glob in globs if glob not in plain]
    ways: list[Matches] = [matcher(glob) for glob in wild if regex(glob) is None]
    if quick := [source for glob in wild if (source := regex(glob)) is not None]:
        ways.insert(0, re.compile("|".join(quick), re.DOTALL).fullmatch)
    if plain:
        ways.insert(0, _lookup(plain))
    return ways[0] if len(ways) == 1 else lambda path: any(way(path) for way in ways)


def _lookup(plain: Iterable[str]) -> Matches:
    """`**/name` and `folder/name`."""
    whole = {glob for glob in plain if not glob.startswith("**/")}
    ends = {glob.removeprefix("**/") for glob in plain if glob.startswith("**/")}
    names = {end for end in ends if "/" not in end}
    longer = tuple(ends - names)
    behind = tuple(f"/{end}" for end in longer)

    def matches(path: str) -> bool:
        return path.rpartition("/")[2] in names or path in whole or path in longer or path.endswith(behind)

    return matches


def _runs(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Neighbouring rules that say the same, the last first."""
    runs = [list(run) for _, run in groupby(rules, key=lambda rule: rule.ignores)]
    return runs[::-1]


class Scope(NamedTuple):
    """Rules that apply in a folder, the nearest first, each with the length of the path down to its own folder."""

    rules: tuple[tuple[Rules, int], ...] = ()
    exclude: Rules | None = None
    """Of the caller, for paths from the root: no other rule brings back what they leave out."""

    def within(self, found: Iterable[Rules], depth: int) -> Scope:
        """`found`: the rules of a folder whose path, slash included, has this length. Raises TooManyRules."""
        scope = Scope((*((rules, depth) for rules in found), *self.rules), self.exclude)
        if sum(rules.cost for rules, _ in scope.rules) > _MOST_COST:
            raise TooManyRules
        return scope

    def ignores(self, path: str, name: str) -> bool:
        """`path`: from the root; `name`: its last part, with a slash if it is a folder."""
        for rules, depth in self.rules:
            said = rules.ignores(path[depth:])
            if said is not None:
                return said
        return by_default(name)


def by_default(name: str) -> bool:
    """Hidden, made by tools, or of no interest to a reader. A rule such as !.github/ brings it back."""
    return name[0] == "." or name.endswith(_ENDINGS) or name in _NAMES

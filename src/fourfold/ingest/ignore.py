"""Files that are not indexed: rules of .gitignore and .fourfoldignore, and defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from fourfold.errors import InvalidQuery
from fourfold.limits import NAME_BYTES
from fourfold.text.globs import regex

RULE_FILES: Final = (".gitignore", ".fourfoldignore")
"""Files with rules, weakest first; rules of a deeper folder override those of folders above it."""
RULE_BYTES: Final = 1 << 20

_NAMES = frozenset({"node_modules/", "__pycache__/", "bower_components/", "package-lock.json", "npm-shrinkwrap.json"})
_ENDINGS = (".min.js", ".min.css", ".js.map", ".css.map", ".lock")


class Rule(NamedTuple):
    glob: str
    ignores: bool
    folders_only: bool


class TooManyRules(Exception):
    """More rules than can be applied in reasonable time: every path is compared with each rule with a wildcard."""


class Rules:
    """The rules of one file, for paths relative to its folder; a folder's path ends with a slash."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Parse the rules; raise TooManyRules if matching would be too slow."""
        runs = _runs(rule for rule in map(parsed, lines) if rule is not None)
        self.cost = len(runs) + sum(_cost(rule.glob) for run in runs for rule in run)
        if self.cost > _MOST_COST:
            raise TooManyRules
        self._of_files = _checks([rule for rule in run if not rule.folders_only] for run in runs)
        self._of_folders = _checks(runs)

    def ignores(self, path: str) -> bool | None:
        """Whether the last matching rule ignores the path; None if no rule matches."""
        if path[-1] == "/":
            path, checks = path[:-1], self._of_folders
        else:
            checks = self._of_files
        for matches, ignores in checks:
            if matches(path):
                return ignores
        return None


def exclusions(globs: Sequence[str]) -> Rules | None:
    """Parse the caller's globs, which have the syntax of .gitignore; None if there are none."""
    for glob in globs:
        rule = parsed(glob)
        if rule is None or not rule.ignores:
            raise InvalidQuery(f"{glob[:100]!r} excludes nothing", "Give a glob such as 'drafts/' or '*.log'")
    try:
        return Rules(globs) if globs else None
    except TooManyRules:
        remedy = "Put them into .fourfoldignore files of several folders"
        raise InvalidQuery("too many globs to exclude", remedy) from None


def rules_of(text: str) -> Rules:
    """Parse the text of a rule file; small ones are cached, because the next run needs them again."""
    return _cached(text) if len(text) <= _CACHED_CHARACTERS else Rules(text.splitlines())


_CACHED_CHARACTERS: Final = 4096


@lru_cache(maxsize=256)
def _cached(text: str) -> Rules:
    return Rules(text.splitlines())


def parsed(line: str) -> Rule | None:
    """Convert a line of .gitignore to a glob for whole paths; None for comments and rules that match nothing."""
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
    """Remove trailing blanks, except one that is escaped by a backslash."""
    text = line.rstrip()
    backslashes = len(text) - len(text.rstrip("\\"))
    return line[: len(text) + backslashes % 2]


_RULE_CHARACTERS: Final = 2 * NAME_BYTES
"""Maximum length of a rule; longer rules are dropped, because stored paths are shorter."""
_PART: Final = re.compile(r"\\(.)|\*+|\[[!^]?[^\]/]{1,255}\]|(.)", re.DOTALL)


def _part(text: str) -> str:
    """Convert a part of a path to our glob syntax: without backslashes, and with ** only as a whole part."""
    return "**" if text == "**" else _PART.sub(_piece, text)


def _piece(match: re.Match[str]) -> str:
    if match[1] is not None:
        return f"[{match[1]}]" if match[1] in "*?[" else match[1]
    if match[0].startswith("*"):
        return "*"
    return match[0].replace("[^", "[!", 1)


def _joined(parts: list[str], *, rooted: bool) -> str:
    """Join the parts; `**` between slashes matches any number of folders, at the end everything below."""
    if not rooted and parts != ["**"]:
        parts = ["**", *parts]
    *above, last = parts
    return "".join(f"{part}/" for part in above) + ("?**" if last == "**" else last)


Matches = Callable[[str], object]


def _checks(runs: Iterable[Sequence[Rule]]) -> list[tuple[Matches, bool]]:
    """For each non-empty run: a function that matches any of its rules, and whether they ignore."""
    return [(_any([rule.glob for rule in run]), run[0].ignores) for run in runs if run]


_MOST_COST: Final = 1000
_SOME_WILDCARD: Final = re.compile(r"[*?\[]")


def _cost(glob: str) -> int:
    """Cost of matching a path against a glob; 0 for a plain name, which is looked up in a set."""
    return 0 if _is_plain(glob) else 1 + glob.count("*") // 4


def _is_plain(glob: str) -> bool:
    return _SOME_WILDCARD.search(glob.removeprefix("**/")) is None


def _any(globs: Sequence[str]) -> Matches:
    """Match any of the globs: plain names by look-up, all others by one joined regular expression."""
    plain = {glob for glob in globs if _is_plain(glob)}
    tests: list[Matches] = [_lookup(plain)] if plain else []
    if wild := [regex(glob) for glob in globs if glob not in plain]:
        tests.append(re.compile("|".join(wild), re.DOTALL).fullmatch)
    return tests[0] if len(tests) == 1 else lambda path: any(test(path) for test in tests)


def _lookup(plain: Iterable[str]) -> Matches:
    """Match globs without wildcards: `**/name` and `folder/name`."""
    whole = {glob for glob in plain if not glob.startswith("**/")}
    ends = {glob.removeprefix("**/") for glob in plain if glob.startswith("**/")}
    names = {end for end in ends if "/" not in end}
    longer = tuple(ends - names)
    suffixes = tuple(f"/{end}" for end in longer)

    def matches(path: str) -> bool:
        return path.rpartition("/")[2] in names or path in whole or path in longer or path.endswith(suffixes)

    return matches


def _runs(rules: Iterable[Rule]) -> list[list[Rule]]:
    """Runs of neighbouring rules with the same effect, last first."""
    runs = [list(run) for _, run in groupby(rules, key=lambda rule: rule.ignores)]
    return runs[::-1]


class Scope(NamedTuple):
    """Rules that apply in a folder, nearest first, each with the length of the path of its own folder."""

    rules: tuple[tuple[Rules, int], ...] = ()
    exclude: Rules | None = None
    """Rules of the caller, for paths from the root, which no other rule can override."""

    def within(self, inner: Iterable[Rules], depth: int) -> Scope:
        """Add the rules of a folder whose path, including its slash, has length `depth`. Raises TooManyRules."""
        scope = Scope((*((rules, depth) for rules in inner), *self.rules), self.exclude)
        if sum(rules.cost for rules, _ in scope.rules) > _MOST_COST:
            raise TooManyRules
        return scope

    def ignores(self, path: str, name: str) -> bool:
        """Whether a path from the root is ignored; `name` is its last part, with a slash for a folder."""
        for rules, depth in self.rules:
            ignored = rules.ignores(path[depth:])
            if ignored is not None:
                return ignored
        return by_default(name)


def by_default(name: str) -> bool:
    """Whether a name is ignored without a rule: hidden or generated files. A rule such as !.github/ includes it."""
    return name[0] == "." or name.endswith(_ENDINGS) or name in _NAMES

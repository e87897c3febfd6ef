"""Writes the folder of which `make docs` makes the site: docs/, pages of the repository's root, the API reference.

Pages stay as they are in the repository, where their links work, too; on the site, links that lead out of docs/ lead to
copies of these files.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PAGES: Final = ROOT / "build" / "pages"
ROOT_PAGES: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the repository's root, and their names on the site."""
COPIES: Final = "repository"
"""The folder of the site that has copies of other files of the repository."""
FIRST: Final = ("Memory", "AsyncMemory", "RemoteMemory", "connect", "NewItem", "Filters", "SearchResponse", "Result")
"""Names with which the API reference begins."""
_OPTIONS: Final = {"AsyncMemory": "\n    options:\n      members: false"}
"""AsyncMemory has the methods of Memory, as coroutines."""
_LINK: Final = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_CODE: Final = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def site_path(page: str, target: str) -> str:
    """Where a link of a page of the repository leads on the site: a path from the root of the site."""
    path = PurePosixPath(os.path.normpath(PurePosixPath(page).parent / target)).as_posix()
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path.startswith("docs/") and not path.startswith("docs/examples"):
        return path.removeprefix("docs/")
    return f"{COPIES}/{path}"


def rewritten(page: str, text: str) -> str:
    """The page with links for the site; `page` is its path in the repository. Every page lies in the site's root."""

    def link(match: re.Match[str]) -> str:
        return site_path(page, match[1]) + (match[2] or "")

    parts = _CODE.split(text)
    return "".join(part if place % 2 else _LINK.sub(link, part) for place, part in enumerate(parts))


def linked_files() -> dict[str, Path]:
    """Files of the repository that pages link to and that are not pages, by their path on the site."""
    found: dict[str, Path] = {}
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / name for name in ROOT_PAGES)]:
        name = page.relative_to(ROOT).as_posix()
        for target, _ in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
            path = site_path(name, target)
            if path.startswith(f"{COPIES}/"):
                found[path] = ROOT / path.removeprefix(f"{COPIES}/")
    return found


def public_names() -> list[str]:
    """`__all__` of the package, read without importing it."""
    module = ast.parse((ROOT / "src" / "fourfold" / "__init__.py").read_text("utf-8"))
    for node in module.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise SystemExit("fourfold has no __all__")


def api_page() -> str:
    first = [name for name in FIRST if name in public_names()]
    names = [*first, *(name for name in public_names() if name not in first)]
    entries = "\n\n".join(f"::: fourfold.{name}{_OPTIONS.get(name, '')}" for name in names)
    head = "Every public name, from the docstrings. [Reference](reference.md) has the rules."
    return f"# Python API\n\n{head}\n\n{entries}\n"


# ---------------------------------------------------------------- the folder that the site is made of


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("examples", "*.md"))
    sources = {f"docs/{page.name}": page.name for page in (ROOT / "docs").glob("*.md")}
    for source, target in {**sources, **ROOT_PAGES}.items():
        text = served_links(rewritten(source, (ROOT / source).read_text("utf-8")))
        (PAGES / target).write_text(text, encoding="utf-8")
    (PAGES / "api.md").write_text(api_page(), encoding="utf-8")
    for path, source in linked_files().items():
        target = PAGES / served_name(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content(source), encoding="utf-8")


def served_links(text: str) -> str:
    return re.sub(rf"(?<=\]\(){COPIES}/([^)\s#]+)(?=[)#])", lambda match: served_name(f"{COPIES}/{match[1]}"), text)


def served_name(path: str) -> str:
    """The name under which a copy is served: a browser shows it, and it is not taken for a page."""
    return path if path.endswith((".txt", ".png", ".json")) else f"{path}.txt"


def content(source: Path) -> str:
    """The text of a file; of a folder, the names in it."""
    if source.is_dir():
        return "\n".join(sorted(entry.name for entry in source.iterdir() if entry.name[0] not in "._")) + "\n"
    return source.read_text("utf-8")


if __name__ == "__main__":
    main()

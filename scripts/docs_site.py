"""What `make docs` adds to docs/: the pages of the repository's root, the API reference, and linked files.

MkDocs calls the functions named on_*. Pages stay as they are in the repository, where their links work, too; on the
site, links that lead out of docs/ lead to copies of these files.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
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


# ---------------------------------------------------------------- called by MkDocs


def on_config(config: Any) -> Any:
    """Puts pages that the navigation does not name at its end, so that a new page is never lost."""
    named = set(re.findall(r"[\w-]+\.md", repr(config.nav)))
    missing = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named)
    if missing:
        config.nav.append({"More": missing})
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, target in ROOT_PAGES.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, target, content=rewritten(name, text)))
    files.append(File.generated(config, "api.md", content=api_page()))
    for path, source in linked_files().items():
        files.append(File.generated(config, _served(path), content=_content(source)))
    return files


def _content(source: Path) -> str:
    """The text of a file; of a folder, the names in it."""
    if source.is_dir():
        return "\n".join(sorted(entry.name for entry in source.iterdir() if entry.name[0] not in "._")) + "\n"
    return source.read_text("utf-8")


def _served(path: str) -> str:
    """The name under which a copy is served: a browser shows it, and MkDocs does not take it for a page."""
    return path if path.endswith((".txt", ".png", ".json")) else f"{path}.txt"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    if page.file.src_uri in ("api.md", *ROOT_PAGES.values()):
        text = markdown
    else:
        text = rewritten(f"docs/{page.file.src_uri}", markdown)
    return re.sub(rf"(?<=\]\(){COPIES}/([^)\s#]+)(?=[)#])", lambda match: _served(f"{COPIES}/{match[1]}"), text)

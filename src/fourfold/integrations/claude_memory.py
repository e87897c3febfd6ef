"""The memory tool of Claude: its files are items, so that search, command line and MCP see them (extra `claude`).

The results and errors are word for word those of the tool that the Anthropic SDK has for local files.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from fourfold.errors import Conflict, FourfoldError, MissingExtra
from fourfold.integrations import documents
from fourfold.model import Item, ItemPatch, NewItem
from fourfold.text.fold import clean

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types import beta
except ImportError as error:
    raise MissingExtra(f"anthropic is missing ({error})", "pip install 'fourfold[claude]'") from error

ROOT: Final = "/memories"
KIND: Final = "memory_file"
"""The kind of the items that are files; an item's key is the path of its file."""
_MOST_LINES: Final = 999_999
_LEVELS: Final = 2
_UNITS: Final = ("B", "K", "M", "G")


class FourfoldMemoryTool(BetaAbstractMemoryTool):
    """The memory of Claude in a store.

    client.beta.messages.tool_runner(..., tools=[FourfoldMemoryTool(memory)])

    A file has at most 1 MiB. A directory exists as long as it has files; its size is that of its files.
    """

    def __init__(
        self, memory: documents.AnyMemory, *, cache_control: beta.BetaCacheControlEphemeralParam | None = None
    ) -> None:
        super().__init__(cache_control=cache_control)
        self.memory = memory

    def execute(self, command: beta.BetaMemoryTool20250818Command) -> str:
        """Runs a command; an error of the store becomes an error for the model, with the remedy."""
        try:
            return str(super().execute(command))
        except FourfoldError as error:
            raise ToolError(str(error)) from error

    def view(self, command: beta.BetaMemoryTool20250818ViewCommand) -> str:
        tree = self._tree()
        path = _valid(command.path)
        if path in tree.files:
            text = tree.files[path].text
            lines, first = text.split("\n"), 0
            if len(lines) > _MOST_LINES:
                raise ToolError(f"File {command.path} exceeds maximum line limit of 999,999 lines.")
            if command.view_range and len(command.view_range) == 2:
                first = max(1, command.view_range[0]) - 1
                last = command.view_range[1]
                lines = lines[first:] if last == -1 else lines[first:last]
            return f"Here's the content of {command.path} with line numbers:\n{_numbered(lines, first + 1)}"
        if path in tree.directories:
            header = f"Here're the files and directories up to 2 levels deep in {command.path}, excluding hidden items:"
            own = _size(sum(_bytes(item) for item in tree.below(path).values()))
            return "\n".join([header, f"{own}\t{command.path}", *_entries(command.path, path, tree, _LEVELS)])
        raise _missing(command.path)

    def create(self, command: beta.BetaMemoryTool20250818CreateCommand) -> str:
        path, tree = _valid(command.path), self._tree()
        if path in tree.files or path in tree.directories:
            raise ToolError(f"File {command.path} already exists")
        _require_directories(path, tree)
        self.memory.add(NewItem(command.file_text, title=_title(path), key=path, kind=KIND, source="agent"))
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: beta.BetaMemoryTool20250818StrReplaceCommand) -> str:
        item = self._file(command.path)
        text, old = item.text, command.old_str
        lines = [text.count("\n", 0, place) + 1 for place in _places(text, old)]
        match text.count(old):
            case 0:
                raise ToolError(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}."
                )
            case 1:
                new = text.replace(old, command.new_str)
            case _:
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
                    f"{', '.join(map(str, lines))}. Please ensure it is unique"
                )
        self._change(item, new)
        shown = new.split("\n")
        first = max(0, lines[0] - 3)
        snippet = _numbered(shown[first : lines[0] + 2], first + 1)
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    def insert(self, command: beta.BetaMemoryTool20250818InsertCommand) -> str:
        item = self._file(command.path)
        lines = item.text.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        text = "\n".join(lines)
        self._change(item, text if text.endswith("\n") else f"{text}\n")
        return f"The file {command.path} has been edited."

    def delete(self, command: beta.BetaMemoryTool20250818DeleteCommand) -> str:
        path = _valid(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        items = self._tree().below(path)
        if not items:
            raise ToolError(f"The path {command.path} does not exist")
        self.memory.forget([item.id for item in items.values()])
        return f"Successfully deleted {command.path}"

    def rename(self, command: beta.BetaMemoryTool20250818RenameCommand) -> str:
        old, new, tree = _valid(command.old_path), _valid(command.new_path), self._tree()
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if new in tree.files or new in tree.directories:
            raise ToolError(f"The destination {command.new_path} already exists")
        items = tree.below(old)
        if not items:
            raise ToolError(f"The path {command.old_path} does not exist")
        if new.startswith(f"{old}/"):
            raise ToolError(f"Cannot rename {command.old_path} to a path below itself")
        _require_directories(new, tree)
        self._move(items, {path: new + path.removeprefix(old) for path in items})
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        self.memory.forget_matching({"kind": KIND})
        return "All memory cleared"

    # ------------------------------------------------------------ items

    def _tree(self) -> _Tree:
        files = {item.key: item for item in documents.each(self.memory, {"kind": KIND}) if item.key is not None}
        return _Tree(files, {ROOT, *(above for path in files for above in _above(path))})

    def _file(self, written: str) -> Item:
        """The file at a path, for a command that changes it."""
        path, tree = _valid(written), self._tree()
        if path in tree.directories:
            raise ToolError(f"The path {written} is not a file.")
        if path not in tree.files:
            raise _missing(written)
        return tree.files[path]

    def _change(self, item: Item, text: str) -> None:
        with _as_viewed(item):
            self.memory.update(item.id, ItemPatch(text=text, source="agent"), expected=item)

    def _move(self, files: Mapping[str, Item], names: Mapping[str, str]) -> None:
        """Stores the files under their new names, then removes the old ones: an interruption loses none, and neither
        does another writer."""
        self.memory.add_many([_renamed(item, path, names[path]) for path, item in files.items()])
        for item in files.values():
            with _as_viewed(item):
                self.memory.forget([item.id], expected=item)


@contextmanager
def _as_viewed(item: Item) -> Generator[None]:
    """Names the file that another writer changed."""
    try:
        yield
    except Conflict as error:
        message = f"The file {item.key} was changed since you viewed it. View it again, then repeat the edit."
        raise ToolError(message) from error


class FourfoldAsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`: commands run in threads."""

    def __init__(
        self, memory: documents.AnyMemory, *, cache_control: beta.BetaCacheControlEphemeralParam | None = None
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._tool = FourfoldMemoryTool(memory)

    async def execute(self, command: beta.BetaMemoryTool20250818Command) -> str:
        return await asyncio.to_thread(self._tool.execute, command)

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        return await asyncio.to_thread(self._tool.clear_all_memory)


class _Tree(NamedTuple):
    """All files by path, and the directories that they are in."""

    files: Mapping[str, Item]
    directories: set[str]

    def below(self, path: str) -> dict[str, Item]:
        """The file of this path, or the files of this directory."""
        return {name: item for name, item in self.files.items() if name == path or name.startswith(f"{path}/")}


# ---------------------------------------------------------------- paths


def _valid(path: str) -> str:
    """The path without `.`, `..` and repeated slashes, spelled like the keys of items."""
    path = clean(path).strip()
    if not path.startswith(ROOT):
        raise ToolError(f"Path must start with /memories, got: {path}")
    inner = posixpath.normpath(path.removeprefix(ROOT).lstrip("/"))
    if inner == ".." or inner.startswith("../"):
        raise ToolError(f"Path {path} would escape /memories directory")
    return ROOT if inner == "." else f"{ROOT}/{inner}".rstrip()


def _above(path: str) -> list[str]:
    """The directories that contain a path, below the root."""
    names = path.removeprefix(f"{ROOT}/").split("/")
    return [posixpath.join(ROOT, *names[:count]) for count in range(1, len(names))]


def _require_directories(path: str, tree: _Tree) -> None:
    for above in _above(path):
        if above in tree.files:
            raise ToolError(f"The path {above} is a file, not a directory")


def _renamed(item: Item, old: str, new: str) -> NewItem:
    """The item as a file of another name; everything else stays."""
    kept: dict[str, Any] = {
        field.name: getattr(item, field.name) for field in fields(NewItem) if hasattr(item, field.name)
    }
    title = _title(new) if item.title == _title(old) else item.title
    return replace(NewItem(**kept), key=new, title=title)


def _title(path: str) -> str:
    return posixpath.splitext(posixpath.basename(path))[0] or path


def _missing(path: str) -> ToolError:
    return ToolError(f"The path {path} does not exist. Please provide a valid path.")


# ---------------------------------------------------------------- what the model sees


def _entries(shown: str, path: str, tree: _Tree, levels: int) -> list[str]:
    inside = {name.removeprefix(f"{path}/").split("/")[0] for name in tree.below(path)} if levels else set[str]()
    lines: list[str] = []
    for name in sorted(entry for entry in inside if not entry.startswith(".")):
        items = tree.below(f"{path}/{name}")
        is_directory = f"{path}/{name}" in tree.directories
        lines.append(f"{_size(sum(map(_bytes, items.values())))}\t{shown}/{name}{'/' * is_directory}")
        if is_directory:
            lines += _entries(f"{shown}/{name}", f"{path}/{name}", tree, levels - 1)
    return lines


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, first))


def _places(text: str, part: str) -> list[int]:
    """Where a part occurs in a text; occurrences may overlap."""
    places: list[int] = []
    place = text.find(part)
    while place >= 0:
        places.append(place)
        place = text.find(part, place + 1)
    return places


def _bytes(item: Item) -> int:
    return len(item.text.encode())


def _size(size: int) -> str:
    unit = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    number = size / 1024**unit
    return f"{int(number)}{_UNITS[unit]}" if number == int(number) else f"{number:.1f}{_UNITS[unit]}"

"""The memory tool against the one of the Anthropic SDK for local files: same commands, same results and errors."""

import re
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourfold import ItemPatch, Memory
from fourfold.integrations.claude_memory import FourfoldAsyncMemoryTool, FourfoldMemoryTool


class Both:
    """Runs each command with both tools and compares the results, except sizes of directories."""

    def __init__(self, memory: Memory, folder: Path) -> None:
        self.tool = FourfoldMemoryTool(memory)
        self.files = BetaLocalFilesystemMemoryTool(str(folder))

    def __call__(self, command: str, **arguments: Any) -> str:
        asked = {"command": command, **arguments}
        said, expected = outcome(self.tool, asked), outcome(self.files, asked)
        self._remove_empty_directories()
        assert without_directory_sizes(said) == without_directory_sizes(expected), asked
        return said

    def _remove_empty_directories(self) -> None:
        root = self.files.memory_root
        for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()


def outcome(tool: Any, asked: dict[str, Any]) -> str:
    try:
        return tool.call(asked)
    except ToolError as error:
        return f"error: {error.content}"


def without_directory_sizes(said: str) -> str:
    if not said.startswith("Here're the files"):
        return said
    header, own, *entries = said.split("\n")
    masked = [re.sub(r"^\S+\t(?=.*/$)", "?\t", entry) for entry in entries]
    return "\n".join([header, re.sub(r"^\S+", "?", own), *masked])


@pytest.fixture
def both(memory: Memory, tmp_path: Path) -> Both:
    return Both(memory, tmp_path / "files")


@pytest.fixture
def tool(memory: Memory) -> FourfoldMemoryTool:
    return FourfoldMemoryTool(memory)


def test_each_command_says_what_the_sdk_says(both: Both) -> None:
    path = "/memories/notes/plan.md"
    both("view", path="/memories")
    assert both("create", path=path, file_text="one\ntwo\nthree") == f"File created successfully at: {path}"
    assert both("create", path=path, file_text="x") == f"error: File {path} already exists"
    assert both("view", path=path) == (
        f"Here's the content of {path} with line numbers:\n     1\tone\n     2\ttwo\n     3\tthree"
    )
    assert both("str_replace", path=path, old_str="two", new_str="2\n2b") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tone\n     2\t2\n     3\t2b\n     4\tthree"
    )
    assert both("insert", path=path, insert_line=0, insert_text="zero\n") == f"The file {path} has been edited."
    assert both("view", path=path, view_range=[1, 2]).endswith(":\n     1\tzero\n     2\tone")
    assert both("rename", old_path=path, new_path="/memories/p.md") == (
        f"Successfully renamed {path} to /memories/p.md"
    )
    assert both("delete", path="/memories/p.md") == "Successfully deleted /memories/p.md"
    assert both("view", path="/memories/p.md") == (
        "error: The path /memories/p.md does not exist. Please provide a valid path."
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"command": "view", "path": "/etc/passwd"},
        {"command": "view", "path": "/memories/../etc/passwd"},
        {"command": "view", "path": "/memories/a/../../b"},
        {"command": "create", "path": "/memories/../x", "file_text": ""},
        {"command": "create", "path": "/memories", "file_text": ""},
        {"command": "create", "path": "/memories/d", "file_text": ""},
        {"command": "str_replace", "path": "/memories/none", "old_str": "a", "new_str": "b"},
        {"command": "str_replace", "path": "/memories/d", "old_str": "a", "new_str": "b"},
        {"command": "str_replace", "path": "/memories/d/f", "old_str": "z", "new_str": "b"},
        {"command": "str_replace", "path": "/memories/d/f", "old_str": "aa", "new_str": "b"},
        {"command": "str_replace", "path": "/memories/d/f", "old_str": "", "new_str": "b"},
        {"command": "insert", "path": "/memories/none", "insert_line": 0, "insert_text": "a"},
        {"command": "insert", "path": "/memories/d", "insert_line": 0, "insert_text": "a"},
        {"command": "insert", "path": "/memories/d/f", "insert_line": 3, "insert_text": "a"},
        {"command": "insert", "path": "/memories/d/f", "insert_line": -1, "insert_text": "a"},
        {"command": "delete", "path": "/memories"},
        {"command": "delete", "path": "/memories/"},
        {"command": "delete", "path": "/memories/none"},
        {"command": "rename", "old_path": "/memories", "new_path": "/memories/e"},
        {"command": "rename", "old_path": "/memories/none", "new_path": "/memories/e"},
        {"command": "rename", "old_path": "/memories/d/f", "new_path": "/memories/d"},
        {"command": "rename", "old_path": "/memories/d/f", "new_path": "/other"},
    ],
    ids=lambda asked: " ".join(map(str, asked.values())),
)
def test_each_error_is_the_one_of_the_sdk(both: Both, asked: dict[str, Any]) -> None:
    both("create", path="/memories/d/f", file_text="aaa\naa\n")
    assert both(**asked).startswith("error: ")
    assert both("view", path="/memories/d/f").endswith(":\n     1\taaa\n     2\taa\n     3\t")


def test_directories_are_listed_two_levels_deep_without_hidden_files(both: Both) -> None:
    for path in ("b.txt", "a/z.md", "a/b/c.md", "a/b/d/e.md", ".hidden", "a/.git/x", "ä.txt", "a-b.txt"):
        both("create", path=f"/memories/{path}", file_text="x" * 1536)
    listed = both("view", path="/memories")
    assert [line.split("\t")[1] for line in listed.splitlines()[1:]] == [
        "/memories",
        "/memories/a/",
        "/memories/a/b/",
        "/memories/a/z.md",
        "/memories/a-b.txt",
        "/memories/b.txt",
        "/memories/ä.txt",
    ]
    assert "1.5K\t/memories/b.txt" in listed
    assert "3K\t/memories/a/b/" in listed
    both("view", path="/memories/a")
    both("delete", path="/memories/a")
    both("rename", old_path="/memories/b.txt", new_path="/memories/deep/er/b.txt")
    both("rename", old_path="/memories/deep", new_path="/memories/moved")
    both("view", path="/memories")


PATHS = st.sampled_from(["/memories/a", "/memories/b.md", "/memories/d/a", "/memories/d/e/f", "/memories//d/./b", "/x"])
TEXTS = st.text("ab\n\r é", max_size=12)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": st.one_of(PATHS, st.sampled_from(["/memories", "/memories/d"]))},
        optional={"view_range": st.tuples(st.integers(-2, 4), st.integers(-1, 4)).map(list)},
    ),
    st.fixed_dictionaries({"command": st.just("str_replace"), "path": PATHS, "old_str": TEXTS, "new_str": TEXTS}),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 4), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": st.one_of(PATHS, st.just("/memories/d"))}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
)


@given(commands=st.lists(COMMANDS, max_size=12))
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_sequence_of_commands_has_the_results_of_the_sdk(both: Both, commands: list[dict[str, Any]]) -> None:
    both.tool.clear_all_memory()
    both.files.clear_all_memory()
    for asked in commands:
        both(**asked)
    kept = {
        f"/memories/{path.relative_to(both.files.memory_root)}": path.read_bytes().decode()
        for path in both.files.memory_root.rglob("*")
        if path.is_file()
    }
    assert {item.key: item.text for item in both.tool.memory.list(limit=100)} == kept


# ---------------------------------------------------------------- one store for files and search


def call(tool: FourfoldMemoryTool, command: str, **arguments: Any) -> Any:
    return tool.call({"command": command, **arguments})


def test_what_claude_writes_is_found_by_search(tool: FourfoldMemoryTool, memory: Memory) -> None:
    call(tool, "create", path="/memories/people/ada.md", file_text="Ada prefers morning meetings")
    (found,) = memory.search("morning meetings", filters={"kind": "memory_file"}).results
    assert (found.key, found.item.title) == ("/memories/people/ada.md", "ada")
    call(tool, "str_replace", path="/memories/people/ada.md", old_str="morning", new_str="afternoon")
    assert memory.search("afternoon", only=["keyword"]).results[0].key == "/memories/people/ada.md"
    assert not memory.search("morning", only=["keyword"]).results


def test_what_others_change_is_seen_by_claude(tool: FourfoldMemoryTool, memory: Memory) -> None:
    call(tool, "create", path="/memories/a.txt", file_text="old")
    memory.update("key:/memories/a.txt", ItemPatch(text="new", add_tags=("kept",)))
    memory.add("an item that is not a file")
    assert call(tool, "view", path="/memories/a.txt").endswith("\tnew")
    call(tool, "rename", old_path="/memories/a.txt", new_path="/memories/b.txt")
    (item,) = memory.get(["key:/memories/b.txt"])
    assert (item.tags, item.title) == (("kept",), "b")
    tool.clear_all_memory()
    assert [item.text for item in memory.list()] == ["an item that is not a file"]


def test_what_the_store_refuses_is_an_error_for_the_model(tool: FourfoldMemoryTool, memory: Memory) -> None:
    with pytest.raises(ToolError, match="more than 1,048,576 bytes"):
        call(tool, "create", path="/memories/huge.txt", file_text="x" * 1_048_577)
    with pytest.raises(ToolError, match="NUL"):
        call(tool, "create", path="/memories/nul.txt", file_text="\0")
    call(tool, "create", path="/memories/file", file_text="x")
    with pytest.raises(ToolError, match="/memories/file is a file, not a directory"):
        call(tool, "create", path="/memories/file/inner", file_text="x")
    with pytest.raises(ToolError, match="below itself"):
        call(tool, "rename", old_path="/memories/file", new_path="/memories/file/inner")
    assert memory.count() == 1


def test_a_file_with_too_many_lines_is_not_shown(tool: FourfoldMemoryTool) -> None:
    call(tool, "create", path="/memories/lines.txt", file_text="\n" * 999_999)
    with pytest.raises(ToolError, match=r"^File /memories/lines.txt exceeds maximum line limit of 999,999 lines.$"):
        call(tool, "view", path="/memories/lines.txt")


def test_an_edit_based_on_an_old_state_is_refused(
    tool: FourfoldMemoryTool, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(tool, "create", path="/memories/a.txt", file_text="one")
    stale = tool._tree()
    memory.update("key:/memories/a.txt", ItemPatch(text="two"))
    monkeypatch.setattr(tool, "_tree", lambda: stale)
    with pytest.raises(ToolError, match="was changed since you viewed it"):
        call(tool, "str_replace", path="/memories/a.txt", old_str="one", new_str="three")
    assert memory.get(["key:/memories/a.txt"])[0].text == "two"


async def test_the_tool_for_asyncio_does_the_same(memory: Memory) -> None:
    tool = FourfoldAsyncMemoryTool(memory, cache_control={"type": "ephemeral"})
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}
    created = await tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "hello"})
    assert created == "File created successfully at: /memories/a.txt"
    with pytest.raises(ToolError, match="already exists"):
        await tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "again"})
    for asked in (
        {"command": "view", "path": "/memories/a.txt"},
        {"command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "world"},
        {"command": "str_replace", "path": "/memories/a.txt", "old_str": "hello", "new_str": "hi"},
        {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/b.txt"},
    ):
        assert await tool.call(asked)
    assert memory.get(["key:/memories/b.txt"])[0].text == "hi\nworld\n"
    assert await tool.clear_all_memory() == "All memory cleared"
    assert memory.count() == 0


def test_two_spellings_of_a_path_are_one_file(tool: FourfoldMemoryTool) -> None:
    for path, *others in (
        ("/memories/plan", "/memories/plan ", "/memories/plan /."),
        ("/memories/caf\u00e9", "/memories/cafe\u0301"),
    ):
        tool.call({"command": "create", "path": path, "file_text": "kept"})
        for name in (path, *others):
            assert outcome(tool, {"command": "create", "path": name, "file_text": "lost"}).endswith("already exists")
            assert tool.call({"command": "view", "path": name}).endswith("\tkept")
    tool.call({"command": "create", "path": "/memories/other", "file_text": "other"})
    asked = {"command": "rename", "old_path": "/memories/other", "new_path": "/memories/plan "}
    assert outcome(tool, asked).endswith("already exists")


def test_a_rename_loses_no_change_that_was_made_meanwhile(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = FourfoldMemoryTool(memory)
    tool.call({"command": "create", "path": "/memories/plan", "file_text": "first"})
    add_many = memory.add_many

    def add_late(*args: Any, **options: Any) -> Any:
        memory.update("key:/memories/plan", ItemPatch(text="second"))
        return add_many(*args, **options)

    monkeypatch.setattr(memory, "add_many", add_late)
    asked = {"command": "rename", "old_path": "/memories/plan", "new_path": "/memories/new"}
    assert "was changed since" in outcome(tool, asked)
    assert tool.call({"command": "view", "path": "/memories/plan"}).endswith("\tsecond")

"""A new operation is a method of Memory and one line of `operations.py`: every interface derives from them."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fourfold import AsyncMemory, Memory, RemoteMemory
from fourfold.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
METHOD = '''
    def oldest(
        self, kind: str | None = None, *, item: int | str | None = None, limit: int = 50, offset: int = 0
    ) -> list[Item]:
        """The items that were stored first.

        `kind`: only items of this kind. `item`: only what is older than this item.
        """
        rows = [] if item is None and self.count() == 0 else self.list({"kind": kind} if kind else None, limit=1000)
        before = None if item is None else self.get([item])[0].id
        older = sorted((row for row in rows if before is None or row.id < before), key=lambda row: row.id)
        return older[offset : offset + limit]

    def count(self'''
LINE = """    Operation(
        "oldest",
        "GET /oldest",
        "List the oldest items",
        answer="items",
        paged=True,
        command="graph oldest",
        tool="oldest_memories",
    ),
"""
SCRIPT = """
import asyncio, json, os, sys
os.environ["FOURFOLD_EMBEDDER"] = "none"
sys.path[:0] = sys.argv[1].split(os.pathsep)
os.environ["PYTHONPATH"] = sys.path[0]
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
import fourfold
from fourfold import AsyncMemory, Memory, NewItem, RemoteMemory, Settings
from fourfold.cli.main import main
assert Path(fourfold.__file__).is_relative_to(sys.argv[1].split(os.pathsep)[0])
store = sys.argv[2]

with Memory.open(store, embedder="none") as memory:
    ids = [memory.add(NewItem(f"note {n}", kind="even" if n % 2 == 0 else "odd")).id for n in range(5)]

async def threaded():
    async with await AsyncMemory.open(store, embedder="none") as memory:
        return [item.id for item in await memory.oldest("even", limit=2)]

assert asyncio.run(threaded()) == ids[:3:2]

def printed(*arguments):
    out = StringIO()
    with redirect_stdout(out):
        try:
            main(["--store", store, *arguments])
        except SystemExit as left:
            assert not left.code, (arguments, left.code)
    return out.getvalue()

assert [item["id"] for item in json.loads(printed("graph", "oldest", "--kind", "odd", "--json"))["oldest"]] == ids[1::2]
assert len(printed("graph", "oldest", "--item", str(ids[2]), "--limit", "9").splitlines()) == 2
help = printed("graph", "oldest", "--help")
assert "List the oldest items." in printed("graph", "--help") and "List the oldest items." in help
assert "Only items of this kind." in help

from mcp import Client
from fourfold.serve.mcp.server import build

async def tool():
    server, _ = build(lambda: Settings(store=store, embedder="none"), "all")
    async with Client(server) as client:
        (listed,) = [each for each in (await client.list_tools()).tools if each.name == "oldest_memories"]
        called = await client.call_tool("oldest_memories", {"item_id": ids[3], "limit": 2})
        return listed, json.loads(called.content[0].text)

listed, called = asyncio.run(tool())
assert listed.description == "List the oldest items." and listed.annotations.read_only_hint
assert listed.input_schema["properties"]["kind"] == {"type": "string", "description": "Only items of this kind."}
assert list(listed.input_schema["properties"]) == ["kind", "item_id", "limit", "offset", "namespace"]
assert [item["id"] for item in called["oldest"]] == ids[:2]

from http_server import serving
with serving(store) as server, fourfold.connect(server.url) as remote:
    with server.client() as client:
        route = client.get("/v1/openapi.json").json()["paths"]["/v1/namespaces/{namespace}/oldest"]["get"]
        page = client.get("/v1/namespaces/default/oldest", params={"limit": 2}).json()
        assert client.get("/v1/namespaces/default/oldest", params={"colour": "red"}).status_code == 422
    assert [item["id"] for item in page["items"]] == ids[:2] and page["next_cursor"]
    assert [item.id for item in remote.oldest(item=ids[4], limit=3)] == ids[:3]
    assert [item.id for item in remote.oldest("odd")] == ids[1::2]
parameters = {each["name"]: each for each in route["parameters"]}
assert (route["operationId"], route["summary"]) == ("oldest", "List the oldest items")
assert parameters["kind"]["description"] == "Only items of this kind."
assert parameters["limit"]["schema"]["maximum"] == 1000
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with one more operation."""
    folder = tmp_path / "src" / "fourfold"
    shutil.copytree(ROOT / "src" / "fourfold", folder, ignore=shutil.ignore_patterns("__pycache__"))
    methods, table = folder / "engine" / "item_methods.py", folder / "operations.py"
    text = methods.read_text("utf-8")
    assert text.count("\n    def count(self") == 1
    methods.write_text(text.replace("\n    def count(self", METHOD), "utf-8")
    text = table.read_text("utf-8")
    assert text.count("    # raw records\n") == 1
    table.write_text(text.replace("    # raw records\n", f"{LINE}    # raw records\n"), "utf-8")
    return tmp_path / "src"


def test_operation_is_found_everywhere_after_one_method_and_one_line(package: Path, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    script.write_text(SCRIPT, "utf-8")
    places = os.pathsep.join(map(str, (package, ROOT / "tests" / "support")))
    arguments = [sys.executable, "-I", str(script), places, str(tmp_path / "store")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [AsyncMemory, RemoteMemory])
def test_type_checkers_see_every_method(kind: type) -> None:
    """Methods that no line names are there, but only when a program runs."""
    (node,) = [
        each for each in ast.parse(inspect.getsource(inspect.getmodule(kind))).body if ast_name(each) == kind.__name__
    ]
    named = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    named |= {target.id for each in node.body if isinstance(each, ast.Assign) for target in each.targets}
    wanted = {name for name in dir(Memory) if not name.startswith("_") and hasattr(kind, name)}
    if kind is RemoteMemory:
        wanted &= {operation.name for operation in OPERATIONS.values() if operation.is_json}
    assert wanted - named - {"owner"} == set()


def ast_name(node: ast.stmt) -> str:
    return node.name if isinstance(node, ast.ClassDef) else ""

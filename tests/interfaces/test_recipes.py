"""The recipes of CONTRIBUTING.md for an embedder, a reader, a field and an operation, each followed in a copy of the
package. That for a retriever is in test_descriptions.
"""

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fourfold import AsyncMemory, Memory, RemoteMemory
from fourfold.operations import OPERATIONS

ROOT = Path(__file__).parents[2]

EMBEDDER = '''
from fourfold.embed.base import BaseEmbedder, completed

class Letters(BaseEmbedder):
    """Counts letters: similar spelling is near."""

    name = "letters"
    dimension = 26

    def embed(self, texts):
        return [[1.0 + text.lower().count(chr(97 + place)) for place in range(26)] for text in texts]

def letters():
    return completed(Letters())
'''
READER = '''
from fourfold.ingest.document import Document, Section, numbered

def read(content, name):
    """Outlines: a section begins at each line with a star."""
    sections, heading, lines = [], (), []
    for line in numbered(content):
        if line.text.startswith("* "):
            sections.append(Section(heading, lines))
            heading, lines = (line.text[2:],), []
        else:
            lines.append(line)
    return Document("", [*sections, Section(heading, lines)])
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "encoders")
    return shutil.copytree(ROOT / "src" / "fourfold", tmp_path / "src" / "fourfold", ignore=ignored)


def add_line(file: Path, before: str, line: str, *, after: bool = False) -> None:
    text = file.read_text("utf-8")
    assert text.count(before) == 1
    file.write_text(text.replace(before, f"{before}{line}" if after else f"{line}{before}"), "utf-8")


def use(script: str, folder: Path, *places: Path) -> str:
    """Runs a script, which gets the folders of its imports and a place for a store; returns what it prints."""
    (folder / "use.py").write_text(script, "utf-8")
    arguments = [sys.executable, "-I", str(folder / "use.py"), os.pathsep.join(map(str, places)), str(folder / "store")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(package: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line of the copy."""
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); from fourfold.cli.main import main; main()"
    command = [sys.executable, "-I", "-c", code, "--store", str(package.parent / "store"), *arguments]
    variables = {**os.environ, "XDG_CONFIG_HOME": str(package.parent), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)


def test_an_embedder_is_one_file_and_one_line(package: Path) -> None:
    (package / "embed" / "letters.py").write_text(EMBEDDER, "utf-8")
    factory = package / "embed" / "__init__.py"
    add_line(factory, "from fourfold.errors import", "from fourfold.embed.letters import letters\n")
    add_line(factory, '    "openai": lambda', '    "letters": lambda openai, provider: letters(),\n')
    for text in ("Harbour gate opens at six", "zzz"):
        assert run(package, "add", text, "--wait", FOURFOLD_EMBEDDER="letters").returncode == 0
    answer = run(package, "search", "harbor gates", "--only", "semantic", "--json", FOURFOLD_EMBEDDER="letters")
    assert json.loads(answer.stdout)["results"][0]["id"] == 1
    assert "letters" in run(package, "search", "x", FOURFOLD_EMBEDDER="no").stderr, "the remedy lists it"


def test_a_reader_is_one_function_and_one_line(package: Path) -> None:
    (package / "ingest" / "readers" / "outline.py").write_text(READER, "utf-8")
    add_line(
        package / "ingest" / "formats.py", '    Format("html", "html', '    Format("outline", "org", "outline.read"),\n'
    )
    folder = package.parent / "notes"
    folder.mkdir()
    sections = [f"* {name}\n" + f"Everything about {name.lower()} is kept here. " * 12 for name in ("Tyres", "Brakes")]
    (folder / "bikes.org").write_text("\n".join(sections) + "\n", "utf-8")
    assert run(package, "index", str(folder), FOURFOLD_EMBEDDER="none").returncode == 0
    answer = run(package, "search", "brakes", "--kind", "outline", "--json", FOURFOLD_EMBEDDER="none")
    first = json.loads(answer.stdout)["results"][0]
    assert (first["title"], first["metadata"]["line"]) == ("bikes › Brakes", 4)


# ---------------------------------------------------------------- a field: one line and one migration


FIELD_LINE = '    mood: Annotated[str | None, Column(help="Mood it was written in.", metavar="M")] = None\n'
FIELD_BEFORE = "    subject: Annotated["
FIELD_SCRIPT = """
import asyncio, json, os, sys
os.environ["FOURFOLD_EMBEDDER"] = "none"
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import fourfold
from fourfold import Memory, NewItem, Settings
from fourfold.cli.main import main
assert Path(fourfold.__file__).is_relative_to(sys.argv[1])
store, export = sys.argv[2], sys.argv[2] + ".jsonl"

def run(*arguments):
    try:
        main(["--store", store, *arguments])
    except SystemExit as left:
        assert not left.code, (arguments, left.code)

run("add", "Rain all day", "--mood", "calm")
with Memory.open(store, embedder="none") as memory:
    memory.add_many([NewItem(f"Note {n}", mood="glad") for n in range(150)])
    assert memory.list({"mood": "calm"})[0].mood == "calm"
    assert memory.count("mood = glad") == 150
    memory.add(NewItem("Rain all day", tags=("wet",)))
    assert memory.list("mood = calm")[0].tags == ("wet",), "united with the stored item, whose mood stays"
    memory.export(export)
with Memory.open(store + "-copy", embedder="none") as memory:
    memory.import_file(export)
    assert memory.count("mood = glad") == 150
    assert memory.check() == []

from mcp import Client
from fourfold.serve.mcp.server import build
from fourfold.wire import encode

async def tools():
    server, _ = build(lambda: Settings(store=store, embedder="none"), "all")
    async with Client(server) as client:
        await client.call_tool("store_memory", {"content": "Sun", "mood": "merry"})
        return {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}

described = asyncio.run(tools())["store_memory"]["mood"]
assert described == {"type": "string", "description": "Mood it was written in."}, described
with Memory.open(store, embedder="none") as memory:
    merry = memory.list("mood = merry")[0]
    assert encode(merry)["mood"] == "merry"
    from fourfold.wire import decode
    assert decode(type(merry), encode(merry)).mood == "merry"

from fourfold.serve.http.schemas import NewItemRequest
from fourfold.serve.http.schemas import ItemAnswer
assert NewItemRequest.model_json_schema()["properties"]["mood"]["description"] == "Mood it was written in."
assert "mood" in ItemAnswer.model_json_schema()["properties"]
run("get", str(merry.id))
"""


@pytest.fixture
def with_field(package: Path) -> Path:
    add_line(package / "fields.py", FIELD_BEFORE, FIELD_LINE)
    schema, last = package / "storage" / "sqlite" / "schema.py", "    _TYPES.ddl(shared.REQUESTS),\n"
    add_line(schema, last, '    "ALTER TABLE items ADD COLUMN mood TEXT",\n', after=True)
    return package.parent


@pytest.mark.spec("D9")
def test_field_is_found_everywhere_after_one_line_and_one_migration(with_field: Path, tmp_path: Path) -> None:
    assert "mood       merry" in use(FIELD_SCRIPT, tmp_path, with_field)
    records = [json.loads(line) for line in (tmp_path / "store.jsonl").read_text("utf-8").splitlines()]
    assert sum(record.get("mood") == "glad" for record in records) == 150


def test_reference_lists_the_field(with_field: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    script = tmp_path / "scripts" / "reference_tables.py"
    main = f"runpy.run_path({str(script)!r}, run_name='__main__')"
    command = [sys.executable, "-I", "-c", f"import sys, runpy; sys.path.insert(0, {str(with_field)!r}); {main}"]
    subprocess.run(command, check=True, timeout=60)
    assert "| `mood` | `None` | `--mood M` | Mood it was written in. |" in (
        tmp_path / "docs" / "reference.md"
    ).read_text("utf-8")
    assert "`mood`" in (tmp_path / "docs" / "reference-search.md").read_text("utf-8")


# ---------------------------------------------------------------- an operation: one method and one line


OPERATION_METHOD = '''
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
'''
OPERATION_LINE = """    Operation(
        "oldest",
        "GET /oldest",
        "List the oldest items",
        answer="items",
        paged=True,
        command="graph oldest",
        tool="oldest_memories",
    ),
"""
OPERATION_SCRIPT = """
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


def test_operation_is_found_everywhere_after_one_method_and_one_line(package: Path, tmp_path: Path) -> None:
    add_line(package / "engine" / "item_methods.py", "\n    def count(self", OPERATION_METHOD)
    add_line(package / "operations.py", "    # raw records\n", OPERATION_LINE)
    use(OPERATION_SCRIPT, tmp_path, package.parent, ROOT / "tests" / "support")


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

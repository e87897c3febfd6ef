"""A new field of items is one line of `fields.py` and one migration: everything else derives from it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE = '    mood: Annotated[str | None, Column(help="Mood it was written in.", metavar="M")] = None\n'
BEFORE = "    subject: Annotated["
SCRIPT = """
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
def package(tmp_path: Path) -> Path:
    """A copy of the package with one more field."""
    shutil.copytree(
        ROOT / "src" / "fourfold", tmp_path / "src" / "fourfold", ignore=shutil.ignore_patterns("__pycache__")
    )
    fields = tmp_path / "src" / "fourfold" / "fields.py"
    text = fields.read_text("utf-8")
    assert text.count(BEFORE) == 1
    fields.write_text(text.replace(BEFORE, LINE + BEFORE), "utf-8")
    schema = tmp_path / "src" / "fourfold" / "storage" / "sqlite" / "schema.py"
    text = schema.read_text("utf-8")
    last = "    _TYPES.ddl(shared.REQUESTS),\n"
    assert text.count(last) == 1
    schema.write_text(text.replace(last, f'{last}    "ALTER TABLE items ADD COLUMN mood TEXT",\n'), "utf-8")
    return tmp_path / "src"


@pytest.mark.spec("D9")
def test_field_is_found_everywhere_after_one_line_and_one_migration(package: Path, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    script.write_text(SCRIPT, "utf-8")
    arguments = [sys.executable, "-I", str(script), str(package), str(tmp_path / "store")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "mood       merry" in done.stdout
    records = [json.loads(line) for line in (tmp_path / "store.jsonl").read_text("utf-8").splitlines()]
    assert sum(record.get("mood") == "glad" for record in records) == 150


def test_reference_lists_the_field(package: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    script = tmp_path / "scripts" / "reference_tables.py"
    run = (
        f"import sys, runpy; sys.path.insert(0, {str(package)!r}); runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    subprocess.run([sys.executable, "-I", "-c", run], check=True, timeout=60)
    assert "| `mood` | `None` | `--mood M` | Mood it was written in. |" in (
        tmp_path / "docs" / "reference.md"
    ).read_text("utf-8")
    assert "`mood`" in (tmp_path / "docs" / "reference-search.md").read_text("utf-8")

"""What a tool wrote is stored completely; a damaged file is an error with its line, and nothing is stored."""

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fourfold import Memory
from fourfold.errors import DamagedStore, FourfoldError, InvalidItem, InvalidQuery, NotFound
from fourfold.integrations.chroma import open_collection
from fourfold.integrations.importers import FORMATS, ImportReport, import_from, read_foreign

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", embedder="none") as opened:
        yield opened


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that chromadb wrote."""
    import chromadb

    folder = tmp_path_factory.mktemp("chroma")
    client = chromadb.PersistentClient(str(folder), chromadb.Settings(anonymized_telemetry=False))
    notes = client.create_collection("notes", embedding_function=None)
    notes.add(
        ids=["a", "b", "c"],
        documents=["The boiler is serviced in May", "Der Schlüssel liegt unter der Matte", " "],
        metadatas=[{"tags": "heating, yearly", "page": 3}, {"title": "Schlüssel"}, {"page": 1}],
        embeddings=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    )
    other = client.create_collection("work", embedding_function=None)
    other.add(ids=["a"], documents=["Kestrel is the staging database"], embeddings=[[0.5, 0.5]])
    return folder


def place(name: str, chroma: Path) -> Path:
    fixtures = {
        "mem0": FIXTURES / "mem0.json", "basic-memory": FIXTURES / "basic-memory",
        "mcp-memory-service": FIXTURES / "mcp-memory-service.json", "chroma": chroma,
        "langchain-jsonl": FIXTURES / "langchain.jsonl", "claude-export": FIXTURES / "claude",
    }  # fmt: skip
    return fixtures[name]


def stored(memory: Memory) -> dict[str, Any]:
    """By text: what was stored."""
    return {item.text: item for item in memory.list(limit=1000)}


def edges(memory: Memory) -> set[tuple[str, str, str]]:
    nodes = [node.name for node in memory.nodes(limit=1000)]
    return {(edge.source, edge.relation, edge.target) for name in nodes for edge in memory.node(name).edges}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize("name", FORMATS)
def test_a_repeated_import_changes_nothing_and_a_dry_run_stores_nothing(name, memory, chroma):
    planned = import_from(memory, name, place(name, chroma), dry_run=True)
    assert memory.count() == 0
    assert planned.items > 0
    assert import_from(memory, name, place(name, chroma)) == planned
    once = memory.list(limit=1000)
    assert len(once) == planned.items
    assert import_from(memory, name, place(name, chroma)) == planned
    assert memory.list(limit=1000) == once


def test_mem0_keeps_texts_scopes_and_times(memory: Memory) -> None:
    file = FIXTURES / "mem0.json"
    rows = json.loads(file.read_text("utf-8"))["results"]
    assert import_from(memory, "mem0", file) == ImportReport(len(rows), 0, {})
    found = stored(memory)
    assert len(rows) == len(found) == 4
    for row in rows:
        item = found[row["memory"]]
        assert (item.key, item.kind) == (f"mem0:{row['id']}", "memory")
        assert item.created_at == utc(row["created_at"])
        scopes = {name: row[name] for name in ("user_id", "agent_id", "run_id", "role", "updated_at") if name in row}
        assert item.metadata == {**(row["metadata"] or {}), **scopes}


def test_mem0_keeps_categories_and_relations(memory: Memory, tmp_path: Path) -> None:
    """As its platform and its graph memory write them."""
    file = tmp_path / "export.json"
    rows = [
        {
            "id": "1",
            "memory": "Ada knows Bob",
            "categories": ["people"],
            "metadata": {},
            "created_at": "2026-01-01T00:00:00Z",
        },
        {"id": "2", "memory": "  ", "categories": None},
    ]
    relations = [
        {"source": "ada", "relationship": "knows", "target": "bob"},
        {"source": "-", "relation": "is", "destination": "x"},
    ]
    file.write_text(json.dumps({"results": rows, "relations": relations}), "utf-8")
    report = import_from(memory, "mem0", file)
    assert (report.items, report.relations) == (1, 1)
    assert list(report.left_out.values()) == [1, 1]
    assert stored(memory)["Ada knows Bob"].tags == ("people",)
    assert ("ada", "knows", "bob") in edges(memory)


def test_mcp_memory_service_keeps_texts_tags_types_and_times(memory: Memory) -> None:
    file = FIXTURES / "mcp-memory-service.json"
    rows = json.loads(file.read_text("utf-8"))["memories"]
    import_from(memory, "mcp-memory-service", file)
    found = stored(memory)
    assert len(found) == len(rows) == 3
    for row in rows:
        item = found[row["content"]]
        assert item.key == f"mcp-memory-service:{row['content_hash']}"
        assert set(item.tags) == set(row["tags"]) - {"untagged"}
        assert item.kind == (row["memory_type"] or "memory")
        assert item.created_at.timestamp() == row["created_at"]
        more = {name: row[name] for name in ("store", "export_source", "updated_at")}
        assert item.metadata == {**row["metadata"], **more}


def test_langchain_documents_keep_ids_and_metadata(memory: Memory) -> None:
    import_from(memory, "langchain-jsonl", FIXTURES / "langchain.jsonl")
    found = stored(memory)
    boiler, contract = found["The boiler is serviced in May"], found["Der Mietvertrag läuft\nbis 2029"]
    assert (boiler.key, boiler.tags, boiler.metadata) == ("boiler", ("heating",), {"tags": ["heating"], "page": 3})
    assert (contract.key, contract.title) == (None, "Mietvertrag")
    assert contract.metadata == {"title": "Mietvertrag", "source": "a.pdf"}


def test_chroma_keeps_all_collections_with_their_metadata(memory: Memory, chroma: Path) -> None:
    report = import_from(memory, "chroma", chroma / "chroma.sqlite3")
    assert report == ImportReport(3, 0, {"chunks without a text": 1, "vectors, which are computed again": 4})
    found = {item.key: item for item in memory.list()}
    assert set(found) == {"chroma:notes:a", "chroma:notes:b", "chroma:work:a"}
    assert found["chroma:notes:a"].tags == ("heating", "yearly")
    assert found["chroma:notes:a"].metadata == {"tags": "heating, yearly", "page": 3, "collection": "notes"}
    assert (found["chroma:notes:b"].title, found["chroma:work:a"].text) == (
        "Schlüssel",
        "Kestrel is the staging database",
    )


def test_claude_export_keeps_messages_in_order_with_speakers_and_times(memory: Memory, tmp_path: Path) -> None:
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for file in sorted((FIXTURES / "claude").iterdir()):
            made.write(file, f"data-2026-03-02/{file.name}")
        made.writestr("users.json", "[]")
    report = import_from(memory, "claude-export", archive)
    assert report == import_from(memory, "claude-export", FIXTURES / "claude")
    assert (report.items, report.relations) == (7, 0)
    assert report.left_out == {
        "files, which the export does not contain": 1,
        "blocks that are not text": 1,
        "messages without a text": 1,
    }
    talk = sorted(
        (item for item in memory.list({"metadata.conversation": {"exists": True}}) if item.title),
        key=lambda item: item.chunk_index,
    )
    assert [(item.kind, item.metadata["sender"], item.text) for item in talk] == [
        ("message", "human", "Should metrics go into Postgres?"),
        ("attachment", "human", "400 series, one per second\n"),
        ("message", "assistant", "Yes: partition by day.\n\nDrop partitions after 90 days."),
    ]
    assert talk[2].created_at == utc("2026-02-14T10:05:01.250000+00:00")
    assert [item.id for item in memory.around(talk[1].id)] == [item.id for item in talk]
    kinds = dict(memory.kinds())
    assert kinds == {"message": 3, "attachment": 1, "document": 1, "memory": 2}
    alone = read_foreign("claude-export", FIXTURES / "claude" / "conversations.json")
    assert len(alone.items) == 4


def test_basic_memory_keeps_titles_tags_observations_and_relations(memory: Memory) -> None:
    folder = FIXTURES / "basic-memory"
    report = import_from(memory, "basic-memory", folder)
    assert report == ImportReport(3, 5, {})
    found = {item.title: item for item in memory.list()}
    kestrel, checkout, decision = found["Kestrel"], found["Checkout"], found["Why Postgres"]
    assert kestrel.key == "basic-memory:projects/kestrel"
    assert (kestrel.kind, set(kestrel.tags)) == ("note", {"database", "shop", "postgres", "backup"})
    assert "- [ops] Backups at 02:40 #backup (nightly)" in kestrel.text
    assert not kestrel.text.startswith("---")
    assert (decision.kind, set(decision.tags)) == ("decision", {"database"})
    assert (checkout.metadata["permalink"], checkout.metadata["file"]) == ("projects/checkout", "projects/Checkout.md")
    assert edges(memory) >= {
        ("Kestrel", "used_by", "Checkout"),
        ("Kestrel", "chosen in", "Why Postgres"),
        ("Checkout", "depends_on", "Kestrel"),
        ("Why Postgres", "links_to", "Kestrel"),
        ("Why Postgres", "links_to", "Checkout"),
    }
    file = folder / "projects" / "Kestrel.md"
    assert kestrel.created_at == datetime.fromtimestamp(file.stat().st_mtime, UTC)
    expected = json.loads((FIXTURES / "basic-memory.json").read_text("utf-8"))  # what its own parser reads
    for item in found.values():
        seen = expected[item.metadata["file"]]
        assert set(item.tags) == {*seen["tags"], *seen["observed_tags"]}
        assert {edge[1:] for edge in edges(memory) if edge[0] == item.title} == {*map(tuple, seen["relations"])}
    alone = read_foreign("basic-memory", file)
    assert [item.title for item in alone.items] == ["Kestrel"]


def test_basic_memory_links_name_notes_and_code_has_none(tmp_path: Path) -> None:
    (tmp_path / "n.md").write_text(
        "---\ntitle: N\ndate: 2024-05-03\n---\n"
        "See [[Plan|the plan]], [[Plan#Costs]] and [[C# Basics]].\n- uses [[C#|csharp]]\n- [[#Costs]]\n- [[ ]]\n"
        "```bash\nif [[ -f file ]]; then\n```\n- needs [[Rust]]\n"
    )
    found = read_foreign("basic-memory", tmp_path)
    assert [(edge.relation, edge.target) for edge in found.edges] == [
        ("links_to", "Plan"),
        ("links_to", "Plan"),
        ("links_to", "C# Basics"),
        ("uses", "C#"),
        ("needs", "Rust"),
    ]
    assert found.items[0].created_at == datetime(2024, 5, 3, tzinfo=UTC)


def test_basic_memory_takes_the_time_of_the_front_matter(tmp_path: Path) -> None:
    note = tmp_path / "a.md"
    note.write_text(
        "---\ncreated: 2026-02-01T10:00:00+01:00\ntags: '#one, two'\nother: {deep: [1, 2026-01-01]}\n---\n", "utf-8"
    )
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / ".trash").mkdir()
    (tmp_path / ".trash" / "old.md").write_text("gone")
    found = read_foreign("basic-memory", tmp_path)
    (item,) = found.items
    assert (item.text, item.title, item.tags) == ("a", "a", ("one", "two"))
    assert item.created_at == datetime(2026, 2, 1, 9, tzinfo=UTC)
    assert item.metadata["other"] == {"deep": [1, "2026-01-01"]}
    assert found.left_out == {"empty notes": 1, "hidden files": 1}


# ---------------------------------------------------------------- damaged files


def damaged(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A copy of a fixture in which a text is replaced."""
    file = shutil.copy(FIXTURES / name, tmp_path / Path(name).name)
    text = Path(file).read_text("utf-8")
    assert text.count(old) >= 1
    Path(file).write_text(text.replace(old, new, 1), "utf-8")
    return Path(file)


DAMAGES = {
    ("mem0", "mem0.json"): [
        ('"role": "assistant"', '"role": assistant', r"mem0.json:25: not JSON"),
        ('"memory": "Noted', '"forgot": "Noted', r"mem0.json:15: 'memory' is missing"),
        ('"results"', '"other"', r"mem0.json:1: the key 'results' is missing"),
        ('"created_at": "20', '"created_at": "yesterday 20', r"mem0.json:3: 'created_at' is"),
    ],
    ("mcp-memory-service", "mcp-memory-service.json"): [
        ('"tags": [', '"tags": [7,', r"json:18: 'tags' is not a list"),
        ('"total_memories": 3', '"total_memories": 4', r"json:1: 3 mem"),
    ],
    ("langchain-jsonl", "langchain.jsonl"): [
        ('"lc": 1', '"lc": 1,', r"langchain.jsonl:2: not JSON"),
        ('"Document"], ', '"Prompt"], ', r"langchain.jsonl:2: a serialised object"),
        ("page_content", "content", r"langchain.jsonl:1: 'page_content' is missing"),
    ],
    ("claude-export", "claude/conversations.json"): [
        ('"uuid": "9c', '"id": "9c', r"conversations.json:48: 'uuid' is missing"),
        ("]\n  },\n  {", "]\n  }\n  {", r"conversations.json:48: not JSON"),
    ],
    ("basic-memory", "basic-memory/projects/Kestrel.md"): [
        ("title: Kestrel", "title: [", r"Kestrel.md:4: front matter"),
        ("\n---\n", "\n", r"Kestrel.md:1: the front matter has no end"),
    ],
}
"""By format and fixture: a text, what replaces it, and the message."""


@pytest.mark.parametrize(
    ("format", "fixture", "old", "new", "message"),
    [(*place, *damage) for place, damages in DAMAGES.items() for damage in damages],
)
def test_a_damaged_file_is_an_error_with_its_line_and_nothing_is_stored(
    memory: Memory, tmp_path: Path, format: str, fixture: str, old: str, new: str, message: str
) -> None:
    file = damaged(tmp_path, fixture, old, new)
    with pytest.raises(InvalidItem, match=message) as raised:
        import_from(memory, format, file)
    assert raised.value.remedy
    assert memory.count() == 0


def test_an_item_beyond_a_limit_is_an_error_with_its_line(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    lines = [json.dumps({"page_content": text, "metadata": {}}) for text in ("fine", "x" * 1_048_577)]
    file.write_text("\n".join(lines), "utf-8")
    with pytest.raises(InvalidItem, match=r"large.jsonl:2: title and text have more than"):
        import_from(memory, "langchain-jsonl", file)
    assert memory.count() == 0


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe{}", b"null", b"[1]", b"{}", b"[[[[", b'{"results": {}}', b"PK\x03\x04"]
)
def test_a_file_of_another_kind_is_a_typed_error_or_has_no_items(name, content, memory, tmp_path):
    file = tmp_path / ("export.zip" if content.startswith(b"PK") else "export.json")
    file.write_bytes(content)
    report = ImportReport(0, 0, {})
    with suppress(FourfoldError):  # any other error fails the test
        report = import_from(memory, name, file)
    assert memory.count() == report.items
    assert report.items == 0 or name == "basic-memory"


def test_a_damaged_chroma_is_a_typed_error(memory: Memory, chroma: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(chroma, tmp_path / "damaged")
    (folder / "chroma.sqlite3").write_bytes(b"no database" * 1000)
    with pytest.raises(DamagedStore, match="nothing was imported"):
        import_from(memory, "chroma", folder)
    assert memory.count() == 0


def test_changed_pages_of_a_chroma_are_typed_errors_or_harmless(memory: Memory, chroma: Path, tmp_path: Path) -> None:
    """Its native part panics for some of them, which is no Exception."""
    whole = (chroma / "chroma.sqlite3").read_bytes()
    failed: list[str] = []
    for page in range(1, len(whole) // 4096, 7):
        folder = shutil.copytree(chroma, tmp_path / f"changed{page}")
        (folder / "chroma.sqlite3").write_bytes(whole[: 4096 * page] + b"\xa5" * 4096 + whole[4096 * (page + 1) :])
        try:
            import_from(memory, "chroma", folder, dry_run=True)
            open_collection(folder, "notes").count()
        except FourfoldError as error:
            failed.append(str(error))
    assert any("PanicException" in each or "Chroma failed" in each for each in failed), failed


def test_an_unknown_format_or_path_says_what_there_is(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="mem0, basic-memory, mcp-memory-service, chroma"):
        import_from(memory, "obsidian", tmp_path)
    for name in FORMATS:
        with pytest.raises(FourfoldError):
            import_from(memory, name, tmp_path / "missing")
    with pytest.raises(NotFound, match=r"conversations\.json"):
        import_from(memory, "claude-export", tmp_path)


# ---------------------------------------------------------------- the command line


def fourfold(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "FOURFOLD_STORE": str(store), "FOURFOLD_EMBEDDER": "none"}
    command = [sys.executable, "-m", "fourfold", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_the_command_reports_what_was_stored_and_what_was_left_out(tmp_path: Path) -> None:
    source = str(FIXTURES / "claude")
    planned = fourfold(tmp_path, "import", "--from", "claude-export", "--dry-run", source)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert planned.stdout.splitlines()[0] == "would import 7 items, 0 relations"
    assert not (tmp_path / "fourfold.db").exists()
    done = fourfold(tmp_path, "import", "--from", "claude-export", source)
    assert done.stdout.splitlines() == [
        "imported 7 items, 0 relations",
        "left out 1: files, which the export does not contain",
        "left out 1: blocks that are not text",
        "left out 1: messages without a text",
    ]
    wrong = fourfold(tmp_path, "import", "--from", "mem0", str(FIXTURES / "langchain.jsonl"))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "langchain.jsonl:1: the key 'results' is missing" in wrong.stderr
    refused = fourfold(tmp_path, "import", "--dry-run", str(FIXTURES / "langchain.jsonl"))
    assert (refused.returncode, "--from only" in refused.stderr) == (1, True)


def test_an_archive_is_refused_before_it_is_unpacked(memory: Memory, tmp_path: Path) -> None:
    packed = tmp_path / "export.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("conversations.json", "w") as part:
        for _ in range(80):
            part.write(b" " * (1 << 20))
    assert packed.stat().st_size < 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(InvalidItem, match="too many bytes"):
            import_from(memory, "claude-export", packed)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
@pytest.mark.parametrize("name", ["mem0", "mcp-memory-service", "langchain-jsonl", "claude-export"])
def test_a_file_without_an_end_is_refused(memory: Memory, name: str) -> None:
    with pytest.raises(FourfoldError):
        import_from(memory, name, Path("/dev/zero"))

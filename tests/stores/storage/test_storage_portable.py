"""Export and import, backup and restore, check and repair."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from concurrently import results
from engine_support import NOTES, Opener, ids, notes, row_counts, scored, texts

from fourfold import FourfoldError, ItemPatch, Memory, NewItem, Settings
from fourfold.errors import DamagedStore, InvalidItem, InvalidVector, NewerSchema, RequestError, StoreUnavailable
from fourfold.storage.sql.dialect import light_pages
from fourfold.storage.sqlite import store as sqlite_store
from fourfold.storage.values import Pace

QUERIES = ("router settings", "Maria waters plants", "office printer", "Drucker Papier", "Blue Lagoon")


def fill(memory: Memory) -> None:
    """Stores a record of every kind."""
    raw = memory.add_raw("An original\nof two lines", "Maria", "s1", {"turn": 4})
    memory.add_many(NOTES, wait=True)
    memory.add_many(
        [
            NewItem("Open from ten", title="Blue Lagoon", key="lagoon", metadata={"ü": [1, None, {"x": 2.5}]}),
            NewItem(
                "We met at the Blue Lagoon", source_ids=(raw.id,), created_at=datetime(1999, 12, 31, 23, tzinfo=UTC)
            ),
            NewItem("a chunk", path="docs/ä.md", chunk_index=2, language="de", kind="page"),
            NewItem("\u2028line separators\u2029 and \x1b[31mcontrols\x7f"),
            NewItem("gone soon"),
        ],
        wait=True,
    )
    memory.add_node("Maria Lopez", "person", ["Mary"], {"born": 1980}, item=1)
    memory.add_edge("Maria Lopez", "likes", "Blue Lagoon", 0.25)
    memory.forget([memory.search("gone soon", only=["keyword"]).results[0].id])
    memory.update("key:lagoon", ItemPatch(text="Open from nine"), wait=True)
    memory.index()


def answers(memory: Memory) -> list[Any]:
    return [
        [(result.item, round(result.score, 9)) for result in memory.search(query, top_k=100).results]
        for query in QUERIES
    ]


# ---------------------------------------------------------------- export and import


@pytest.mark.spec("B9")
def test_export_import_export_gives_the_same_bytes_and_the_same_answers(opened: Opener, tmp_path: Path) -> None:
    memory = opened()
    fill(memory)
    other_namespace = opened(namespace="private")
    other_namespace.add("mine", wait=True)
    counts = memory.export(tmp_path / "a.jsonl")
    assert counts["item"] == len(NOTES) + 5
    assert counts["raw"] == 1
    assert counts["edge"] == 1
    again = opened("again")
    assert again.import_file(tmp_path / "a.jsonl") == counts
    again.export(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert answers(again) == answers(memory)
    assert again.namespaces() == memory.namespaces()
    assert again.neighbors("Mary") == memory.neighbors("Mary")
    assert again.check() == []
    assert again.repair()
    assert answers(again) == answers(memory)


@pytest.mark.spec("B9")
def test_an_export_is_sorted_json_lines_in_utc(opened: Opener, tmp_path: Path) -> None:
    memory = opened()
    fill(memory)
    memory.export(tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text("utf-8").split("\n")
    assert lines.pop() == ""
    records = [json.loads(line) for line in lines]
    assert records[0] == {"type": "fourfold-export", "format": 1}
    order = ["fourfold-export", "namespace", "raw", "item", "node", "edge", "mention", "version"]
    assert [record["type"] for record in records] == sorted((r["type"] for r in records), key=order.index)
    for record in records:
        if "created_at" in record:
            assert datetime.fromisoformat(record["created_at"]).utcoffset() == UTC.utcoffset(None)


@pytest.mark.spec("B9", "B11")
def test_pending_links_are_found_after_an_import(opened: Opener, tmp_path: Path, tuning: dict[str, Any]) -> None:
    tuning["pace"] = Pace(quiet_seconds=3600)
    memory = opened()
    memory.add("We met at the Lagoon Number Seven")
    memory.add_many([NewItem(f"text {n}", title=f"Lagoon Number {word}") for n, word in enumerate(WORDS)])
    memory.export(tmp_path / "a.jsonl")  # before older texts were searched for the new names
    again = opened("again")
    again.import_file(tmp_path / "a.jsonl")
    again.index()
    assert 1 in ids(again.search("Lagoon Number Seven", only=["graph"]))


WORDS = [first + second for first in ("Seven", "Nine", "Twelve", "Forty") for second in ("", *"abcdefghijk")]


DAMAGES: dict[str, dict[str, Any] | str] = {
    "not an object": "[1, 2]",
    "nested": "[" * 100_000,
    "binary": "\udcff",
    "not JSON": '{"type": "item", "id": 1',
    "unknown type": {"type": "thing"},
    "surrogate": {"text": "\ud800"},
}
"""What replaces the record of the first item, or fields of it. Records are in conformance/test_store_rules."""


def damage(records: list[Any], change: str) -> list[str]:
    """An export with one defect."""
    item = next(record for record in records if record["type"] == "item")
    lines, place = [json.dumps(record) for record in records], records.index(item)
    if change == "id twice":
        return [*lines[:place], lines[place], *lines[place:]]
    replaced = DAMAGES[change]
    lines[place] = replaced if isinstance(replaced, str) else json.dumps(item | replaced)
    return lines


@pytest.mark.spec("B9", "S1.8")
@pytest.mark.parametrize("change", [*DAMAGES, "id twice"])
def test_a_damaged_export_is_refused_as_a_whole_with_the_line(opened: Opener, tmp_path: Path, change: str) -> None:
    memory = opened()
    memory.add_many(NOTES[:3], wait=True)
    memory.add(NewItem("more", title="Heading"), wait=True)
    memory.export(tmp_path / "a.jsonl")
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    lines = damage(records, change)
    (tmp_path / "b.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    again = opened("again")
    before = row_counts(tmp_path / "again")
    with pytest.raises(FourfoldError) as raised:
        again.import_file(tmp_path / "b.jsonl")
    assert raised.value.remedy
    wrong = 4 if change == "id twice" else 3
    assert f":{wrong}: " in raised.value.message
    assert row_counts(tmp_path / "again") == before
    again.import_file(tmp_path / "a.jsonl")
    assert texts(again.search("printer router", only=["keyword"]))


@pytest.mark.spec("B9")
def test_a_part_of_an_export_is_not_taken_for_rows(opened: Opener, tmp_path: Path) -> None:
    memory, fresh = opened(), opened("fresh")
    memory.within("other").add("text")
    memory.export(tmp_path / "whole")
    items = [line for line in (tmp_path / "whole").read_text().splitlines() if '"type":"item"' in line.replace(" ", "")]
    (tmp_path / "part").write_text("\n".join(items))
    with pytest.raises(InvalidItem, match="header is missing"):
        fresh.import_file(tmp_path / "part")
    assert fresh.namespaces() == [] or sum(count for _, count in fresh.namespaces()) == 0


@pytest.mark.spec("B9")
def test_an_export_of_a_newer_format_is_refused(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type":"fourfold-export","format":99}\n{"type":"future"}\n')
    memory = opened()
    with pytest.raises(NewerSchema) as raised:
        memory.import_file(tmp_path / "a.jsonl")
    assert raised.value.remedy


@pytest.mark.spec("B9")
def test_an_export_is_never_half_written(opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = opened()
    memory.add_many(notes(30))
    target = tmp_path / "a.jsonl"
    target.write_text("precious")
    records = sqlite_store.export_records

    def breaking(*args: Any) -> Any:
        for number, record in enumerate(records(*args)):
            if number == 10:
                raise DamagedStore("a page is broken", "Restore a backup")
            yield record

    monkeypatch.setattr(sqlite_store, "export_records", breaking)
    with pytest.raises(DamagedStore):
        memory.export(target)
    assert target.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.jsonl"]
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable):
        memory.export(tmp_path / "no" / "such" / "folder" / "a.jsonl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnavailable):
        memory.export(tmp_path / "folder")
    assert memory.export(target)["item"] == 30


# ---------------------------------------------------------------- rows from other tools


@pytest.mark.spec("B9")
def test_rows_of_other_tools_are_imported(opened: Opener, tmp_path: Path) -> None:
    rows = [
        {"_id": "d1", "title": "BEIR", "text": "a document of a benchmark"},
        {"id": 7, "text": "an id of a number"},
        {"key": "k", "_id": "ignored", "text": "a key of its own", "tags": ["a", "B"], "kind": "fact"},
        {"text": "with everything", "metadata": {"n": 1}, "created_at": "2020-02-02T02:02:02", "language": "en"},
        {"title": "only a title"},
        {"text": "own vector", "embedding": [1.0] + [0.0] * 31},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\ufeff" + "\n\n".join(json.dumps(row) for row in rows), "utf-8")
    memory = opened()
    assert memory.import_file(file) == {"item": 6}
    assert [item.text for item in memory.get(["key:d1", "key:7", "key:k"])] == [
        "a document of a benchmark",
        "an id of a number",
        "a key of its own",
    ]
    (item,) = memory.get(["key:k"])
    assert (item.tags, item.kind) == (("B", "a"), "fact")
    dated = next(item for item in memory.list() if item.text == "with everything")
    assert dated.created_at == datetime(2020, 2, 2, 2, 2, 2, tzinfo=UTC)
    assert dict(dated.metadata) == {"n": 1}
    assert memory.import_file(file) == {"item": 6}  # again: the same items
    assert memory.count() == 6


BAD_ROWS = {
    "not JSON": "{",
    "not an object": "5",
    "empty": "{}",
    "blank": '{"text": "  "}',
    "text": '{"text": 5}',
    "tags": '{"text": "x", "tags": "a"}',
    "tag": '{"text": "x", "tags": [5]}',
    "NUL": '{"text": "a\\u0000b"}',
    "surrogate": '{"text": "\\ud800"}',
    "time": '{"text": "x", "created_at": "soon"}',
    "time number": '{"text": "x", "created_at": 5}',
    "metadata": '{"text": "x", "metadata": ["ab"]}',
    "NaN": '{"text": "x", "metadata": {"n": NaN}}',
    "vector NaN": '{"text": "x", "embedding": [NaN, 1]}',
    "vector words": '{"text": "x", "embedding": "abc"}',
    "nested": "[" * 100_000,
}


@pytest.mark.spec("B9", "S1.8")
@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_broken_line_names_its_line_and_is_skipped_on_request_only(opened: Opener, tmp_path: Path, name: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "one"}\n\n{"text": "two"}\n' + BAD_ROWS[name] + '\n{"text": "three"}\n')
    memory = opened()
    with pytest.raises(RequestError) as raised:
        memory.import_file(file)
    assert "rows.jsonl:4: " in raised.value.message
    assert "nothing is stored" in raised.value.remedy
    assert memory.list() == []
    skipped: list[str] = []
    assert memory.import_file(file, skip=skipped.append) == {"item": 3}
    assert skipped == [raised.value.message]
    assert [item.text for item in memory.list()] == ["three", "two", "one"]


@pytest.mark.spec("B9", "S1.6")
def test_vectors_of_the_wrong_dimension_name_their_lines(opened: Opener, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "one", "embedding": [1, 0]}\n{"text": "two", "embedding": [1, 0, 0]}\n')
    memory = opened(embedder="none")
    with pytest.raises(InvalidVector, match=r"rows\.jsonl:2: "):
        memory.import_file(file)
    assert memory.count() == 0


@pytest.mark.spec("B9")
def test_a_row_that_the_store_refuses_is_known_before_anything_is_stored(opened: Opener, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [f'{{"text": "note {number}"}}' for number in range(1500)]
    file.write_text("\n".join([*rows, '{"text": "key AKIAIOSFODNN7EXAMPLF"}', '{"text": ""}', rows[0]]))
    memory = opened(settings=Settings(secrets="refuse"))
    with pytest.raises(RequestError, match=r"rows\.jsonl:1501: .*") as raised:
        memory.import_file(file)
    assert "2 rows are invalid" in raised.value.remedy
    assert memory.count() == 0
    skipped: list[str] = []
    memory.import_file(file, skip=skipped.append)
    assert [problem.split(": ")[0] for problem in skipped] == ["rows.jsonl:1501", "rows.jsonl:1502"]
    assert memory.count() == 1500


@pytest.mark.parametrize("name", [".", "nothing.jsonl"])
def test_an_unreadable_file_is_named_in_the_error(opened: Opener, tmp_path: Path, name: str) -> None:
    memory = opened()
    with pytest.raises(InvalidItem) as raised:
        memory.import_file(tmp_path / name)
    assert raised.value.remedy


def test_an_empty_file_imports_nothing(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n\n")
    assert opened().import_file(tmp_path / "a.jsonl") == {"item": 0}


# ---------------------------------------------------------------- backup, restore, check, repair


@pytest.mark.spec("B9")
def test_a_restored_backup_gives_the_same_answers(opened: Opener, tmp_path: Path) -> None:
    memory = opened()
    fill(memory)
    memory.backup(tmp_path / "backup.db")
    expected = answers(memory)
    memory.add_many(notes(5))  # the backup does not contain later items
    Memory.restore(tmp_path / "backup.db", tmp_path / "again")
    again = opened("again")
    assert answers(again) == expected
    assert again.check() == []
    again_count = again.count()
    again.add("life goes on", wait=True)
    assert again.count() == again_count + 1


@pytest.mark.spec("B9")
def test_a_restored_store_does_not_use_indexes_of_a_later_state(opened: Opener, tmp_path: Path) -> None:
    """The database is restored into a folder that has newer indexes."""
    memory = opened()
    memory.add_many(notes(20), wait=True)
    memory.backup(tmp_path / "backup.db")
    expected = scored(memory.search("the heron met", top_k=100))
    memory.forget(list(range(1, 11)))
    memory.add_many(notes(15, "later"), wait=True)
    memory.index()
    memory.close()
    for path in (tmp_path / "store").glob("fourfold.db*"):
        path.unlink()
    Memory.restore(tmp_path / "backup.db", tmp_path / "store")
    again = opened()
    again.add("a kingfisher", wait=True)
    again.forget([21])
    assert scored(again.search("the heron met", top_k=100)) == expected
    assert again.check() == []


@pytest.mark.spec("B9")
def test_backup_and_restore_never_overwrite(opened: Opener, tmp_path: Path) -> None:
    memory = opened()
    memory.add("heron")
    memory.backup(tmp_path / "backup.db")
    with pytest.raises(RequestError, match="exists"):
        memory.backup(tmp_path / "backup.db")
    with pytest.raises(FourfoldError):
        memory.backup(tmp_path / "no" / "folder" / "backup.db")
    with pytest.raises(RequestError, match="holds a store"):
        Memory.restore(tmp_path / "backup.db", tmp_path / "store")
    with pytest.raises(RequestError, match="no backup"):
        Memory.restore(tmp_path / "nothing.db", tmp_path / "new")
    (tmp_path / "wrong.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(DamagedStore):
        Memory.restore(tmp_path / "wrong.db", tmp_path / "new")
    Memory.restore(tmp_path / "backup.db", tmp_path / "new")
    assert texts(opened("new").search("heron", only=["keyword"])) == ["heron"]


@pytest.mark.spec("B9")
def test_a_backup_is_consistent_while_others_write(opened: Opener, tmp_path: Path) -> None:
    memory, other = opened(), opened()
    memory.add_many(notes(20))
    results(lambda: memory.backup(tmp_path / "backup.db"), lambda: other.add_many(notes(20, "second"), wait=True))
    Memory.restore(tmp_path / "backup.db", tmp_path / "again")
    again = opened("again")
    assert again.count() in (20, 40)
    assert again.check() == []


def test_pages_end_with_the_row_that_makes_them_heavy() -> None:
    rows = [1, 1, 1, 5_000_000, 5_000_000, 1, 9_000_000, 1]
    assert list(light_pages(rows, 3, lambda weight: weight)) == [[1, 1, 1], [5_000_000, 5_000_000], [1, 9_000_000], [1]]

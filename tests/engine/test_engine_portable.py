"""Export and import, backup and restore, check and repair."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from engine_support import NOTES, Opener, WordEmbedder, ids, notes, row_counts, scored, texts

from fourfold.errors import (
    DamagedStore,
    FourfoldError,
    InvalidItem,
    InvalidVector,
    NewerSchema,
    RequestError,
    StoreUnavailable,
)
from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, NewItem

QUERIES = ("router settings", "Maria waters plants", "office printer", "Drucker Papier", "Blue Lagoon")


async def fill(memory: Memory) -> None:
    """Something of every kind."""
    raw = await memory.add_raw("An original\nof two lines", "Maria", "s1", {"turn": 4})
    await memory.add_many(NOTES, wait=True)
    await memory.add_many(
        [
            NewItem("Open from ten", title="Blue Lagoon", key="lagoon", metadata={"ü": [1, None, {"x": 2.5}]}),
            NewItem(
                "We met at the Blue Lagoon", source_ids=(raw.id,), created_at=datetime(1999, 12, 31, 23, tzinfo=UTC)
            ),
            NewItem("a chunk", path="docs/ä.md", chunk_index=2, language="de", kind="page"),
            NewItem("\u2028line separators\u2029 and \x1b[31mcontrols\x7f"),
            NewItem("gone soon"),
        ]
    )
    await memory.add_node("Maria Lopez", "person", ["Mary"], {"born": 1980}, item=1)
    await memory.add_edge("Maria Lopez", "likes", "Blue Lagoon", 0.25)
    await memory.forget([(await memory.search("gone soon", only=["keyword"])).results[0].id])
    await memory.update("key:lagoon", ItemPatch(text="Open from nine"))
    await memory.index()


async def answers(memory: Memory) -> list[Any]:
    return [
        [(result.item, round(result.score, 9)) for result in (await memory.search(query, top_k=100)).results]
        for query in QUERIES
    ]


# ---------------------------------------------------------------- export and import


@pytest.mark.spec("B9")
async def test_export_import_export_gives_the_same_bytes_and_the_same_answers(opened: Opener, tmp_path: Path) -> None:
    memory = await opened()
    await fill(memory)
    other_namespace = await opened(namespace="private")
    await other_namespace.add("mine", wait=True)
    counts = await memory.export(tmp_path / "a.jsonl")
    assert counts["item"] == len(NOTES) + 5
    assert counts["raw"] == 1
    assert counts["edge"] == 1
    again = await opened("again")
    assert await again.import_file(tmp_path / "a.jsonl") == counts
    await again.export(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert await answers(again) == await answers(memory)
    assert await again.namespaces() == await memory.namespaces()
    assert await again.neighbors("Mary") == await memory.neighbors("Mary")
    assert await again.check() == []


@pytest.mark.spec("B9")
async def test_an_export_is_sorted_json_lines_in_utc(opened: Opener, tmp_path: Path) -> None:
    memory = await opened()
    await fill(memory)
    await memory.export(tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text("utf-8").split("\n")
    assert lines.pop() == ""
    records = [json.loads(line) for line in lines]
    assert records[0] == {"type": "fourfold-export", "format": 1}
    order = ["fourfold-export", "namespace", "raw", "item", "node", "edge", "mention"]
    assert [record["type"] for record in records] == sorted((r["type"] for r in records), key=order.index)
    for record in records:
        if "created_at" in record:
            assert datetime.fromisoformat(record["created_at"]).utcoffset() == UTC.utcoffset(None)


@pytest.mark.spec("B9")
async def test_what_was_imported_goes_on_living(opened: Opener, tmp_path: Path) -> None:
    """Identity, queue, links and ids work on as if nothing had happened."""
    memory = await opened(embedder="none")
    await fill(memory)
    await memory.export(tmp_path / "a.jsonl")
    again = await opened("again")
    await again.import_file(tmp_path / "a.jsonl")
    same = await again.add(NewItem("Open from eight", key="lagoon"))
    assert same.id == (await memory.get(["key:lagoon"]))[0].id
    assert (await again.add("Maria waters the plants on Monday")).id == 5
    fresh = await again.add("At the Blue Lagoon again")
    assert fresh.id > max(item.id for item in await memory.list())
    assert fresh.id in ids(await again.search("Blue Lagoon", only=["graph"]))
    await again.embed_pending()
    assert (await again.search("router")).degraded == ()
    assert await again.check() == []


@pytest.mark.spec("B9", "B11")
async def test_links_that_were_still_to_be_found_are_found_after_an_import(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fourfold.upkeep._QUIET_SECONDS", 3600)
    memory = await opened()
    await memory.add("We met at the Lagoon Number Seven")
    await memory.add_many([NewItem(f"text {n}", title=f"Lagoon Number {word}") for n, word in enumerate(WORDS)])
    await memory.export(tmp_path / "a.jsonl")  # before the many new names were looked for in older texts
    again = await opened("again")
    await again.import_file(tmp_path / "a.jsonl")
    await again.index()
    assert 1 in ids(await again.search("Lagoon Number Seven", only=["graph"]))


WORDS = [first + second for first in ("Seven", "Nine", "Twelve", "Forty") for second in ("", *"abcdefghijk")]


@pytest.mark.spec("B9")
async def test_an_export_goes_into_an_empty_store_only(opened: Opener, tmp_path: Path) -> None:
    memory = await opened()
    await memory.add("heron", wait=True)
    await memory.export(tmp_path / "a.jsonl")
    before = row_counts(tmp_path / "store")
    with pytest.raises(RequestError, match="not empty"):
        await memory.import_file(tmp_path / "a.jsonl")
    assert row_counts(tmp_path / "store") == before


def damage(records: list[Any], change: str) -> list[str]:
    """An export of `fill`, with one thing wrong."""
    item = next(record for record in records if record["type"] == "item")
    lines = [json.dumps(record) for record in records]
    place = records.index(item)
    match change:
        case "not JSON":
            lines[place] = lines[place][:-5]
        case "not an object":
            lines[place] = "[1, 2]"
        case "nested":
            lines[place] = "[" * 100_000
        case "binary":
            lines[place] = "\udcff"
        case "unknown type":
            lines[place] = json.dumps({**item, "type": "thing"})
        case "no id":
            lines[place] = json.dumps({name: data for name, data in item.items() if name != "id"})
        case "id twice":
            lines.insert(place, lines[place])
        case "id of a wrong type":
            lines[place] = json.dumps({**item, "id": "seven"})
        case "text of a wrong type":
            lines[place] = json.dumps({**item, "text": 5})
        case "NUL":
            lines[place] = json.dumps({**item, "text": "a\x00b"})
        case "surrogate":
            lines[place] = json.dumps({**item, "text": "\ud800"})
        case "time":
            lines[place] = json.dumps({**item, "created_at": "yesterday"})
        case "vector cut":
            lines[place] = json.dumps({**item, "vector": item["vector"][:40]})
        case "vector no base64":
            lines[place] = json.dumps({**item, "vector": "???"})
        case "vector NaN":
            lines[place] = json.dumps({**item, "vector": "AADAfwAAwH8AAMB/" * 10 + "AADAfwAAwH8="})
        case "unknown source":
            lines[place] = json.dumps({**item, "source_ids": [99]})
        case "unknown node":
            lines.append(json.dumps({"type": "mention", "namespace": "default", "item": 1, "node": 99}))
        case "unknown edge":
            lines.append(
                json.dumps(
                    {"type": "edge", "namespace": "default", "source": 1, "relation": "r", "target": 99, "weight": 1}
                )
            )
    return lines


DAMAGES = (
    "not JSON|not an object|nested|binary|unknown type|no id|id twice|id of a wrong type|text of a wrong type|NUL|"
    "surrogate|time|vector cut|vector no base64|vector NaN|unknown source|unknown node|unknown edge"
)


@pytest.mark.spec("B9", "S1.8")
@pytest.mark.parametrize("change", DAMAGES.split("|"))
async def test_a_damaged_export_is_refused_as_a_whole_with_the_line(
    opened: Opener, tmp_path: Path, change: str
) -> None:
    memory = await opened()
    await memory.add_many(NOTES[:3], wait=True)
    await memory.add(NewItem("more", title="Heading"), wait=True)
    await memory.export(tmp_path / "a.jsonl")
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    lines = damage(records, change)
    (tmp_path / "b.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogateescape"))
    again = await opened("again")
    before = row_counts(tmp_path / "again")
    with pytest.raises(FourfoldError) as raised:
        await again.import_file(tmp_path / "b.jsonl")
    assert raised.value.remedy
    wrong = {"unknown node": len(lines), "unknown edge": len(lines), "id twice": 4}.get(change, 3)
    assert f":{wrong}: " in raised.value.message
    assert row_counts(tmp_path / "again") == before
    await again.import_file(tmp_path / "a.jsonl")
    assert texts(await again.search("printer router", only=["keyword"]))


@pytest.mark.spec("B9")
async def test_a_part_of_an_export_is_not_taken_for_rows(opened: Opener, tmp_path: Path) -> None:
    memory, fresh = await opened(), await opened("fresh")
    await memory.within("other").add("text")
    await memory.export(tmp_path / "whole")
    items = [line for line in (tmp_path / "whole").read_text().splitlines() if '"type":"item"' in line.replace(" ", "")]
    (tmp_path / "part").write_text("\n".join(items))
    with pytest.raises(InvalidItem, match="header is missing"):
        await fresh.import_file(tmp_path / "part")
    assert await fresh.namespaces() == [] or sum(count for _, count in await fresh.namespaces()) == 0


@pytest.mark.spec("B9")
async def test_an_export_of_a_newer_format_is_refused(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"type":"fourfold-export","format":99}\n{"type":"future"}\n')
    memory = await opened()
    with pytest.raises(NewerSchema) as raised:
        await memory.import_file(tmp_path / "a.jsonl")
    assert raised.value.remedy


@pytest.mark.spec("B9")
async def test_an_export_is_never_half_written(opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = await opened()
    await memory.add_many(notes(30))
    target = tmp_path / "a.jsonl"
    target.write_text("precious")
    from fourfold.stores.sqlite import portable

    records = portable.records

    def breaking(db: Any) -> Any:
        for number, record in enumerate(records(db)):
            if number == 10:
                raise DamagedStore("a page is broken", "Restore a backup")
            yield record

    monkeypatch.setattr(portable, "records", breaking)
    with pytest.raises(DamagedStore):
        await memory.export(target)
    assert target.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.jsonl"]
    monkeypatch.undo()
    with pytest.raises(StoreUnavailable):
        await memory.export(tmp_path / "no" / "such" / "folder" / "a.jsonl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreUnavailable):
        await memory.export(tmp_path / "folder")
    assert (await memory.export(target))["item"] == 30


# ---------------------------------------------------------------- rows of others


@pytest.mark.spec("B9")
async def test_rows_of_other_peoples_files_are_imported(opened: Opener, tmp_path: Path) -> None:
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
    memory = await opened()
    assert await memory.import_file(file) == {"item": 6}
    assert [item.text for item in await memory.get(["key:d1", "key:7", "key:k"])] == [
        "a document of a benchmark",
        "an id of a number",
        "a key of its own",
    ]
    (item,) = await memory.get(["key:k"])
    assert (item.tags, item.kind) == (("B", "a"), "fact")
    dated = next(item for item in await memory.list() if item.text == "with everything")
    assert dated.created_at == datetime(2020, 2, 2, 2, 2, 2, tzinfo=UTC)
    assert dict(dated.metadata) == {"n": 1}
    assert await memory.import_file(file) == {"item": 6}  # again: the same items
    assert await memory.count() == 6


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
async def test_a_broken_line_names_its_line_and_the_rows_before_it_are_stored(
    opened: Opener, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "one"}\n\n{"text": "two"}\n' + BAD_ROWS[name] + '\n{"text": "three"}\n')
    memory = await opened()
    with pytest.raises(RequestError) as raised:
        await memory.import_file(file)
    assert "rows.jsonl:4: " in raised.value.message
    assert raised.value.remedy
    assert [item.text for item in await memory.list()] == ["two", "one"]


@pytest.mark.spec("B9", "S1.6")
async def test_vectors_of_the_wrong_dimension_name_their_lines(opened: Opener, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"text": "one", "embedding": [1, 0]}\n{"text": "two", "embedding": [1, 0, 0]}\n')
    memory = await opened(embedder="none")
    with pytest.raises(InvalidVector, match=r"rows\.jsonl:1-2: "):
        await memory.import_file(file)
    assert await memory.count() == 0


@pytest.mark.parametrize("name", [".", "nothing.jsonl"])
async def test_a_file_that_cannot_be_read_is_said(opened: Opener, tmp_path: Path, name: str) -> None:
    memory = await opened()
    with pytest.raises(InvalidItem) as raised:
        await memory.import_file(tmp_path / name)
    assert raised.value.remedy


async def test_an_empty_file_holds_nothing(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n\n")
    assert await (await opened()).import_file(tmp_path / "a.jsonl") == {"item": 0}


# ---------------------------------------------------------------- backup, restore, check, repair


@pytest.mark.spec("B9")
async def test_a_restored_backup_gives_the_same_answers(opened: Opener, tmp_path: Path) -> None:
    memory = await opened()
    await fill(memory)
    await memory.backup(tmp_path / "backup.db")
    expected = await answers(memory)
    await memory.add_many(notes(5))  # what came later is not in it
    await Memory.restore(tmp_path / "backup.db", tmp_path / "again")
    again = await opened("again")
    assert await answers(again) == expected
    assert await again.check() == []
    again_count = await again.count()
    await again.add("life goes on", wait=True)
    assert await again.count() == again_count + 1


@pytest.mark.spec("B9")
async def test_a_restored_store_does_not_believe_the_indexes_of_a_later_one(opened: Opener, tmp_path: Path) -> None:
    """The database was moved away, and its folder, with newer indexes, stayed."""
    memory = await opened()
    await memory.add_many(notes(20), wait=True)
    await memory.backup(tmp_path / "backup.db")
    expected = scored(await memory.search("the heron met", top_k=100))
    await memory.forget(list(range(1, 11)))
    await memory.add_many(notes(15, "later"), wait=True)
    await memory.index()
    await memory.close()
    for path in (tmp_path / "store").glob("fourfold.db*"):
        path.unlink()
    await Memory.restore(tmp_path / "backup.db", tmp_path / "store")
    again = await opened()
    await again.add("a kingfisher", wait=True)
    await again.forget([21])
    assert scored(await again.search("the heron met", top_k=100)) == expected
    assert await again.check() == []


@pytest.mark.spec("B9")
async def test_backups_replace_nothing_and_restoring_replaces_nothing(opened: Opener, tmp_path: Path) -> None:
    memory = await opened()
    await memory.add("heron")
    await memory.backup(tmp_path / "backup.db")
    with pytest.raises(RequestError, match="exists"):
        await memory.backup(tmp_path / "backup.db")
    with pytest.raises(FourfoldError):
        await memory.backup(tmp_path / "no" / "folder" / "backup.db")
    with pytest.raises(RequestError, match="holds a store"):
        await Memory.restore(tmp_path / "backup.db", tmp_path / "store")
    with pytest.raises(RequestError, match="no backup"):
        await Memory.restore(tmp_path / "nothing.db", tmp_path / "new")
    (tmp_path / "wrong.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(DamagedStore):
        await Memory.restore(tmp_path / "wrong.db", tmp_path / "new")
    await Memory.restore(tmp_path / "backup.db", tmp_path / "new")
    assert texts(await (await opened("new")).search("heron", only=["keyword"])) == ["heron"]


@pytest.mark.spec("B9")
async def test_a_backup_is_consistent_while_others_write(opened: Opener, tmp_path: Path) -> None:
    memory, other = await opened(), await opened()
    await memory.add_many(notes(20))
    await asyncio.gather(memory.backup(tmp_path / "backup.db"), other.add_many(notes(20, "second"), wait=True))
    await Memory.restore(tmp_path / "backup.db", tmp_path / "again")
    again = await opened("again")
    assert await again.count() in (20, 40)
    assert await again.check() == []


@pytest.mark.spec("B9")
async def test_check_finds_nothing_wrong_and_repair_changes_no_answer(opened: Opener) -> None:
    memory = await opened()
    await fill(memory)
    expected = await answers(memory)
    assert await memory.check() == []
    assert await memory.repair()
    assert await memory.check() == []
    assert await answers(memory) == expected
    assert await memory.count(Filters(kind="page")) == 1


@pytest.mark.spec("B9", "B8")
async def test_an_export_keeps_the_vector_space(opened: Opener, tmp_path: Path) -> None:
    memory = await opened()
    await memory.add_many(NOTES, wait=True)
    await memory.export(tmp_path / "a.jsonl")
    embedder = WordEmbedder()
    again = await opened("again", embedder=embedder)
    await again.import_file(tmp_path / "a.jsonl")
    await again.embed_pending()
    assert embedder.texts == []  # nothing to be made anew
    assert scored(await again.search("router")) == scored(await memory.search("router"))

"""Randomly changed exports: an import raises a typed error and changes nothing, or gives a consistent store."""

from __future__ import annotations

import json
import tempfile
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from engine_support import WordEmbedder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourfold import FourfoldError, Memory, NewItem
from fourfold.errors import InvalidItem
from fourfold.storage.sql.records import accepted

_MEMORY = Path("/dev/shm")
WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def _filled(folder: Path) -> list[Any]:
    with Memory.open(folder, embedder=WordEmbedder(dimension=4), background=False) as memory:
        raw = memory.add_raw("An original", "Maria", "s1", {"turn": 4})
        memory.add_many(
            [
                NewItem("Open from ten", title="Blue Lagoon", key="lagoon", metadata={"ü": [1, None]}, created_at=WHEN),
                NewItem("We met at the Blue Lagoon", source_ids=(raw.id,), tags=("a", "Ü"), created_at=WHEN),
                NewItem("a chunk", path="docs/ä.md", chunk_index=2, kind="page", created_at=WHEN),
            ],
            wait=True,
        )
        memory.add_node("Maria Lopez", "person", ["Mary"], {"born": 1980}, item=1)
        memory.add_edge("Maria Lopez", "likes", "Blue Lagoon", 0.25)
        other = memory.within("other")
        other.add_raw("theirs")
        other.add(NewItem("Not the Blue Lagoon", title="Red Lagoon", created_at=WHEN))
        (folder / "vault").mkdir()
        (folder / "vault" / "page.md").write_text("# Depth\nThe Blue Lagoon\n")
        memory.index_folders([folder / "vault"])
        memory.export(folder / "a.jsonl")
    return [json.loads(line) for line in (folder / "a.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def export() -> list[Any]:
    with tempfile.TemporaryDirectory() as name:
        return _filled(Path(name))


ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 5, 2**53 - 1, 2**63 - 1, 2**63, -(2**63), 0.5, 1.0, 1e308, float("nan"), "", " ",
    "default", "other", "item", "x" * 2000, "e\u0301", "a\x00b", "\ud800", "2026-01-01T00:00:00+00:00", "0001-01-01",
    [], {}, [1], [[1, True]], ["a"], ["a", "A"], [[]], {"a": 1}, {"a": {"b": [None]}}, "AACAPwAAAAAAAAAAAAAAAA==",
    "ids", [[[[]]]], {"": ""},
]  # fmt: skip

CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["set", "set", "set", "drop field", "drop", "twice", "swap", "move", "cut", "bytes"]),
        st.integers(0, 10_000),
        st.integers(0, 10_000),
        st.sampled_from(ODD),
    ),
    min_size=1,
    max_size=3,
)


def changed(export: list[Any], changes: list[Any]) -> bytes:
    records: list[Any] = deepcopy(export)
    cuts: list[tuple[int, int, bool]] = []
    for what, first, second, value in changes:
        place, other = first % len(records), second % len(records)
        record = records[place]
        field = sorted(record)[second % len(record)]
        match what:
            case "set":
                record[field] = value
            case "drop field":
                del record[field]
            case "drop" if len(records) > 2:
                del records[place]
            case "twice":
                records.insert(other, deepcopy(record))
            case "swap":
                records[place], records[other] = records[other], record
            case "move" if record.get("type") == records[other].get("type"):
                record[field] = records[other].get(field)
            case _:
                cuts.append((first, second, what == "bytes"))
        records = [record for record in records if record] or [{}]
    content = "\n".join(map(json.dumps, records)).encode()
    for first, second, single in cuts:
        place = first % len(content)
        content = content[:place] + bytes([second % 256]) + content[place + 1 :] if single else content[:place] or b"{}"
    return content


def _outcome(folder: Path, content: bytes) -> str:
    (folder / "b.jsonl").write_bytes(content)
    with Memory.open(folder / "store", embedder="none", background=False) as memory:
        before = memory.export(folder / "before.jsonl")
        try:
            memory.import_file(folder / "b.jsonl")
        except FourfoldError as error:
            after = memory.export(folder / "after.jsonl")
            assert (bool(error.remedy), after, memory.check()) == (True, before, [])  # noqa: PT017
            return "refused"
        assert memory.check() == []
        memory.export(folder / "after.jsonl")
        item = memory.add("life goes on")
        assert memory.get([item.id]) == [item]
    with Memory.open(folder / "again", embedder="none", background=False) as again:
        again.import_file(folder / "after.jsonl")
        again.export(folder / "again.jsonl")
    assert (folder / "after.jsonl").read_bytes() == (folder / "again.jsonl").read_bytes()
    return "loaded"


def _try(export: list[Any], changes: list[Any]) -> str:
    content = changed(export, changes)
    if not content.startswith(b'{"format": 1, "type": "fourfold-export"}\n'):
        return "not an export"  # it would be imported as plain rows
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        return _outcome(Path(name), content)


@pytest.mark.spec("B9")
def test_an_edge_without_a_source_is_refused() -> None:
    namespace = {"type": "namespace", "name": "default", "fingerprint": None, "dimension": None}
    edge = {"type": "edge", "namespace": "default", "relation": "likes", "target": 1, "weight": 1.0}
    with pytest.raises(InvalidItem, match="the fields 'source' are missing"):
        list(accepted([namespace, edge]))


@pytest.mark.spec("B9")
@given(changes=CHANGES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_changed_export_is_refused_or_gives_a_consistent_store(export: list[Any], changes: list[Any]) -> None:
    _try(export, changes)


@pytest.mark.soak
@pytest.mark.spec("B9")
@given(changes=CHANGES)
@settings(max_examples=2000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_thousands_of_changed_exports(export: list[Any], changes: list[Any]) -> None:
    _try(export, changes)


def test_an_unchanged_export_is_loaded(export: list[Any]) -> None:
    assert _try(export, []) == "loaded"
    assert _try(export, [("drop", len(export) - 1, 0, None)]) == "loaded"


STRANGE = {
    "an item of another namespace": "INSERT INTO node_items VALUES (1, {theirs}, 1)",
    "a mention of another namespace": "INSERT INTO mentions VALUES ({theirs}, 1)",
    "a weight": "UPDATE edges SET weight = 7.5",
    "a dimension": "UPDATE namespaces SET dimension = -3",
}


@pytest.mark.spec("B9")
@pytest.mark.parametrize("change", STRANGE)
def test_invalid_rows_of_older_versions_are_found_and_repaired(export: list[Any], tmp_path: Path, change: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(changed(export, []))
    with Memory.open(tmp_path / "store", embedder="none", background=False) as memory:
        memory.import_file(tmp_path / "a.jsonl")
        (theirs,) = memory.within("other").list()
    db = apsw.Connection(str(tmp_path / "store" / "fourfold.db"))
    db.execute(STRANGE[change].format(theirs=theirs.id))
    db.close()
    with Memory.open(tmp_path / "store", embedder="none", background=False) as memory:
        assert memory.check() != []
        assert any(line.startswith("repaired: ") for line in memory.repair())
        assert memory.check() == []

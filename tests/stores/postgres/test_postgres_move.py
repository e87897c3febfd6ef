"""Stores that move to a server and back; addresses, and a server started by the command line."""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from postgres_support import opened
from psycopg.conninfo import conninfo_to_dict

from fourfold import Memory, NewItem
from fourfold.errors import InvalidSetting, MissingExtra, RequestError, StoreNotEmpty
from fourfold.storage import exchange
from fourfold.storage.postgres.database import parse_address
from fourfold.storage.sql import portable


def fill(memory: Memory, count: int, folder: Path) -> None:
    for start in range(0, count, 1000):
        memory.add_many(
            [
                NewItem(
                    f"Note {number} mentions Page {number * 7 % count} and ½ of {'ß' * (number % 5)}",
                    title=f"Page {number}" if number % 3 == 0 else "",
                    tags=("even",) if number % 2 == 0 else (),
                    metadata={"n": number, "big": 1e300, "text": "a\x00b"},
                    vector=[1.0, number % 13, 0.5],
                )
                for number in range(start, min(start + 1000, count))
            ]
        )
    memory.add(NewItem("x", title="A title longer than any name may be " * 40))
    memory.add_raw("said", "Ada", None, {"turn": 1.0})
    memory.add_node("Meer", "place", ("See",), {"deep": True}, item=1)
    memory.add_edge("Page 0", "lies in", "Meer", 0.25)
    (folder / "vault").mkdir()
    (folder / "vault" / "Seen.md").write_text("---\naliases: [Gewässer]\n---\n# Tiefe\nDas Meer\n")
    (folder / "vault" / "binary.md").write_bytes(b"\x00\x01")
    memory.index_folders([folder / "vault"])
    memory.index()


def checksum(memory: Memory, file: Path) -> str:
    memory.export(file)
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.spec("B9")
@pytest.mark.parametrize("count", [150, pytest.param(20_000, marks=pytest.mark.soak)])
def test_a_store_moved_there_and_back_exports_the_same_bytes(dsn: str, tmp_path: Path, count: int):
    with opened(tmp_path / "one") as one, opened(dsn) as server, opened(tmp_path / "two") as two:
        fill(one, count, tmp_path)
        there = one.move(server.store)
        back = server.move(two.store)
        assert there == back
        assert there.counts["item"] == count + 2
        assert there.counts["file"] == 2
        sums = {checksum(memory, tmp_path / "export.jsonl") for memory in (one, server, two)}
        assert sums == {there.checksum}
        assert [memory.check() for memory in (server, two)] == [[], []]
        answers = [memory.search("note page", vector=[1, 2, 3]) for memory in (one, server, two)]
        assert len({tuple((result.id, round(result.score, 6)) for result in answer.results) for answer in answers}) == 1


@pytest.mark.spec("B9")
@pytest.mark.parametrize("to_server", [True, False])
def test_an_interrupted_move_is_resumed(dsn: str, tmp_path: Path, to_server: bool, monkeypatch):
    monkeypatch.setattr(portable, "PIECE_RECORDS", 40)
    places: list[Any] = [tmp_path / "one", dsn]
    with (
        opened(places[not to_server]) as source,
        opened(places[to_server]) as target,
        opened(tmp_path / "other") as other,
    ):
        fill(source, 150, tmp_path)
        other.add("something else")
        read = exchange._records

        def interrupted(*args: Any) -> Iterator[Any]:
            yield from islice(read(*args), 130)
            raise KeyboardInterrupt

        monkeypatch.setattr(exchange, "_records", interrupted)
        with pytest.raises(KeyboardInterrupt):
            source.move(target.store)
        assert target.check() == ["a move into this store was interrupted: run it again"]
        stored = [item.id for item in target.list(limit=1000)]
        assert 0 < len(stored) < 152
        with pytest.raises(RequestError, match="another"):
            other.move(target.store)
        monkeypatch.setattr(exchange, "_records", read)
        moved = source.move(target.store)
        assert moved.counts["item"] == 152
        assert target.check() == []
        assert source.move(target.store) == moved  # everything is stored
        target.add("something of its own")
        with pytest.raises(StoreNotEmpty):
            source.move(target.store)


# ---------------------------------------------------------------- `fourfold db start` and `db stop`


def fourfold(*arguments: str) -> str:
    command = [sys.executable, "-m", "fourfold", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"FOURFOLD_EMBEDDER": "none", "PATH": "/usr/bin"}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_local_server_starts_and_stops_and_keeps_its_data():
    with tempfile.TemporaryDirectory(prefix="fourfold-db-") as name:
        Path(name).chmod(0o755)
        data = f"--data={name}/server"
        dsn = fourfold("db", "start", data)
        try:
            assert dsn == fourfold("db", "start", data), "the server is already running"
            fourfold("--store", dsn, "add", "The router's password is in the blue folder", "--tag", "office")
            assert fourfold("db", "stop", data) == "stopped"
            assert fourfold("db", "stop", data) == "no server was running"
            assert fourfold("db", "start", data) == dsn
            assert "blue folder" in fourfold("--store", dsn, "search", "router")
            assert fourfold("--store", dsn, "check") == "no problems found"
        finally:
            fourfold("db", "stop", data)


@pytest.mark.parametrize(
    ("text", "dsn", "schema"),
    [
        ("postgresql://h/db", {"host": "h", "dbname": "db"}, "fourfold"),
        (
            "postgres://u:p%40%25@h:5/db?schema=team&sslmode=require",
            {"user": "u", "password": "p@%", "host": "h", "port": "5", "dbname": "db", "sslmode": "require"},
            "team",
        ),
        ("postgresql:///db?host=/tmp/a b", {"dbname": "db", "host": "/tmp/a b"}, "fourfold"),
        ("postgresql://a:1,b/db", {"host": "a,b", "port": "1,", "dbname": "db"}, "fourfold"),
    ],
)
def test_an_address_names_a_schema_and_the_driver_reads_the_rest(text: str, dsn: dict[str, str], schema: str):
    assert (conninfo_to_dict(parse_address(text).dsn), parse_address(text).schema) == (dsn, schema)


def test_no_secret_is_ever_shown():
    assert "canary" not in parse_address("postgresql://me:canary@h/db?password=canary&host=x").shown


@pytest.mark.parametrize("schema", ["a;drop", "A", "", "x" * 60])
def test_a_schema_has_a_plain_name(schema: str):
    with pytest.raises(InvalidSetting):
        parse_address(f"postgresql://h/db?schema={schema}")


def test_addresses_of_other_databases_are_refused():
    with pytest.raises(MissingExtra):
        Memory.open("mysql://h/db", embedder="none")

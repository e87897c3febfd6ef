"""`fourfold db start` and `db stop`, and a store on that server by the command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from fourfold.errors import InvalidSetting, MissingExtra
from fourfold.memory import Memory
from fourfold.storage.postgres.database import parse_address


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

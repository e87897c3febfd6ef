"""`fourfold db index`, against a real engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import index_servers
import pytest

pytestmark = pytest.mark.spec("C11")


@pytest.fixture
def cli(kind: str, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Callable[..., Any]:
    from fourfold.cli.main import main

    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "FOURFOLD_STORE": dsn,
        "FOURFOLD_INDEX": index_servers.address(kind),
        "FOURFOLD_EMBEDDER": "none",
    }.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        printed = capfd.readouterr()
        return int(left.value.code or 0), printed.out + printed.err

    return run


def test_the_commands_create_check_rebuild_and_drop_an_index(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch):
    assert cli("add", "a heron at the pond")[0] == 0
    code, said = cli("db", "index", "rebuild")
    assert code == 1
    assert "fourfold db index create" in said
    assert cli("db", "index", "create") == (0, "the index holds 1 items\n")
    assert cli("db", "index", "create")[0] == 1
    assert "a heron" in cli("search", "heron")[1]
    assert "default.index.lag_changes" in cli("status")[1]
    assert cli("db", "index", "check", "--repair") == (0, "no problems found\n")
    assert cli("db", "index", "rebuild") == (0, "the index holds 1 items\n")
    assert cli("db", "index", "drop") == (0, "dropped\n")
    assert cli("db", "index", "drop")[0] == 1
    monkeypatch.delenv("FOURFOLD_INDEX")
    code, said = cli("db", "index", "check")
    assert code == 1
    assert "Set `index`" in said


def test_an_index_needs_a_store_on_postgresql(cli: Callable[..., Any], tmp_path: Path):
    code, said = cli("--store", str(tmp_path / "folder"), "add", "text")
    assert code == 1
    assert "`index` needs a store on PostgreSQL" in said
    assert not (tmp_path / "folder").exists()

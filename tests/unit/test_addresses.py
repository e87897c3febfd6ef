"""No part of a server's address that may be a password is ever printed, logged or raised."""

import json
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from fourfold import Memory, addresses
from fourfold.cli.main import main
from fourfold.config import load
from fourfold.errors import FourfoldError, InvalidSetting

SECRET = "canary"
"""The password is `canary`, a special character, and `canary` again, or has it at one end."""

PASSWORDS = [
    f"{left}{special}{right}"
    for special in (*"%/#@ ?[]:\\'\"&=é", "%4", "%zz", "?a=", "@/")
    for left, right in ((SECRET, SECRET), (SECRET, ""), ("1", SECRET))
]
PLACES = [
    "postgresql://me:{}@127.0.0.1:1/db", "postgres://me:{}@127.0.0.1:1/db?sslmode=disable", "postgresql://me:{}@/db",
    "postgresql://127.0.0.1:1/db?password={}", "postgresql://127.0.0.1:1/db?passwd={}",
    "postgresql://127.0.0.1:1/db?user=me&pwd={}&sslmode=disable", "postgresql:me:{}@127.0.0.1:1/db",
    "postgresql:/me:{}@127.0.0.1:1/db", "mysql://me:{}@127.0.0.1:1/db", "host=127.0.0.1 port=1 password={} dbname=db",
]  # fmt: skip
HOSTILE = [
    *(PLACES[0].format(password) for password in PASSWORDS),
    *(place.format(f"{SECRET}{special}{SECRET}") for place in PLACES for special in ("", "%", "/", "#", "@", "?", "[")),
    f"postgresql://[{SECRET}", f"postgresql://me:{SECRET}@[::1", f"postgresql://{SECRET}]@h/db",
]  # fmt: skip


def everything_of(error: BaseException) -> str:
    """What a traceback of the error and of its whole chain prints, and every `repr` in it."""
    printed = "".join(traceback.format_exception(error))
    chain = error
    while (chain := chain.__cause__ or chain.__context__) is not None:  # type: ignore[assignment]
        printed += repr(chain) + repr(chain.args)
    return printed + repr(error) + repr(error.args)


@pytest.mark.parametrize("address", HOSTILE)
def test_the_library_never_shows_a_password(address: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Reliability 25."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(FourfoldError) as raised:
        Memory.open(address, embedder="none")
    with pytest.raises(FourfoldError) as restored:
        Memory.restore(tmp_path / "none", address)
    shown = json.dumps({name: str(value) for name, value in load({"store": address}, {}, None).shown().items()})
    printed = everything_of(raised.value) + everything_of(restored.value) + shown + caplog.text
    assert SECRET not in printed.lower()


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    monkeypatch.setenv("FOURFOLD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(arguments)
        captured = capfd.readouterr()
        return captured.out + captured.err

    return run


@pytest.mark.parametrize("address", HOSTILE[::7] + HOSTILE[-3:])
def test_the_command_line_never_shows_a_password(address, printed, monkeypatch):
    """Reliability 25."""
    said = printed("add", "heron")
    for arguments in (
        ("--store", address, "status"), ("--store", address, "status", "--json"), ("--store", address, "config"),
        ("--store", address, "config", "--json"), ("--store", address, "add", "x"), ("move", address),
        (address,), ("status", address), ("--store", address, "no-such-command"), ("search", "x", f"--store={address}"),
        ("import", address), ("index", address), ("--config", address, "status"), ("restore", address),
        ("--store", address, "mcp", "--http", "nowhere"),
    ):  # fmt: skip
        said += printed(*arguments)
    monkeypatch.setenv("FOURFOLD_STORE", address)
    monkeypatch.setenv("FOURFOLD_OPENAI_BASE_URL", f"https://me:{SECRET}@host/v1?key={SECRET}")
    said += printed("config") + printed("status")
    assert "heron" not in said
    assert SECRET not in said.lower()


@pytest.mark.parametrize("address", HOSTILE[::10])
async def test_mcp_never_shows_a_password(address: str, caplog: pytest.LogCaptureFixture) -> None:
    from mcp import Client

    from fourfold.config import Settings
    from fourfold.serve.mcp.server import build

    caplog.set_level(logging.DEBUG)
    server, _ = build(lambda: Settings(store=address, embedder="none"))
    async with Client(server) as client:
        answer = await client.call_tool("hybrid_search", {"query_text": "heron"})
        assert answer.is_error
        assert SECRET not in (answer.model_dump_json() + caplog.text).lower()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://me:pa%40ss@h:5/db?sslmode=require&password=x", "postgresql://h:5/db?sslmode=require"),
        ("postgresql://me:pa#s[s:@h/db", "postgresql://h/db"),
        ("postgresql:///db?host=/tmp/a b", "postgresql:///db?host=/tmp/a%20b"),
        ("postgresql://[::1]:5,b:6/db", "postgresql://[::1]:5,b:6/db"),
        ("https://key@proxy.example/v1/x?key=y", "https://proxy.example/v1/x"),
    ],
)
def test_an_address_is_shown_by_its_harmless_parts(text: str, expected: str) -> None:
    assert addresses.shown(text) == expected


@pytest.mark.parametrize("password", ["a%b", "a/b", "a@b", "a b", "a?b"])
def test_a_refused_address_says_how_to_write_it(password: str) -> None:
    with pytest.raises(InvalidSetting, match="percent-encoded"):
        addresses.parse(f"postgresql://me:{password}@h/db")


def test_a_blocking_memory_says_the_same() -> None:
    with pytest.raises(InvalidSetting, match="percent-encoded"):
        Memory.open(f"postgresql://me:{SECRET}/@h/db", embedder="none")

"""The command line as a function that returns output and exit code."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fourfold.cli.main import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, which must be one line with one JSON object."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


Cli = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without any file of their own, and without a model (vectors have their own tests)."""
    for name in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "data"))
    monkeypatch.setenv("FOURFOLD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    return tmp_path


@pytest.fixture
def cli(home: Path, capfd: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: str) -> Done:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        printed = capfd.readouterr()
        return Done(int(left.value.code or 0), printed.out, printed.err)

    return run

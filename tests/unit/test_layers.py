"""The layers of pyproject.toml hold: no package imports a higher one, and no store imports another."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_contract_of_the_layers_is_kept(monkeypatch, capsys):
    from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS, capsys.readouterr().out
    assert "ignore_imports" not in (ROOT / "pyproject.toml").read_text("utf-8")

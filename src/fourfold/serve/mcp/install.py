"""The entry with which a client starts the server.

It contains the values of flags and variables (store, namespace, embedder), because an agent starts the server in
another folder and environment. A password or key is never written. The entry of a project is shared, so it contains
no path of this machine.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fourfold import addresses
from fourfold.embed import model_folder
from fourfold.errors import InvalidSetting
from fourfold.model import Json

if TYPE_CHECKING:
    from fourfold.config import Loaded

Scope = Literal["user", "project"]
NAME = "fourfold"
_CARRIED = ("store", "namespace", "embedder", "onnx_provider", "openai_base_url", "openai_model", "openai_dimensions")
_FLAGS = ("store", "namespace")


@dataclass(frozen=True, slots=True)
class Entry:
    command: list[str]
    """The program and its arguments."""
    environment: dict[str, str]
    left_out: list[str] = field(default_factory=list[str])
    """Required variables that hold a secret."""

    def json(self, *, typed: bool = True) -> dict[str, Json]:
        """`typed`: with the name of the transport, which some clients require and others reject."""
        first, *rest = self.command
        form: dict[str, Json] = {"command": first, "args": [*rest], "env": {**self.environment}}
        return {"type": "stdio", **form} if typed else form


def make_entry(loaded: Loaded, config: Path | None, arguments: Sequence[str], scope: Scope, folder: Path) -> Entry:
    """`config`: the file that was named; `arguments`: what follows `mcp`; `folder`: the project."""
    options: list[str] = []
    entry = Entry(_program(scope), {})
    for name in _CARRIED:
        value, origin = loaded.given[name]
        variable = f"FOURFOLD_{name.upper()}"
        if origin != "flag" and not origin.startswith("environment"):
            continue
        if name in ("store", "openai_base_url") and _has_secret(value):
            entry.left_out.append(_secret_variable(variable, origin))
        elif origin == "flag" and name in _FLAGS:
            options += [f"--{name}", _portable(name, value, scope, folder)]
        else:
            entry.environment[variable] = _portable(name, value, scope, folder)
    if loaded.settings.openai_api_key and loaded.settings.embedder == "openai":
        entry.left_out.append("FOURFOLD_OPENAI_API_KEY")
    if config is not None:
        options += ["--config", _path(config, scope, folder)]
    entry.command.extend([*options, "mcp", *arguments])
    return entry


def _program(scope: Scope) -> list[str]:
    """How to start this Fourfold: agents are not started in its environment, and a shared entry names no folder.

    `-P`: an agent starts it in a repository, whose `json.py` must not be imported.
    """
    if scope == "project":
        return ["fourfold"]
    beside = Path(sys.executable).with_name("fourfold.exe" if sys.platform == "win32" else "fourfold")
    found = str(beside) if beside.is_file() else shutil.which("fourfold")
    return [found] if found else [sys.executable, "-P", "-m", "fourfold"]


def _portable(name: str, value: object, scope: Scope, folder: Path) -> str:
    """The value with paths that are valid where the server starts."""
    text = str(value)
    if name == "store" and not addresses.is_address(text):
        return _path(Path(text), scope, folder)
    if name == "embedder" and (place := model_folder(text)) is not None:
        return f"{text.partition(':')[0]}:{_path(place, scope, folder)}"
    return text


def _path(path: Path, scope: Scope, folder: Path) -> str:
    absolute = folder / path.expanduser()
    if scope == "user":
        return str(absolute)
    inside = Path(os.path.relpath(absolute, folder))
    if inside.parts[:1] == ("..",) or inside.is_absolute():
        raise InvalidSetting(
            f"{path} is outside of this folder, and the entry of a project is shared",
            "Choose a path inside of it, or --scope user",
        )
    return inside.as_posix()


def _has_secret(value: object) -> bool:
    if not isinstance(value, str) or not addresses.is_address(value):
        return False
    url = addresses.parse(value)
    return url.password is not None or "password" in url.parameters


def _secret_variable(variable: str, origin: str) -> str:
    if origin == "flag":
        raise InvalidSetting(
            "the address of the store has a password, which is not written into a file",
            f"Put the address into {variable}, or the password into ~/.pgpass",
        )
    return variable

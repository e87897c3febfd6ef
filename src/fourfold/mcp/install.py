"""The entry that makes Claude Code start the server: shown, or written into its file and nowhere else."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from fourfold.errors import DamagedError, InvalidSetting, ReadOnlyStore
from fourfold.model import Json

Scope = Literal["user", "project"]
NAME = "fourfold"


def command() -> list[str]:
    """How to start this very Fourfold from anywhere: agents are not started in its environment."""
    beside = Path(sys.executable).with_name("fourfold.exe" if sys.platform == "win32" else "fourfold")
    found = str(beside) if beside.is_file() else shutil.which("fourfold")
    return [found] if found else [sys.executable, "-P", "-m", "fourfold"]  # -P: not from the agent's working folder


def entry(options: Sequence[str]) -> dict[str, Json]:
    first, *rest = command()
    return {"type": "stdio", "command": first, "args": [*rest, *options], "env": {}}


def file_of(scope: Scope, environ: Mapping[str, str]) -> Path:
    """Where Claude Code reads its servers from."""
    if scope == "project":
        return Path.cwd() / ".mcp.json"
    folder = environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path.home()) / ".claude.json"


def write(path: Path, new: dict[str, Json]) -> dict[str, Json] | None:
    """Puts the entry into the file, all else in it left as it is, in one step; what stood there before, if anything."""
    known = _read(path)
    servers = known.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise InvalidSetting(f'"mcpServers" in {path} is no object', "Mend the file first")
    before = cast("dict[str, Any]", servers).get(NAME)
    if before != new:
        servers[NAME] = new
        _replace(path, json.dumps(known, indent=2, ensure_ascii=False) + "\n")
    return before


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read ({error})", "Mend the file; it was left as it is") from error
    if not isinstance(known, dict):
        raise DamagedError(f"{path} holds no JSON object", "Mend the file; it was left as it is")
    return cast("dict[str, Any]", known)


def _replace(path: Path, text: str) -> None:
    target = path.resolve()  # a link to the real file stays one
    aside: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".fourfold-")
        aside = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        if target.exists():
            shutil.copymode(target, aside)
        aside.replace(target)
    except OSError as error:
        if aside is not None:
            with suppress(OSError):
                aside.unlink()
        raise ReadOnlyStore(f"{path} cannot be written ({error})", "Add the entry by hand") from error

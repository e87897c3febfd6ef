"""Builds dist/fourfold-VERSION.mcpb, which desktop clients install with a click: python scripts/mcpb.py [FOLDER]

The bundle has the sources. The client's uv creates the environment on first use, and the kernel is compiled there by
hatch_build.py, so one bundle serves every platform. It needs no published package.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

from fourfold import __version__
from fourfold.serve.mcp.tools import offers

ROOT = Path(__file__).parent.parent
FILES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE")
LEFT_OUT = {".pyc", ".so", ".dll", ".dylib"}
_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every entry, so that the same sources give the same bundle."""


def manifest() -> dict[str, object]:
    command = ["run", "--directory", "${__dirname}", "--no-dev", "fourfold", "mcp"]
    return {
        "manifest_version": "0.4",
        "name": "fourfold",
        "display_name": "Fourfold memory",
        "version": __version__,
        "description": "Agent memory with vector, BM25, graph and tag search in one explained ranking",
        "author": {"name": "Fourfold contributors"},
        "license": "Apache-2.0",
        "keywords": ["memory", "search", "rag"],
        "server": {
            "type": "uv",
            "entry_point": "src/fourfold/__main__.py",
            "mcp_config": {
                "command": "uv",
                "args": command,
                "env": {
                    "FOURFOLD_STORE": "${user_config.store}",
                    "FOURFOLD_NAMESPACE": "${user_config.namespace}",
                },
            },
        },
        "tools": [{"name": name, "description": summary} for name, summary in tools()],
        "user_config": {
            "store": {
                "type": "directory",
                "title": "Store",
                "description": "The folder of the memories. Empty: the user's data folder.",
                "required": False,
                "default": "",
            },
            "namespace": {
                "type": "string",
                "title": "Namespace",
                "description": "What the memories are kept under, if one store serves several purposes.",
                "required": False,
                "default": "default",
            },
        },
        "compatibility": {"runtimes": {"python": ">=3.11"}},
    }


def tools() -> list[tuple[str, str]]:
    """The tools that the bundle offers, with the first sentence of their descriptions."""
    return [(tool.name, tool.description.partition(". ")[0].rstrip(".")) for tool in offers("core")]


def sources() -> list[Path]:
    found = [path for path in sorted((ROOT / "src").rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return [ROOT / name for name in FILES] + [path for path in found if path.suffix not in LEFT_OUT]


def build(folder: Path, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"fourfold-{__version__}.mcpb"
    with zipfile.ZipFile(target, "w", compression) as bundle:
        _put(bundle, "manifest.json", json.dumps(manifest(), indent=2).encode())
        for path in sources():
            _put(bundle, path.relative_to(ROOT).as_posix(), path.read_bytes())
    return target


def _put(bundle: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type, entry.external_attr = bundle.compression, 0o644 << 16
    bundle.writestr(entry, content)


if __name__ == "__main__":
    sys.stdout.write(f"{build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / 'dist')}\n")

"""What tests of folders need: trees, and what a store holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fourfold.memory import Memory
from fourfold.model import Item


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


async def items(memory: Memory) -> dict[tuple[str, int], Item]:
    """By the name of the file and the number of the chunk."""
    found = await memory.list(limit=1000)
    return {(Path(item.path or "").name, item.chunk_index or 0): item for item in found}


async def names(memory: Memory) -> set[str]:
    return {name for name, _ in await items(memory)}

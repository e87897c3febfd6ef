"""B9: a store moves between kinds, is compared, and an interrupted move goes on."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from fourfold.errors import RequestError, StoreNotEmpty
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.stores import loading

pytestmark = pytest.mark.spec("B9")


async def opened(where: Path | str) -> Memory:
    return await Memory.open(where, embedder="none", background=False)


async def fill(memory: Memory, count: int, folder: Path) -> None:
    for start in range(0, count, 1000):
        await memory.add_many(
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
    await memory.add(NewItem("x", title="A title longer than any name may be " * 40))
    await memory.add_raw("said", "Ada", None, {"turn": 1.0})
    await memory.add_node("Meer", "place", ("See",), {"deep": True}, item=1)
    await memory.add_edge("Page 0", "lies in", "Meer", 0.25)
    (folder / "vault").mkdir()
    (folder / "vault" / "Seen.md").write_text("---\naliases: [Gewässer]\n---\n# Tiefe\nDas Meer\n")
    (folder / "vault" / "binary.md").write_bytes(b"\x00\x01")
    await memory.index_folders([folder / "vault"])
    await memory.index()


async def checksum(memory: Memory, file: Path) -> str:
    await memory.export(file)
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("count", [150, pytest.param(20_000, marks=pytest.mark.soak)])
async def test_there_and_back_again_it_exports_to_the_same_bytes(dsn: str, tmp_path: Path, count: int):
    async with (
        await opened(tmp_path / "one") as one,
        await opened(dsn) as server,
        await opened(tmp_path / "two") as two,
    ):
        await fill(one, count, tmp_path)
        there = await one.move(server.store)
        back = await server.move(two.store)
        assert there == back
        assert there.counts["item"] == count + 2
        assert there.counts["file"] == 2
        sums = {await checksum(memory, tmp_path / "export.jsonl") for memory in (one, server, two)}
        assert sums == {there.checksum}
        assert [await memory.check() for memory in (server, two)] == [[], []]
        answers = [await memory.search("note page", vector=[1, 2, 3]) for memory in (one, server, two)]
        assert len({tuple((result.id, round(result.score, 6)) for result in answer.results) for answer in answers}) == 1


@pytest.mark.parametrize("to_server", [True, False])
async def test_an_interrupted_move_goes_on_where_it_was(plain_dsn: str, tmp_path: Path, to_server: bool, monkeypatch):
    monkeypatch.setattr(loading, "_PIECE", 40)
    places: list[Any] = [tmp_path / "one", plain_dsn]
    async with (
        await opened(places[not to_server]) as source,
        await opened(places[to_server]) as target,
        await opened(tmp_path / "other") as other,
    ):
        await fill(source, 150, tmp_path)
        await other.add("something else")
        pieces, stored = loading.pieces, []

        def failing(records: Any, done: int) -> Any:
            for number, piece in enumerate(pieces(records, done)):
                if number == 3:
                    raise KeyboardInterrupt
                yield piece

        for module in ("sqlite", "postgres"):
            monkeypatch.setattr(f"fourfold.stores.{module}.store.pieces", failing)
        with pytest.raises(KeyboardInterrupt):
            await source.move(target.store)
        assert await target.check() == [loading.UNFINISHED]
        stored = [item.id for item in await target.list(limit=1000)]
        assert 0 < len(stored) < 152
        with pytest.raises(RequestError, match="another"):
            await other.move(target.store)
        for module in ("sqlite", "postgres"):
            monkeypatch.setattr(f"fourfold.stores.{module}.store.pieces", pieces)
        moved = await source.move(target.store)
        assert moved.counts["item"] == 152
        assert await target.check() == []
        assert await source.move(target.store) == moved  # all is there
        await target.add("something of its own")
        with pytest.raises(StoreNotEmpty):
            await source.move(target.store)

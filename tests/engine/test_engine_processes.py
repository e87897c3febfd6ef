"""Several objects and several processes on one folder: everyone sees what anyone has committed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from engine_support import Opener, ids, notes, texts

from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, NewItem
from fourfold.stores.sqlite.database import Database

HERE = Path(__file__).parent


def in_another_process(folder: Path, body: str) -> Any:
    """Runs `body` (which may await, and sets `answer`) over the same folder; what it answered."""
    script = f"""
import asyncio, json, sys
from engine_support import WordEmbedder, ids, notes, texts
from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, NewItem

async def main():
    async with await Memory.open({str(folder)!r}, embedder=WordEmbedder()) as memory:
        answer = None
{textwrap.indent(textwrap.dedent(body), "        ")}
        print(json.dumps(answer))

asyncio.run(main())
"""
    paths = os.pathsep.join([str(HERE), str(HERE.parent.parent / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.spec("B6")
async def test_two_memories_on_one_folder_read_each_others_writes(opened: Opener) -> None:
    one, other = await opened(), await opened()
    item = await one.add("The heron stands in the river", wait=True)
    for only in ("keyword", "semantic"):
        assert ids(await other.search("heron", only=[only])) == [item.id]
    await other.update(item.id, ItemPatch(text="The otter swims in the river"))
    assert ids(await one.search("heron", only=["keyword"])) == []
    assert ids(await one.search("otter", only=["keyword"])) == [item.id]
    await one.add_edge("River Spree", "flows through", "Berlin")
    await one.add_node("Berlin", item=item.id)
    assert ids(await other.search("river spree", only=["graph"])) == [item.id]
    await one.forget([item.id])
    for only in ("keyword", "semantic", "graph"):
        assert ids(await other.search("otter River Spree", only=[only])) == []


@pytest.mark.spec("B6")
async def test_also_when_one_of_them_publishes_the_indexes(opened: Opener) -> None:
    one, other = await opened(), await opened()
    await one.add_many(notes(50), wait=True)
    assert (await other.search("heron")).results
    await one.index()
    await other.forget(list(range(1, 26)))
    await one.add("The kingfisher is blue", wait=True)
    await other.index()
    for memory in (one, other):
        assert texts(await memory.search("kingfisher", only=["keyword"])) == ["The kingfisher is blue"]
        assert len(ids(await memory.search("the heron met", only=["semantic"], top_k=100))) == 26
        assert await memory.check() == []


@pytest.mark.spec("B6", "B7")
async def test_another_process_sees_what_this_one_wrote_and_the_other_way_round(memory: Memory, tmp_path: Path) -> None:
    item = await memory.add(NewItem("The heron stands in the river", tags=("bird",)), wait=True)
    found = await asyncio.to_thread(
        in_another_process,
        tmp_path / "store",
        """
        answer = [ids(await memory.search("heron", only=[only])) for only in ("keyword", "semantic")]
        answer.append(ids(await memory.search("bird", only=["tags"])))
        await memory.update(answer[0][0], ItemPatch(text="The otter swims", add_tags=("mammal",)))
        await memory.add("A raven came by", wait=True)
        await memory.index()
        """,
    )
    assert found == [[item.id]] * 3
    assert ids(await memory.search("heron", only=["keyword"])) == []
    assert ids(await memory.search("otter", only=["keyword"])) == [item.id]
    assert texts(await memory.search("raven", only=["semantic"]))[0] == "A raven came by"
    assert ids(await memory.search("otter", filters=Filters(tags=("mammal",)))) == [item.id]


@pytest.mark.spec("B7")
async def test_several_writers_at_once_lose_nothing(opened: Opener) -> None:
    memories = [await opened() for _ in range(4)]
    await asyncio.gather(
        *(memory.add(NewItem(f"writer {who} item {n}")) for who, memory in enumerate(memories) for n in range(10))
    )
    searched = await asyncio.gather(*(memory.search("writer item", top_k=100) for memory in memories))
    assert [len(response.results) for response in searched] == [40] * 4
    assert await memories[0].check() == []


@pytest.mark.spec("B7")
def test_those_who_make_a_store_at_once_all_get_it(tmp_path: Path) -> None:
    """Without trying again, one of twenty was told that the database is locked."""
    together = threading.Barrier(4)

    def make(_: int) -> None:
        for number in range(40):
            together.wait(60)
            Database(tmp_path / f"{number}.db").close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == [None] * 4

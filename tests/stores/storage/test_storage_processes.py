"""Several objects and processes on one folder: each sees what the others have committed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from concurrently import results
from engine_support import Opener, ids, notes, texts

from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, NewItem
from fourfold.storage.sqlite.database import Database

HERE = Path(__file__).parent


def in_another_process(folder: Path, body: str) -> Any:
    """Runs `body`, which sets `answer`, over the same folder; returns the answer."""
    script = f"""
import json
from engine_support import WordEmbedder, ids, notes, texts
from fourfold.memory import Memory
from fourfold.model import Filters, ItemPatch, NewItem

with Memory.open({str(folder)!r}, embedder=WordEmbedder()) as memory:
    answer = None
{textwrap.indent(textwrap.dedent(body), "    ")}
    print(json.dumps(answer))
"""
    places = [str(HERE.parents[1] / "support"), str(HERE.parents[2] / "src"), os.environ.get("PYTHONPATH", "")]
    paths = os.pathsep.join(places)
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
def test_two_memories_on_one_folder_read_each_others_writes(opened: Opener) -> None:
    one, other = opened(), opened()
    item = one.add("The heron stands in the river", wait=True)
    for only in ("keyword", "semantic"):
        assert ids(other.search("heron", only=[only])) == [item.id]
    other.update(item.id, ItemPatch(text="The otter swims in the river"))
    assert ids(one.search("heron", only=["keyword"])) == []
    assert ids(one.search("otter", only=["keyword"])) == [item.id]
    one.add_edge("River Spree", "flows through", "Berlin")
    one.add_node("Berlin", item=item.id)
    assert ids(other.search("river spree", only=["graph"])) == [item.id]
    one.forget([item.id])
    for only in ("keyword", "semantic", "graph"):
        assert ids(other.search("otter River Spree", only=[only])) == []


@pytest.mark.spec("B6")
def test_two_memories_see_each_others_writes_while_one_publishes(opened: Opener) -> None:
    one, other = opened(), opened()
    one.add_many(notes(50), wait=True)
    assert other.search("heron").results
    one.index()
    other.forget(list(range(1, 26)))
    one.add("The kingfisher is blue", wait=True)
    other.index()
    for memory in (one, other):
        assert texts(memory.search("kingfisher", only=["keyword"])) == ["The kingfisher is blue"]
        assert len(ids(memory.search("the heron met", only=["semantic"], top_k=100))) == 26
        assert memory.check() == []


@pytest.mark.spec("B6", "B7")
def test_two_processes_see_each_others_writes(memory: Memory, tmp_path: Path) -> None:
    item = memory.add(NewItem("The heron stands in the river", tags=("bird",)), wait=True)
    found = in_another_process(
        tmp_path / "store",
        """
        answer = [ids(memory.search("heron", only=[only])) for only in ("keyword", "semantic")]
        answer.append(ids(memory.search("bird", only=["tags"])))
        memory.update(answer[0][0], ItemPatch(text="The otter swims", add_tags=("mammal",)))
        memory.add("A raven came by", wait=True)
        memory.index()
        """,
    )
    assert found == [[item.id]] * 3
    assert ids(memory.search("heron", only=["keyword"])) == []
    assert ids(memory.search("otter", only=["keyword"])) == [item.id]
    assert texts(memory.search("raven", only=["semantic"]))[0] == "A raven came by"
    assert ids(memory.search("otter", filters=Filters(tags=("mammal",)))) == [item.id]


@pytest.mark.spec("B7")
def test_concurrent_writers_lose_nothing(opened: Opener) -> None:
    memories = [opened() for _ in range(4)]
    results(
        *(
            partial(memory.add, NewItem(f"writer {number} item {n}"))
            for number, memory in enumerate(memories)
            for n in range(10)
        )
    )
    searched = results(*(partial(memory.search, "writer item", top_k=100) for memory in memories))
    assert [len(response.results) for response in searched] == [40] * 4
    assert memories[0].check() == []


@pytest.mark.spec("B7")
def test_processes_that_create_a_store_at_the_same_time_all_open_it(tmp_path: Path) -> None:
    """Without a retry, about one in twenty openings failed with "database is locked"."""
    together = threading.Barrier(4)

    def make(_: int) -> None:
        for number in range(40):
            together.wait(60)
            Database(tmp_path / f"{number}.db").close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(4))) == [None] * 4

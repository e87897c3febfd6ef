"""Many clients of one store: concurrent writers, servers beside the command line, limits and facts under contention."""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trust_child
from concurrently import results
from engine_support import row_counts
from trust_client_work import (
    PATIENT,
    Client,
    HeldEmbedder,
    Written,
    embedded,
    find,
    first_word,
    hand_in,
    misses,
    note,
    store_many,
    store_one,
    words,
    write,
    write_and_search,
)

from fourfold import Item, ItemPatch, Memory, NewItem, limits
from fourfold.errors import InvalidItem, NotFound

FOURFOLD = Path(sys.executable).with_name("fourfold")
WRITERS, THREADS = 8, 32
SEED = 20261115


@contextmanager
def clients(number: int, folder: Path, embedder: Any = None, publish_at: int | None = None) -> Iterator[list[Client]]:
    """Processes that have the store open; they are killed when the block ends."""
    with ExitStack() as stack:
        opened: list[Client] = []
        for _ in range(number):
            opened.append(Client(folder, embedder, publish_at))
            stack.callback(opened[-1].kill)
        yield opened


# ---------------------------------------------------------------- many writers


@pytest.mark.spec("B7", "B6")
@pytest.mark.parametrize("writes", [40, pytest.param(500, marks=pytest.mark.soak)])
def test_eight_processes_and_many_threads_write_at_once_and_nothing_is_lost_or_refused(tmp_path, writes):
    with clients(WRITERS, tmp_path) as writers:
        begin = time.perf_counter()
        started = [writer.begin(write, who, writes, SEED) for who, writer in enumerate(writers)]
        with Memory.open(tmp_path, embedder=words(), settings=PATIENT) as memory:
            written = results(*(partial(write_and_search, memory, f"thread{number}", 5) for number in range(THREADS)))
            for writer, number in zip(writers, started, strict=True):
                written.append(writer.answer(number))
            took = time.perf_counter() - begin
            memory.embed_pending()
            _assert_everything_is_stored(memory, tmp_path, written)
            started = [writer.begin(misses, *_last_of_each(written), ("keyword", "semantic")) for writer in writers]
            for writer, number in zip(writers, started, strict=True):
                assert writer.answer(number) == []
            assert memory.check() == []
        for writer in writers:
            writer.stop()
    print(f"\nseed {SEED}: {WRITERS} x {writes} writes and {THREADS} threads in {took:.1f} s")
    for who, each in enumerate(written[THREADS:]):
        print(f"  writer {who}: {_spread(each.seconds)}")
    print(f"  threads:  {_spread([seconds for each in written[:THREADS] for seconds in each.seconds])}")


def _assert_everything_is_stored(memory: Memory, folder: Path, written: Sequence[Written]) -> None:
    items = {item: text for each in written for item, text in each.items.items()}
    assert len(items) == sum(len(each.items) for each in written)
    numbers = sorted(items)
    assert {item.id: item.text for item in memory.get(numbers)} == items
    rows = row_counts(folder)
    assert (rows["items"], rows["vectors"]) == (len(items), len(items))
    assert rows["edges"] == sum(len(each.edges) for each in written)


def _last_of_each(written: Sequence[Written]) -> tuple[dict[int, str], dict[int, str]]:
    """The last item that each writer stored, and the last that it removed."""
    items = dict(list(each.items.items())[-1] for each in written)
    return items, dict(list(each.gone.items())[-1] for each in written if each.gone)


def _spread(seconds: Sequence[float]) -> str:
    p50, p99, most = np.percentile(seconds, [50, 99, 100]) * 1000
    return f"{len(seconds)} writes, p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {most:.0f} ms"


# ---------------------------------------------------------------- two servers and the command line


@pytest.mark.spec("B7", "B6")
@pytest.mark.parametrize(
    ("seconds", "embedder", "ways"),
    [(0, "none", ("keyword",)), pytest.param(60, "builtin", ("keyword", "semantic"), marks=pytest.mark.soak)],
    ids=["short", "a minute with the model"],
)
def test_two_servers_and_the_command_line_see_each_others_writes(tmp_path, seconds, embedder, ways):
    """While both servers write and publish."""
    store = tmp_path / "store"
    with clients(2, store, embedder, publish_at=10) as servers:
        until = time.monotonic() + seconds
        count = 500 if seconds else 60
        writing = [server.begin(write, who, count, SEED) for server, who in zip(servers, "ab", strict=True)]
        runs = _command_lines(tmp_path, embedder, servers, ways, until)
        written = [server.answer(number) for server, number in zip(servers, writing, strict=True)]
        for server, other in zip(servers, reversed(written), strict=True):
            assert server.ask(misses, *_last_of_each([other]), ("keyword",)) == []
        for server in servers:
            server.stop()
    published = _generation(store)
    assert published >= (2 if seconds else 1)
    print(f"\n{runs} command lines beside two writing servers, {published} publications, 0 misses")


def _command_lines(folder: Path, embedder: str, servers: Sequence[Client], ways: Sequence[str], until: float) -> int:
    """Runs commands until `until`, at least one round: commands and servers find what the others just stored."""
    runs = 0
    for number in count():
        server, text, theirs = servers[number % 2], note("cli", number), note("server", number)
        stored = int(_fourfold(folder, embedder, "add", text))
        assert [server.ask(find, text, only) for only in ways] == [[stored]] * len(ways)
        item = server.ask(store_one, theirs)
        for only in ways:
            query = first_word(theirs) if only == "keyword" else theirs
            answer = json.loads(_fourfold(folder, embedder, "search", query, "--only", only, "-k", "1", "--json"))
            assert [result["id"] for result in answer["results"]] == [item]
        assert len(json.loads(_fourfold(folder, embedder, "list", "--limit", "5", "--json"))["items"]) == 5
        assert _fourfold(folder, embedder, "forget", str(stored)) == "forgot 1 item\n"
        assert server.ask(find, text, "keyword") == []
        _fourfold(folder, embedder, "check")
        runs += len(ways) + 4
        if time.monotonic() >= until:
            return runs


def _fourfold(folder: Path, embedder: str, *arguments: str) -> str:
    """Runs one command, which must succeed without a warning; returns what it printed."""
    own = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "FOURFOLD_EMBEDDER": embedder}
    done = subprocess.run(
        [FOURFOLD, "--store", str(folder / "store"), *arguments],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), (arguments, done)
    return done.stdout


def _generation(store: Path) -> int:
    """The generation of the published keyword index."""
    (manifest,) = store.glob("index/*/text/manifest.json")
    return json.loads(manifest.read_text("utf-8"))["generation"]


# ---------------------------------------------------------------- one queue of vectors


@pytest.mark.spec("B7")
def test_a_running_process_embeds_items_of_a_process_that_ended(tmp_path: Path) -> None:
    with clients(1, tmp_path) as (staying,):
        texts = [note("left", number) for number in range(50)]
        items = trust_child.run(hand_in, tmp_path, texts)
        _wait_until(lambda: _vectors(tmp_path) == 50)
        assert sorted(staying.ask(embedded)) == sorted(texts)
        assert staying.ask(misses, dict(zip(items, texts, strict=True)), {}, ("semantic",)) == []


@pytest.mark.spec("B7")
def test_running_processes_share_the_queue_and_embed_each_item_once(tmp_path: Path) -> None:
    with clients(2, tmp_path) as staying:
        trust_child.run(hand_in, tmp_path, [note("left", number) for number in range(100)])
        stored = [each.begin(store_many, [note(who, n) for n in range(100)]) for who, each in enumerate(staying)]
        for each, number in zip(staying, stored, strict=True):
            each.answer(number)
        _wait_until(lambda: _vectors(tmp_path) == 300)
        shares = [each.ask(embedded) for each in staying]
    made = [text for share in shares for text in share]
    print(f"\nvectors made by each: {[len(share) for share in shares]}")
    assert len(set(made)) == 300
    assert len(made) == 300


@pytest.mark.spec("B7")
def test_another_process_takes_over_when_the_embedding_one_is_killed(tmp_path: Path) -> None:
    store, gate = tmp_path / "store", tmp_path / "gate"
    with clients(2, store, HeldEmbedder(gate)) as staying:
        trust_child.run(hand_in, store, [note("left", number) for number in range(160)])
        _wait_until(lambda: _vectors(store) >= 40)
        at_work, other = sorted(staying, key=lambda each: -len(each.ask(embedded)))
        at_work.kill()
        made = _vectors(store)
        gate.touch()
        _wait_until(lambda: _vectors(store) == 160)
        taken_over = other.ask(embedded)
    assert len(taken_over) == len(set(taken_over)) >= 160 - made > 0


def _vectors(folder: Path) -> int:
    return row_counts(folder)["vectors"]


def _wait_until(condition: Callable[[], bool]) -> None:
    """Polls for at most a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "the condition did not become true within a minute"
        time.sleep(0.05)


# ---------------------------------------------------------------- limits under contention


def crowd(where: Path | str, item: int, who: int, rounds: int) -> int:
    """Adds tags until that is refused, then removes some, and so on; returns the number of refusals."""
    refused = 0
    with Memory.open(where, embedder="none", background=False) as memory:
        for turn in range(rounds):
            tags = tuple(f"tag-{who}-{turn}-{number}" for number in range(9))
            try:
                memory.update(item, ItemPatch(add_tags=tags, metadata={tags[0]: "x" * 9000}))
            except InvalidItem:
                refused += 1
                mine = tuple(tag for tag in memory.get([item])[0].tags if tag.startswith(f"tag-{who}-"))
                gone = {f"tag-{who}-{earlier}-0": None for earlier in range(turn)}
                memory.update(item, ItemPatch(remove_tags=mine[:64], metadata=gone))
    return refused


LAST = "last"
"""The key of the item that is added last."""


def add_often(where: Path | str, rounds: int) -> list[str]:
    """Adds the same text repeatedly; returns the results that differ from what was added."""
    with Memory.open(where, embedder="none", background=False) as memory:
        added = [memory.add(NewItem("a text that comes and goes", tags=("tag",))) for _ in range(rounds)]
        memory.add(NewItem("no more texts come", key=LAST))
    return [repr(item) for item in added if not isinstance(item, Item) or item.tags != ("tag",)]


def forget_often(where: Path | str) -> int:
    """Forgets items until the last one has been added; returns how many it forgot."""
    gone, ended = 0, False
    with Memory.open(where, embedder="none", background=False) as memory:
        while not ended:
            found = memory.list()
            ended = any(item.key == LAST for item in found)
            for item in found:
                if item.key != LAST:
                    with suppress(NotFound):
                        gone += memory.forget([item.id])
    return gone


CROWDED = 4


def concurrently(*calls: tuple[Callable[..., Any], *tuple[Any, ...]]) -> list[Any]:
    """Runs each call in a process of its own, all at the same time; returns their results."""
    with ThreadPoolExecutor(len(calls)) as threads:
        return [done.result() for done in [threads.submit(trust_child.run, *call) for call in calls]]


@pytest.mark.spec("B7")
@pytest.mark.parametrize("rounds", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_processes_that_change_one_item_keep_its_limits(either: Path | str, rounds: int) -> None:
    with Memory.open(either, embedder="none", background=False) as memory:
        item = memory.add(NewItem("contested", tags=("tag",))).id
        refused = concurrently(*((crowd, either, item, who, rounds) for who in range(CROWDED)))
        assert sum(refused) > 0
        assert memory.check() == []
        assert len(memory.get([item])[0].tags) <= limits.TAGS


@pytest.mark.spec("B7")
@pytest.mark.parametrize("rounds", [60, pytest.param(1500, marks=pytest.mark.soak)])
def test_add_returns_the_item_while_another_process_forgets_it(either: Path | str, rounds: int) -> None:
    wrong, *gone = concurrently((add_often, either, rounds), (forget_often, either), (forget_often, either))
    assert wrong == []
    assert sum(gone) > 0


# ---------------------------------------------------------------- one fact


STATING, VALUES = 3, 12
STATE = """
import sys
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem
place, writer, values = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Memory.open(place, embedder="none", background=False) as memory:
    print("open", flush=True)
    sys.stdin.readline()
    for number in range(values):
        memory.add(NewItem(f"value {number} of {writer}", subject="Maria", attribute="address"))
"""


@pytest.mark.spec("C15")
def test_writers_of_one_fact_leave_one_present_value_and_one_chain(either: Path | str) -> None:
    place = str(either)
    with Memory.open(place, embedder="none", background=False) as memory:
        memory.add("something else")
        writers = [started(place, number) for number in range(STATING)]
        for writer in writers:
            assert writer.stdout.readline() == "open\n"
        for writer in writers:  # all are open: they begin together
            writer.stdin.write("\n")
            writer.stdin.flush()
        assert [writer.communicate()[1] for writer in writers] == [""] * STATING
        present = memory.list({"subject": "Maria"})
        assert len(present) == 1
        values = {item.id: item for item in memory.history(present[0].id)}
        assert {item.text for item in values.values()} == {
            f"value {number} of {writer}" for writer in range(STATING) for number in range(VALUES)
        }
        chain = [present[0]]
        while (before := chain[-1].supersedes) is not None:
            chain.append(values[before])
        assert sorted(item.id for item in chain) == sorted(values)
        assert [item.superseded_at is None for item in chain] == [True] + [False] * (STATING * VALUES - 1)
        for later, earlier in itertools.pairwise(chain):
            assert earlier.superseded_at == (later.valid_from or later.created_at)
        found = memory.search("value of", filters={"subject": "Maria"}, top_k=10).results
        assert [result.id for result in found] == [present[0].id]
        assert memory.check() == []


def started(place: str, number: int) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", STATE, place, str(number), str(VALUES)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

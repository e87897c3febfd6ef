"""Stores that are synchronised while processes die: nothing lost, nothing back that was deleted, all equal."""

import json
import random
import threading
from collections import defaultdict
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import http_server
import pytest
import trust_child
import trust_sync_work as work
from test_trust_kills import seeded
from trust_sync_work import WORD, open_stores

from fourfold import Memory, NewItem, connect
from fourfold.errors import StoreUnavailable

pytestmark = pytest.mark.spec("D7")


def contents(memory: Memory) -> list[str]:
    """Everything that a store holds, without its ids, times of files and what follows from texts."""
    records: list[Any] = []
    memory.store.portable.export(records.append)
    names: dict[tuple[str, int], str] = {}
    for each in records:
        if each["type"] in ("raw", "item"):
            place = each["created_at"] if each.get("path") is None else f"{each['path']} {each['chunk_index']}"
            names[each["type"], each["id"]] = f"{place} {each.get('content') or each['text']}"
        elif each["type"] == "node":
            names["node", each["id"]] = f"{each['name'].lower()}#{each['label']}"
        elif each["type"] == "version" and each["merged"]:
            names["item", each["id"]] = f"{each['record']['created_at']} {each['record']['text']}"
    shown: list[Any] = []
    for each in records:
        kept = {name: value for name, value in each.items() if name not in ("id", "vector", "mtime_ns", "size")}
        match each["type"]:
            case "item":
                kept["source_ids"] = [names["raw", raw] for raw in each["source_ids"]]
                for name in ("supersedes", "version_of"):
                    if name in each:
                        kept[name] = names["item", each[name]]
                if each["path"] is not None:
                    kept = {name: kept[name] for name in ("path", "chunk_index", "title", "text", "metadata", "tags")}
            case "version":
                kept["item"] = names["item", each["item"]]
                gone = {"source_ids", "supersedes", "version_of"}
                kept["record"] = {name: value for name, value in each["record"].items() if name not in gone}
            case "node":
                kept = {"node": names["node", each["id"]], "aliases": each["aliases"], "properties": each["properties"]}
                kept["items"] = sorted(names["item", item] for item, _ in each["items"])
            case "edge":
                kept |= {end: names["node", each[end]] for end in ("source", "target")}
            case "mention":
                kept = {"item": names["item", each["item"]], "mentions": names["node", each["node"]]}
            case _:
                pass
        shown.append(json.dumps(kept, sort_keys=True))
    return sorted(shown)


def history_words(memory: Memory) -> set[str]:
    return {word for line in contents(memory) for word in WORD.findall(line)}


def follow(journal: Path) -> tuple[dict[str, set[str]], set[str], set[str]]:
    """The confirmed words of each line, the lines that were forgotten, and the words that were."""
    said = [json.loads(line) for line in journal.read_text().splitlines()]
    written: dict[str, set[str]] = defaultdict(set)
    together: dict[str, str] = {}
    gone: set[str] = set()
    begun: list[tuple[str, Any]] = []

    def root(line: str) -> str:
        while line in together:
            line = together[line]
        return line

    for what, value in said:
        assert what != "error", value
        if what == "opened":
            begun = []  # what was begun before is not confirmed
        elif what != "done":
            begun.append((what, value))
        else:
            for kind, (first, second) in begun:
                if kind == "written":
                    written[first].add(second)
                elif kind == "forgetting":
                    gone.update(second)
            begun = []
    for what, value in said:
        if what == "merged" and root(value[0]) != root(value[1]):
            together[root(value[1])] = root(value[0])
    lines = {root(value[0]) for what, value in said if what == "forgetting"}
    kept: dict[str, set[str]] = defaultdict(set)
    for line, words in written.items():
        kept[root(line)] |= words
    return kept, lines, gone


@pytest.mark.parametrize("stores", [2, 3])
@pytest.mark.parametrize(
    ("kills", "operations"), [(6, 100), pytest.param(30, 1000, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_random_writes_to_several_stores_with_kills(tmp_path: Path, kills: int, operations: int, stores: int) -> None:
    chance, journal = random.Random(next(seeded("sync"))), tmp_path / "journal"
    most = 3 * operations // kills
    for _ in range(kills):
        trust_child.kill_after(chance.randint(1, most), chance, work.write_and_sync, tmp_path, stores, most)
    while journal.read_text().count('["done"') < operations:
        trust_child.run(work.write_and_sync_alone, tmp_path, stores, most, chance.randrange(1 << 30))
    with ExitStack() as opened:
        memories = [opened.enter_context(memory) for memory in open_stores(tmp_path, stores)]
        for _ in range(stores):  # what the first pair agreed on reaches the others
            for one, two in pairwise([*memories, memories[0]]):
                one.sync(two)
        first, *others = memories
        for other in others:
            assert contents(first) == contents(other)
            again = other.sync(first)
            assert (again.sent, again.received) == ({}, {})
        assert [memory.check() for memory in memories] == [[]] * stores
        found = history_words(first)
        written, forgotten, gone = follow(journal)
        lost = {line: words - found for line, words in written.items() if line not in forgotten and words - found}
        assert lost == {}
        assert found & gone == set()
        print(sum(map(len, written.values())), "texts", len(forgotten), "lines forgotten", len(found), "texts kept")


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak)])
def test_a_server_that_is_killed_while_it_synchronises(tmp_path, monkeypatch, kills):
    chance, ended = random.Random(next(seeded("server"))), 0
    monkeypatch.setattr("fourfold.client.RETRY_SECONDS", 0.0)
    with Memory.open(tmp_path / "one", embedder="none", background=False) as one:
        for number in range(kills):
            one.add_many([NewItem(f"zqone{number}.{n}zq", key=f"k{n}") for n in range(number % 7, 400, 3)])
            if number % 2:
                one.forget([item.id for item in one.list(limit=20)])
            server = http_server.start(tmp_path / "two")
            with server.process as process, connect(server.url) as remote:
                timer = threading.Timer(chance.random() / 5, process.kill)
                timer.start()
                try:
                    one.sync(remote)
                except StoreUnavailable:
                    ended += 1
                timer.join()
        print(ended, "of", kills, "inside of a sync")
        with Memory.open(tmp_path / "two", embedder="none", background=False) as two:
            one.sync(two)
            assert contents(one) == contents(two)
            again = two.sync(one)
            assert (again.sent, again.received) == ({}, {})
            assert one.check() == two.check() == []

"""The work of children in the tests of `sync`: random writes to stores that are synchronised, until killed.

Every text has a word that no other one has, and the name of its line: the item whose text it is, also after changes.
"""

import json
import os
import random
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fourfold import Item, ItemPatch, Memory, NewItem

WORD = re.compile(r"zq[a-z]+zq")
LINE = re.compile(r"line-\w+")
TAGS = ("iron", "silk", "salt")
PLACES = ("Amber Harbour", "Birch Tunnel", "Cobalt Tower", "Dune Chapel")
NAMES = ("one", "two", "three")


def open_stores(folder: Path, count: int) -> list[Memory]:
    return [Memory.open(folder / name, embedder="none", background=False) for name in NAMES[:count]]


def write_and_sync(folder: Path, stores: int, operations: int, seed: int, pipe: Any) -> None:
    """Tells the pipe of each operation, after it has told the journal what it does."""
    memories = open_stores(folder, stores)
    journal = os.open(folder / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(journal, b'["opened", null]\n')
    try:
        for number in range(operations):
            name = f"{seed}{number:04}"
            _Writer(memories, journal, random.Random(name), name).operate(folder)
            if pipe is not None:
                pipe.send(None)
    except BaseException:
        os.write(journal, json.dumps(["error", traceback.format_exc()]).encode() + b"\n")
        raise


def write_and_sync_alone(folder: Path, stores: int, operations: int, seed: int) -> None:
    write_and_sync(folder, stores, operations, seed, None)


class _Writer:
    def __init__(self, memories: list[Memory], journal: int, chance: random.Random, name: str) -> None:
        self._memories, self._journal, self._chance = memories, journal, chance
        self._word = "zq" + "".join("bcdfghjklm"[int(digit)] for digit in name) + "zq"
        self._name = name

    def operate(self, folder: Path) -> None:
        memory = self._chance.choice(self._memories)
        items = [item for item in memory.list(limit=1000) if item.path is None]
        kinds: list[Callable[[], None]] = [
            lambda: self._add(memory), lambda: self._add(memory), lambda: self._put(memory),
            lambda: self._index(memory, folder), lambda: self._connect(memory),
            lambda: memory.sync(self._other(memory)), lambda: memory.sync(self._other(memory)),
        ]  # fmt: skip
        if items:
            item = self._chance.choice(items)
            kinds += [
                lambda: self._update(memory, item), lambda: self._update(memory, item),
                lambda: self._forget(memory, item), lambda: self._undo(memory, item),
                lambda: self._merge(memory, item, self._chance.choice(items)), lambda: self._disconnect(memory),
                lambda: memory.forget_raw([raw.id for raw in memory.list_raw(limit=1)], force=True),
            ]  # fmt: skip
        self._chance.choice(kinds)()
        self._say("done", None)

    def _other(self, memory: Memory) -> Memory:
        return self._chance.choice([each for each in self._memories if each is not memory])

    def _say(self, what: str, value: Any) -> None:
        os.write(self._journal, json.dumps([what, value]).encode() + b"\n")

    def _text(self, line: str) -> str:
        text = f"{self._word} {line} from {self._chance.choice(PLACES)} to {self._chance.choice(PLACES)}"
        self._say("written", [line, self._word])
        return text

    def _tags(self) -> tuple[str, ...]:
        return tuple(self._chance.sample(TAGS, self._chance.randint(0, 2)))

    def _add(self, memory: Memory) -> None:
        sources = ()
        if self._chance.random() < 0.3:
            sources = (memory.add_raw(f"said {self._name}", "Ada", "s").id,)
        fact = {"subject": "Door", "attribute": self._chance.choice(TAGS)} if self._chance.random() < 0.3 else {}
        text = self._text(f"line-{self._name}")
        memory.add(NewItem(text, tags=self._tags(), source_ids=sources, metadata={"n": self._name}, **fact))

    def _put(self, memory: Memory) -> None:
        key = f"k{self._chance.randint(0, 5)}"
        fact = {"subject": key, "attribute": "state"} if key in ("k0", "k1") else {}
        memory.add(NewItem(self._text(f"line-{key}"), key=key, title=f"Note {key}", tags=self._tags(), **fact))

    def _update(self, memory: Memory, item: Item) -> None:
        if item.superseded_at is not None:
            return
        if self._chance.random() < 0.5:
            patch = ItemPatch(text=self._text(line_of(item.text)))
        else:
            patch = ItemPatch(add_tags=self._tags(), remove_tags=item.tags[:1], metadata={"m": self._name})
        memory.update(item.id, patch)

    def _forget(self, memory: Memory, item: Item) -> None:
        words = [word for each in memory.history(item.id) for word in WORD.findall(each.text)]
        facts = item.attribute is not None  # the other values of the fact stay
        self._say("forgetting", [line_of(item.text), WORD.findall(item.text) if facts else words])
        memory.forget([item.id])

    def _undo(self, memory: Memory, item: Item) -> None:
        if item.superseded_at is None and item.attribute is None and len(memory.history(item.id)) > 1:
            memory.undo(item.id)

    def _merge(self, memory: Memory, item: Item, other: Item) -> None:
        if item.id != other.id and item.attribute is other.attribute is other.key is None:
            self._say("merged", [line_of(item.text), line_of(other.text)])
            memory.merge(item.id, [other.id])

    def _index(self, memory: Memory, folder: Path) -> None:
        notes = folder / f"notes-{NAMES[self._memories.index(memory)]}"
        notes.mkdir(exist_ok=True)
        file = notes / f"{self._chance.randint(0, 2)}.md"
        if self._chance.random() < 0.3:
            file.unlink(missing_ok=True)
        else:
            parts = [f"# Part {n}\n\n{self._name} {n} {'gate ' * self._chance.randint(1, 300)}" for n in range(3)]
            file.write_text("\n\n".join(parts), "utf-8")
        memory.index_folders([notes])

    def _connect(self, memory: Memory) -> None:
        start, end = self._chance.sample(PLACES, 2)
        if self._chance.random() < 0.5:
            memory.add_node(start, "place", [f"Alias {self._chance.randint(0, 5)}"], {"p": self._name})
        else:
            memory.add_edge(f"{start}#place", "leads to", f"{end}#place", self._chance.choice((0.25, 0.5, 1.0)))

    def _disconnect(self, memory: Memory) -> None:
        shown = [each for each in memory.nodes() if each.label == "place"]
        node = memory.node(f"{shown[0].name}#place") if shown else None
        if node is not None and node.edges and self._chance.random() < 0.7:
            edge = node.edges[0]
            memory.remove_edge(f"{edge.source}#place", edge.relation, f"{edge.target}#place")
        elif node is not None and self._chance.random() < 0.3:
            memory.remove_node(node.node.name, node.node.label)


def line_of(text: str) -> str:
    return (LINE.findall(text) or ["line-file"])[0]

"""The work of children in the kill tests: write until killed, inspect what is left, embed all items again.

A store is compared as a map of *places* (`item KEY`, `edge SOURCE|RELATION|TARGET`, `node NAME`) to values. A writer
says in its journal what an operation will set before it begins, and that it is confirmed after it returned.
"""

import json
import math
import mmap
import os
import random
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
from concurrently import begin, results
from engine_support import WordEmbedder
from oracle import Oracle, faults
from store_calls import StoreCalls

from fourfold import ItemPatch, Memory, NewItem, Query
from fourfold.engine.retrievers import FACTORIES
from fourfold.index import publish
from fourfold.limits import PAGE_SIZE
from fourfold.model import NO_FILTERS
from fourfold.storage.sqlite.database import Connection, Database, Tuning
from fourfold.storage.sqlite.store import SqliteStore
from fourfold.storage.values import Pace

Places = dict[str, Any]
Effect = Places
"""The places that an operation sets, all or none of them; None means that it empties the place."""

TRANSACTION, PUBLICATION, STOP = range(3)
"""Bytes shared by parent and child: inside a transaction; inside a publication (2: swapping the manifest); stop."""

SITES = ("Amber Harbour", "Birch Tunnel", "Cobalt Tower", "Dune Chapel", "Elm Crossing", "Flint Quarry", "Glass Mill")
PEOPLE = ("Ada", "Bela", "Cyra", "Dorn", "Edda", "Fenn")
FAMILIES = ("Quill", "Rook", "Sable", "Thorn")
TAGS = ("iron", "silk", "salt", "Tea", "wool", "ÄTHER")
ANIMALS = ("heron", "otter", "badger", "lynx", "marten", "raven", "viper", "stoat")
ALL = "ledger"
"""A word that every text has."""
MOST_ITEMS = 40
"""Items that a writer keeps at most."""


# ---------------------------------------------------------------- what parent and child share


def shared_bytes(path: Path) -> mmap.mmap:
    """Shared memory whose contents survive the death of the writer."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(handle, 8)
        return mmap.mmap(handle, 8)
    finally:
        os.close(handle)


class Journal:
    """A log file whose lines have reached the kernel when `say` returns."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, what: str, who: int = 0, value: Any = None) -> None:
        line = json.dumps([what, who, value]).encode() + b"\n"
        assert os.write(self._handle, line) == len(line)


def _watch(marks: mmap.mmap, said: Journal) -> None:
    """Records in the shared bytes what this process is doing, and in the journal what it has published."""
    write = Database.write

    @contextmanager
    def watched(self: Database) -> Generator[Connection]:
        try:
            with write(self) as db:
                marks[TRANSACTION] = 1
                yield db
        finally:
            marks[TRANSACTION] = 0

    Database.write = watched  # type: ignore[method-assign]
    for name, value in (("publish_text", 1), ("publish_vectors", 1), ("_finish", 2)):
        setattr(publish, name, _marked(getattr(publish, name), marks, value, said))


def _marked(work: Callable[..., Any], marks: mmap.mmap, value: int, said: Journal) -> Callable[..., Any]:
    def marked(*args: Any, **kwargs: Any) -> Any:
        before, marks[PUBLICATION] = marks[PUBLICATION], value
        try:
            done = work(*args, **kwargs)
        finally:
            marks[PUBLICATION] = before
        if done:
            said.say("published")
        return done

    return marked


_tuning = Tuning()


def _publish_often(seed: int) -> None:
    """Publishes every few changes; processes with an odd seed append where the others rewrite the index."""
    global _tuning
    _tuning = Tuning(publish_every_changes=5, dead_share=(0.1, 0.6)[seed % 2], pace=Pace(quiet_seconds=0.002))


# ---------------------------------------------------------------- writing


def write_until_killed(folder: Path, journal: Path, marks: Path, seed: int, writers: Sequence[int]) -> None:
    """Writes, publishes and embeds in several threads until killed or told to stop."""
    said = Journal(journal)
    try:
        shared = shared_bytes(marks)
        _watch(shared, said)
        _publish_often(seed)
        _write_all(folder, said, shared, seed, writers)
    except BaseException:
        said.say("error", value=traceback.format_exc())
        raise


def _write_all(folder: Path, said: Journal, shared: mmap.mmap, seed: int, writers: Sequence[int]) -> None:
    with Memory.open(SqliteStore(folder, tuning=_tuning), embedder=WordEmbedder()) as memory:
        known = places(folder)
        said.say("open")
        work = [partial(Writer(memory, said, who, seed, known).work, shared) for who in writers]
        work.append(partial(_chores, memory, random.Random(f"{seed} chores"), shared))
        results(*(partial(_recording_errors, said, each) for each in work))


def _recording_errors(said: Journal, work: Callable[[], None]) -> None:
    """Runs `work` and records an error at once, since the process may be killed before its other threads end."""
    try:
        work()
    except BaseException:
        said.say("error", value=traceback.format_exc())
        raise


def _chores(memory: Memory, chance: random.Random, shared: mmap.mmap) -> None:
    while not shared[STOP]:
        chore = chance.choice((memory.index, memory.embed_pending, None))
        if chore is not None:
            chore()
        else:
            response = memory.search(f"{ALL} {chance.choice(ANIMALS)} {chance.choice(SITES)} iron")
            assert not [each for each in response.degraded if not each.pending], response.degraded
        assert not memory.troubles(), memory.troubles()
        time.sleep(chance.uniform(0, 0.02))


class Writer:
    """One of several concurrent writers of a store; each has its own items, relations and people."""

    def __init__(self, memory: Memory, said: Journal, who: int, seed: int, known: Places) -> None:
        self._memory = memory
        self._recording_errors = said
        self._who = who
        self._born = f"{who}.{seed}"
        self._count = 0
        self._chance = random.Random(f"{seed} writer {who}")
        self._known = {place: value for place, value in known.items() if owner(place) == who}

    def work(self, shared: mmap.mmap) -> None:
        while not shared[STOP]:
            effect, call = self._next()
            self._recording_errors.say("begun", self._who, effect)
            call()
            self._recording_errors.say("done", self._who)
            self._known = after(self._known, effect)
            self._read_it_back(effect)
            time.sleep(self._chance.choice((0, 0, self._chance.uniform(0, 0.01))))

    def _next(self) -> tuple[Effect, Callable[[], Any]]:
        keys = [place.removeprefix("item ") for place in self._known if place.startswith("item ")]
        if not keys:
            return self._add(MOST_ITEMS // 2)
        if len(keys) > MOST_ITEMS:
            return self._forget(keys, 12)
        kinds = (
            lambda: self._add(1),
            lambda: self._add(self._chance.randint(2, 6)),
            lambda: self._update(self._chance.choice(keys)),
            lambda: self._update(self._chance.choice(keys)),
            lambda: self._forget(keys, self._chance.randint(1, 3)),
            self._connect,
            self._disconnect,
            lambda: self._name(self._chance.choice(keys)),
        )
        return self._chance.choice(kinds)()

    def _add(self, count: int) -> tuple[Effect, Callable[[], Any]]:
        made = {f"{self._born}.{self._count + n}": self._content() for n in range(count)}
        new = [NewItem(text, key=key, title=title, tags=tuple(tags)) for key, (title, text, tags) in made.items()]
        wait = self._chance.random() < 0.3
        effect = {f"item {key}": content for key, content in made.items()}
        return effect, lambda: self._memory.add(new[0], wait=wait) if count == 1 else self._memory.add_many(new)

    def _update(self, key: str) -> tuple[Effect, Callable[[], Any]]:
        title, text, tags = self._known[f"item {key}"]
        what = self._chance.choice(("text", "title", "tags", "all"))
        fresh = self._content()
        title = fresh[0] if what in ("title", "all") else title
        text = fresh[1] if what in ("text", "all") else text
        wanted = fresh[2] if what in ("tags", "all") else tags
        gone, added = sorted(set(tags) - set(wanted)), sorted(set(wanted) - set(tags))
        patch = ItemPatch(text=text, title=title, add_tags=tuple(added), remove_tags=tuple(gone))
        return {f"item {key}": [title, text, wanted]}, lambda: self._memory.update(f"key:{key}", patch)

    def _forget(self, keys: list[str], count: int) -> tuple[Effect, Callable[[], Any]]:
        gone = self._chance.sample(keys, min(count, len(keys)))
        effect: Effect = {f"item {key}": None for key in gone}
        for place, value in self._known.items():
            if place.startswith("node ") and value[2] in gone:
                effect[place] = [*value[:2], None]
        return effect, lambda: self._memory.forget([f"key:{key}" for key in gone])

    def _connect(self) -> tuple[Effect, Callable[[], Any]]:
        ends = [self._chance.sample(SITES, 2) for _ in range(self._chance.randint(1, 3))]
        edges = {(source, f"way {self._who}", target): self._chance.choice((0.25, 0.5, 1.0)) for source, target in ends}
        effect = {"edge " + "|".join(edge): weight for edge, weight in edges.items()}
        return effect, lambda: self._memory.add_edges([(*edge, weight) for edge, weight in edges.items()])

    def _disconnect(self) -> tuple[Effect, Callable[[], Any]]:
        edges = [place for place in self._known if place.startswith("edge ")]
        if not edges:
            return self._connect()
        gone = self._chance.choice(edges)
        return {gone: None}, lambda: self._memory.remove_edge(*gone.removeprefix("edge ").split("|"))

    def _name(self, key: str) -> tuple[Effect, Callable[[], Any]]:
        name = f"{self._chance.choice(PEOPLE)} {FAMILIES[self._who]}"
        aliases, _, item = self._known.get(f"node {name}", ([], 0, key))
        attach = f"key:{key}" if f"node {name}" not in self._known else None
        alias = f"Mate {self._chance.randint(0, 9)} {FAMILIES[self._who]}"
        self._count += 1
        effect = {f"node {name}": [sorted({*aliases, alias}), self._count, item]}
        number = {"number": self._count}
        return effect, lambda: self._memory.add_node(name, "person", [alias], number, attach)

    def _content(self) -> list[Any]:
        """Title, text and tags; the text contains a unique word."""
        self._count += 1
        site, other, title = (self._chance.choice(SITES) for _ in range(3))
        family = self._chance.choice(FAMILIES)
        text = (
            f"{token(f'{self._born}.{self._count}')} {ALL}: {self._chance.choice(PEOPLE)} {family} of {site} wrote to "
            f"mate {self._chance.randint(0, 9)} {family} in {other} about the {self._chance.choice(ANIMALS)}"
        )
        tags = sorted(self._chance.sample(TAGS, self._chance.randint(0, 3)))
        return [title if self._chance.random() < 0.3 else "", text, tags]

    def _read_it_back(self, effect: Effect) -> None:
        """Asserts, for some writes, that a search finds a confirmed item at once."""
        place, value = self._chance.choice(list(effect.items()))
        if value is None or not place.startswith("item ") or self._chance.random() < 0.8:
            return
        response = self._memory.search(value[1].split()[0], only=["keyword"])
        assert [hit.item.key for hit in response.results] == [place.removeprefix("item ")], (place, response)


def token(name: str) -> str:
    """Encodes digits and dots as a word of letters that no stemmer changes."""
    return "zq" + "".join("bcdfghjklmx"["0123456789.".index(each)] for each in name) + "zq"


def owner(place: str) -> int:
    """The only writer that changes this place."""
    kind, name = place.split(" ", 1)
    if kind == "item":
        return int(name.split(".")[0])
    if kind == "edge":
        return int(name.split("|")[1].removeprefix("way "))
    return FAMILIES.index(name.split(" ")[1])


def after(known: Places, effect: Effect) -> Places:
    """The places after this effect."""
    return {place: value for place, value in {**known, **effect}.items() if value is not None}


# ---------------------------------------------------------------- inspecting what is left


@contextmanager
def _rows(folder: Path) -> Generator[Callable[..., list[Any]]]:
    """Reads the database directly, in one snapshot."""
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        db.set_busy_timeout(10_000)
        db.execute("BEGIN")
        yield lambda sql: db.execute(sql).fetchall()
    finally:
        db.close()


def places(folder: Path) -> Places:
    """Everything that writers stored, read directly from the database."""
    found: Places = {}
    with _rows(folder) as rows:
        tags: dict[int, list[str]] = {}
        for item, name in rows("SELECT item, name FROM item_tags ORDER BY name"):
            tags.setdefault(item, []).append(name)
        for item, key, title, text in rows("SELECT id, key, title, text FROM items"):
            found[f"item {key}"] = [title, text, tags.get(item, [])]
        named = dict(rows("SELECT id, name FROM nodes"))
        for source, relation, target, weight in rows("SELECT source, relation, target, weight FROM edges"):
            found[f"edge {named[source]}|{relation}|{named[target]}"] = weight
        aliases: dict[int, list[str]] = {}
        for node, alias in rows("SELECT node, alias FROM names WHERE alias IS NOT NULL ORDER BY alias"):
            aliases.setdefault(node, []).append(alias)
        owned = dict(rows("SELECT node, key FROM node_items JOIN items ON id = item"))
        for node, properties in rows("SELECT id, properties FROM nodes WHERE label = 'person'"):
            number = json.loads(properties)["number"]
            found[f"node {named[node]}"] = [aliases.get(node, []), number, owned.get(node)]
    return found


_LEFT_OPEN: list[Memory] = []


def look(folder: Path, close: bool = True, quiet: bool = True) -> tuple[Places, list[str]]:
    """Opens the store that a dead process left; returns its places and all inconsistencies.

    Without `close`, the store stays open, as if this process had been killed as well. Without `quiet`, others may be
    writing, and only `check` runs.
    """
    memory = Memory.open(folder, embedder=WordEmbedder(), background=False)
    problems = list(memory.check())
    if quiet:
        problems += _unlike_the_oracle(memory, folder, WordEmbedder())
    if close:
        memory.close()
    else:
        _LEFT_OPEN.append(memory)
    return places(folder), problems


class _Expected:
    """Collects differences between found and wanted values."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def same(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            self.problems.append(f"{what}: {found!r} where the rows say {wanted!r}")

    def near(self, what: str, found: Mapping[int, float], wanted: Mapping[int, float]) -> None:
        """Expects the same ids with the same scores, up to rounding."""
        pairs = {item: (found.get(item, -9.0), wanted.get(item, -9.0)) for item in {*found, *wanted}}
        self.same(what, {item: pair for item, pair in pairs.items() if not math.isclose(*pair, abs_tol=1e-5)}, {})


def _unlike_the_oracle(memory: Memory, folder: Path, embedder: WordEmbedder) -> list[str]:
    """Differences between rows, vectors and links, and between each retriever and the oracle, which reads the rows."""
    expected, space = _Expected(), memory.namespace
    with _rows(folder) as rows:
        texts = {item: (title, text) for item, title, text in rows("SELECT id, title, text FROM items")}
        vectors = dict(rows("SELECT item, vector FROM vectors"))
        waiting = [item for (item,) in rows("SELECT item FROM waiting")]
        is_linked = not rows("SELECT 1 FROM unlinked")
    expected.same("items with a vector or in the queue", sorted([*vectors, *waiting]), sorted(texts))
    wanted = {item: embedder.vector("\n".join(filter(None, texts[item]))).tobytes() for item in vectors}
    expected.same("vectors of another text or model", [item for item in vectors if vectors[item] != wanted[item]], [])
    engine, oracle = StoreCalls(memory.store), StoreCalls(Oracle(memory.store))
    unique = [texts[item][1].split()[0] for item in sorted(texts, reverse=True)[:8]]
    for text in (f"{ALL} of the otter and the heron", "Ada Quill of Cobalt Tower", "iron silk äther badger", *unique):
        for name, retriever in FACTORIES.items():
            if (name != "graph" or is_linked) and (name != "semantic" or vectors):
                query = Query(space, text, embedder.vector(text))
                with engine.snapshot(space) as at, oracle.snapshot(space) as exact:
                    one, other = (retriever(each).search(query, len(texts) + 10).hits for each in (at, exact))
                expected.near(f"{text!r} by {name}", dict(one), dict(other))
    expected.same("list", engine.list(space, NO_FILTERS, PAGE_SIZE, 0), oracle.list(space, NO_FILTERS, PAGE_SIZE, 0))
    expected.same("tag counts", dict(engine.tag_counts(space)), dict(oracle.tag_counts(space)))
    records: list[Any] = []
    engine.export(records.append, namespace=space)
    expected.same("links", faults(records, removals=True) if is_linked else [], [])
    return expected.problems


# ---------------------------------------------------------------- embedding all items again


class SlowEmbedder(WordEmbedder):
    """A slow embedder whose vectors depend on its name."""

    def vector(self, text: str) -> Any:
        return super().vector(f"{self.fingerprint} {text} {self.fingerprint}")

    def embed(self, texts: Sequence[str]) -> Any:
        time.sleep(0.01)
        return super().embed(texts)


MODELS = {"words/32": ("words", 32), "other/32": ("other", 32), "wide/48": ("wide", 48)}


def fill(folder: Path, count: int) -> None:
    """Makes a store with indexes and with vectors of the first model."""
    with Memory.open(folder, embedder=SlowEmbedder()) as memory:
        items = [NewItem(f"{token(str(n))} {ALL}: the {ANIMALS[n % 8]} at gate {n % 13}") for n in range(count)]
        memory.add_many(items, wait=True)
        memory.index()


def reembed(folder: Path, journal: Path, marks: Path, model: str) -> None:
    """Embeds all items again while another thread publishes; records the progress in the journal."""
    said = Journal(journal)
    try:
        _watch(shared_bytes(marks), said)
        _publish_often(1)
        _reembed(folder, said, model)
    except BaseException:
        said.say("error", value=traceback.format_exc())
        raise


def _reembed(folder: Path, said: Journal, model: str) -> None:
    store = SqliteStore(folder, tuning=_tuning)
    with Memory.open(store, embedder=SlowEmbedder(*MODELS[model]), background=False) as memory:
        said.say("open")
        end = threading.Event()
        publishing = begin(lambda: _publishing(memory, end))
        made = memory.reembed(lambda done, total: said.say("made", value=done))
        end.set()
        publishing.result()
    said.say("finished", value=made)


def _publishing(memory: Memory, end: threading.Event) -> None:
    while not end.wait(0.03):
        memory.index()


def look_at_vectors(folder: Path) -> tuple[str, int, list[str]]:
    """The model of the vectors, their number, and all inconsistencies."""
    expected = _Expected()
    with _rows(folder) as rows:
        ((fingerprint, dimension),) = rows("SELECT fingerprint, dimension FROM namespaces")
        ((count,),) = rows("SELECT count(*) FROM vectors")
    embedder = SlowEmbedder(*MODELS[fingerprint])
    expected.same("dimension", dimension, embedder.dimension)
    with Memory.open(folder, embedder=embedder, background=False) as memory:
        problems = [*memory.check(), *_unlike_the_oracle(memory, folder, embedder)]
        expected.same("answers", len(memory.search("the otter at gate 4", top_k=5).results), 5)
    return fingerprint, count, expected.problems + problems

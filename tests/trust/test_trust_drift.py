"""Rows and indexes made inconsistent behind the engine's back: `check` finds it and `repair` fixes it."""

import json
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import apsw
import numpy as np
import pytest
from engine_support import DIMENSION, WordEmbedder
from trust_model import WAYS, agree, plain

from fourfold import ItemPatch, Memory, NewItem
from fourfold.index import segment_files, vector_index

UNUSED_ID = 9999
"""An id that no row has."""

# ---------------------------------------------------------------- a store with every kind of row

QUERIES = ("Mietvertrag der Wohnung", "the contracts of Müller in Berlin", "Projekt Adler und Haus", "work plan")
PLACES = ("Berlin", "Projekt Adler", "Müller", "Café Central")


def item(number: int) -> NewItem:
    place, other = PLACES[number % 4], PLACES[number // 4 % 4]
    german = f"Der Mietvertrag {number} für das Haus in {place} endet, die Wohnung nicht"
    english = f"The contract {number} with {place} was signed for the house and the plan"
    return NewItem(
        english if number % 3 else german,
        title=f"{other} {number % 8}" if number % 2 else "",
        tags=("work", "plan", "Haus")[: number % 4],
        language="en" if number % 3 else "de",
    )


def filled(folder: Path) -> None:
    """Fills a store with published rows, some of them dead, a tail, and items without vectors."""
    with Memory.open(folder, embedder=WordEmbedder(), background=False) as memory:
        memory.add_many([item(number) for number in range(40)], wait=True)
        for place in PLACES:
            memory.add_node(place, aliases=(f"{place} 2024",))
            memory.add_edge(place, "knows", PLACES[0], 0.5)
        raw = memory.add_raw("Der Vertrag, wie er war")
        memory.add(NewItem("Vertrag aus einer Quelle, [[Berlin]]", source_ids=(raw.id,)), wait=True)
        memory.index()
        memory.update(3, ItemPatch(text="Das Haus der Familie Müller"))
        memory.forget([5])
        memory.embed_pending()
        memory.index()
        memory.add_many([item(number) for number in range(40, 44)], wait=True)
        memory.update(8, ItemPatch(text="The house in Berlin"))
        memory.add_many([item(number) for number in range(44, 48)])


def answers(memory: Memory) -> Any:
    """Answers that depend on every index, counter and link."""
    ways = [way for way in WAYS if way != {"namespaces": ("notes", "papers")} and way.get("preset") != "memories"]
    asked = zip(ways, cycle(QUERIES), strict=False)
    found = [plain(memory.search(text, top_k=50, **way)) for way, text in asked]
    walks = [plain(memory.neighbors(place, depth=2)) for place in PLACES]
    namespaces = memory.status()["namespaces"]
    for facts in namespaces.values():
        facts.pop("unpublished_changes", None)  # changes because `repair` publishes
    return found, walks, memory.tags(), namespaces


@pytest.fixture(scope="module")
def sound() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def undamaged(sound: Path) -> tuple[Path, Any, Any]:
    """The intact store, and its answers before and after the queue of vectors is empty; made once."""
    folder, known = sound / "store", sound / "answers.json"
    if not known.exists():
        filled(folder)
        shutil.copytree(folder, sound / "asked")
        with Memory.open(sound / "asked", embedder=WordEmbedder(), background=False) as memory:
            assert memory.check() == []
            first = answers(memory)
            memory.embed_pending()
            known.write_text(json.dumps((first, answers(memory)), default=str))
    return folder, *json.loads(known.read_text())


# ---------------------------------------------------------------- drift in the rows


@contextmanager
def rows_of(folder: Path) -> Generator[apsw.Connection]:
    """Opens the database as any other program would, without enforcing foreign keys."""
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        yield db
    finally:
        db.close()


def drift(*statements: str) -> Callable[[Path, Random], None]:
    """Executes one of these statements, with random rows and values as parameters."""

    def execute(folder: Path, random: Random) -> None:
        with rows_of(folder) as db:
            columns = {table: "item" if table in ("vectors", "waiting") else "id" for table in TABLES}
            rows = {name: db.execute(f"SELECT {column} FROM {name}").fetchall() for name, column in columns.items()}
            values = {name: random.choice(ids)[0] for name, ids in rows.items()} | {
                "nobody": UNUSED_ID + random.randrange(99),
                "by": random.choice((-2, -1, 1, 3, 1000)),
                "vector": WordEmbedder().vector("nobody").tobytes(),
                "size": random.choice((0, 1, 4, DIMENSION * 4 - 4, DIMENSION * 4 + 4, DIMENSION * 8)),
            }
            db.execute(random.choice(statements), values)

    return execute


TABLES = ("namespaces", "items", "nodes", "tags", "vectors", "waiting")


# ---------------------------------------------------------------- drift in index files


class Published:
    """A published index, whose files can be rewritten with the right checksums."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / "index" / "1" / name
        found = segment_files.read_manifest(self._folder)
        self.manifest = found
        self.files = self._folder / f"g{found.generation}"

    def column(self, name: str, kind: Any) -> Any:
        return np.fromfile(self.files / name, kind, self.manifest.parts[name].size // np.dtype(kind).itemsize)

    def vectors(self) -> Any:
        return self.column("vectors", np.float32).reshape(-1, DIMENSION)

    def live(self, random: Random) -> int:
        """A row whose item has not changed since the publication."""
        dead, ids = self.column("dead", np.bool_), self.column("ids", np.int64)
        return random.choice([row for row in np.flatnonzero(~dead).tolist() if ids[row] not in (3, 5, 8)])

    def write(self, rows: int | None = None, seq: int | None = None, **columns: Any) -> None:
        manifest = replace(self.manifest, rows=rows or self.manifest.rows, seq=seq or self.manifest.seq)
        for name, content in columns.items():
            part = segment_files.replace_file(
                self.files / name, content if isinstance(content, bytes) else content.tobytes()
            )
            manifest = segment_files.with_part(manifest, name, part)
        segment_files.write_manifest(self._folder, manifest)

    def write_vectors(self, matrix: Any, **columns: Any) -> None:
        self.write(len(matrix), vectors=matrix, sums=vector_index.sums(matrix), **columns)


def lacks_an_item(name: str) -> Callable[[Path, Random], None]:
    def drift(folder: Path, random: Random) -> None:
        index = Published(folder, name)
        dead = index.column("dead", np.bool_)
        dead[index.live(random)] = True
        index.write(dead=dead)

    return drift


def has_another_item(name: str) -> Callable[[Path, Random], None]:
    """Changes the id of a row: one item is missing, and an item that does not exist is there."""

    def drift(folder: Path, random: Random) -> None:
        index = Published(folder, name)
        ids = index.column("ids", np.int64)
        ids[index.live(random)] = UNUSED_ID + random.randrange(99)
        index.write(ids=ids)

    return drift


def text_too_many(folder: Path, random: Random) -> None:
    index = Published(folder, "text")
    ids, dead, ends, terms, spoken = (
        index.column(name, kind)
        for name, kind in (
            ("ids", np.int64), ("dead", np.bool_), ("ends", np.int64), ("terms", np.uint32), ("spoken", np.bool_)
        )
    )  # fmt: skip
    row = index.live(random)
    fresh = terms[ends[row - 1] if row else 0 : ends[row]]
    index.write(
        len(ids) + 1,
        ids=np.append(ids, UNUSED_ID),
        dead=np.append(dead, False),
        ends=np.append(ends, ends[-1] + len(fresh)),
        terms=np.concatenate([terms, fresh]),
        spoken=np.append(spoken, spoken[row]),
    )


def vector_too_many(folder: Path, random: Random) -> None:
    index = Published(folder, "vectors")
    matrix, ids, dead = index.vectors(), index.column("ids", np.int64), index.column("dead", np.bool_)
    more = np.concatenate([matrix, matrix[[index.live(random)]]])
    index.write_vectors(more, ids=np.append(ids, UNUSED_ID), dead=np.append(dead, False))


def another_term(folder: Path, random: Random) -> None:
    index = Published(folder, "text")
    terms, ends = index.column("terms", np.uint32), index.column("ends", np.int64)
    row = index.live(random)
    terms[random.randrange(int(ends[row - 1]) if row else 0, int(ends[row]))] ^= 1 << random.randrange(32)
    index.write(terms=terms)


def another_length(folder: Path, random: Random) -> None:
    """Moves the last term of one item to the next item."""
    index = Published(folder, "text")
    ends = index.column("ends", np.int64)
    ends[min(index.live(random), len(ends) - 2)] -= 1
    index.write(ends=ends)


def another_vector(folder: Path, random: Random) -> None:
    index = Published(folder, "vectors")
    matrix = index.vectors()
    row = index.live(random)
    matrix[row] = np.roll(matrix[row], random.randrange(1, DIMENSION))
    index.write_vectors(matrix)


def other_postings(folder: Path, random: Random) -> None:
    """Moves a posting to another row, or counts it twice, in the last of the files, whose checksum stays right."""
    index = Published(folder, "text")
    (name,) = [
        name
        for name in index.manifest.parts
        if name.startswith("postings-") and name.endswith(f"-{index.manifest.rows}")
    ]
    content = bytearray((index.files / name).read_bytes())
    _, _, terms, postings = np.frombuffer(content, np.int64, 4)
    numbers = np.frombuffer(content, np.uint32, postings, 32 + 8 * terms)
    counts = np.frombuffer(content, np.uint8, postings, 32 + 8 * terms + 4 * postings)
    place = random.randrange(postings)
    if random.random() < 0.5:
        numbers[place] += 1
    else:
        counts[place] += 1
    index.write(**{name: bytes(content)})


def other_german_words(folder: Path, random: Random) -> None:
    """Removes a word from the list of words that split compounds, or adds one that no text contains."""
    index = Published(folder, "text")
    lines = (index.files / "german").read_text("utf-8").splitlines()
    if random.random() < 0.5:
        lines.pop(random.randrange(len(lines)))
    else:
        lines = sorted([*lines, "mietwohnungsvertrag 1"])
    index.write(german="\n".join(lines).encode())


def other_languages(folder: Path, random: Random) -> None:
    """Marks a German item as English, or the reverse."""
    index = Published(folder, "text")
    spoken = index.column("spoken", np.bool_)
    spoken[index.live(random)] ^= True
    index.write(spoken=spoken)


def claims_changes(name: str) -> Callable[[Path, Random], None]:
    """Makes the index claim changes that it does not contain."""

    def drift(folder: Path, random: Random) -> None:
        with rows_of(folder) as db:
            last = db.execute("SELECT max(seq) FROM changes").get
        Published(folder, name).write(seq=last)

    return drift


KINDS: dict[str, Callable[[Path, Random], None]] = {
    "counter of items": drift("UPDATE namespaces SET items = items + :by WHERE id = :namespaces"),
    "counter of vectors": drift("UPDATE namespaces SET vectors = vectors + :by WHERE id = :namespaces"),
    "counter of a tag's uses": drift("UPDATE tags SET uses = uses + :by WHERE id = :tags"),
    "counter of a node's holders": drift("UPDATE nodes SET holders = holders + :by WHERE id = :nodes"),
    "counter of a node's mentions": drift("UPDATE nodes SET mentioned = mentioned + :by WHERE id = :nodes"),
    "counter of a node's degree": drift("UPDATE nodes SET degree = degree + :by WHERE id = :nodes"),
    "counters of languages": drift(
        "UPDATE languages SET items = items + 1 WHERE language = 'de'",
        "DELETE FROM languages WHERE language = 'en'",
        "INSERT INTO languages VALUES (1, 'fr', 2)",
    ),
    "no vector, and not in the queue": drift("DELETE FROM waiting WHERE item = :waiting"),
    "in the queue, with a vector": drift("INSERT INTO waiting (ns, item) VALUES (1, :vectors)"),
    "vector without an item": drift("INSERT INTO vectors (item, vector) VALUES (:nobody, :vector)"),
    "vector of a wrong length": drift("UPDATE vectors SET vector = zeroblob(:size) WHERE item = :vectors"),
    "mention that points nowhere": drift(
        "INSERT INTO mentions VALUES (:items, :nobody)", "INSERT INTO mentions VALUES (:nobody, :nodes)"
    ),
    "edge that points nowhere": drift(
        "INSERT INTO edges VALUES (:nodes, 'knows', :nobody, 1.0)",
        "INSERT INTO edges VALUES (:nobody, 'knows', :nodes, 1.0)",
    ),
    "tag that points nowhere": drift(
        "INSERT INTO item_tags VALUES (:tags, :nobody, 'x')", "INSERT INTO item_tags VALUES (:nobody, :items, 'x')"
    ),
    "name that points nowhere": drift(
        "INSERT INTO names VALUES (1, 'berlin', :nobody, NULL)", "INSERT INTO unlinked VALUES (1, :nobody)"
    ),
    "node of a missing item": drift(
        "INSERT INTO node_items VALUES (:nodes, :nobody, 1)", "INSERT INTO node_items VALUES (:nobody, :items, 1)"
    ),
    "link or source that points nowhere": drift(
        "INSERT INTO pointers VALUES (1, 'berlin', :nobody)", "INSERT INTO sources VALUES (:items, 9, :nobody)"
    ),
    "in the queue, without an item": drift("INSERT INTO waiting (ns, item) VALUES (1, :nobody)"),
    "keyword index lacks an item": lacks_an_item("text"),
    "keyword index has an item too many": text_too_many,
    "keyword index has another item": has_another_item("text"),
    "keyword index has another term": another_term,
    "keyword index has another length": another_length,
    "keyword index claims changes": claims_changes("text"),
    "vector index lacks an item": lacks_an_item("vectors"),
    "vector index has an item too many": vector_too_many,
    "vector index has another item": has_another_item("vectors"),
    "vector index has another vector": another_vector,
    "vector index claims changes": claims_changes("vectors"),
    "postings of another row": other_postings,
    "other German words": other_german_words,
    "other languages of rows": other_languages,
}  # fmt: skip

LOSES_VECTORS = ("vector of a wrong length",)
"""Drifts that destroy vectors, which are computed again from the text after the repair."""


# ---------------------------------------------------------------- found and repaired


@pytest.mark.spec("B9")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 7), marks=pytest.mark.soak)])
def test_check_finds_drift_and_repair_fixes_it(kind, seeds, undamaged, fast_folder):
    folder, waiting, whole = undamaged
    wrong: list[str] = []
    for seed in seeds:
        drifted = fast_folder / str(seed)
        shutil.copytree(folder, drifted)
        KINDS[kind](drifted, Random(f"{kind} {seed}"))
        try:
            assert_found_and_repaired(drifted, waiting if kind not in LOSES_VECTORS else None, whole, seed)
        except AssertionError as error:
            wrong.append(f"{kind}, seed {seed}: {str(error).splitlines()[0]}")
        shutil.rmtree(drifted)
    print(f"\n{kind}: {len(seeds)} drifts, {len(wrong)} not found or not repaired")
    assert not wrong, "\n".join(wrong)


def assert_found_and_repaired(folder: Path, waiting: Any, whole: Any, seed: int) -> None:
    """Compares the answers before and after the queue is empty; each of the first two seeds makes one comparison."""
    memory = Memory.open(folder, embedder=WordEmbedder(), background=False)
    try:
        if seed % 2:  # a process that has searched with the index finds it as well
            memory.search(QUERIES[0])
        problems = memory.check()
        assert problems, "check found nothing"
        memory.repair()
        left = memory.check()
        assert left == [], f"not repaired: {left}"
        if seed % 2:
            memory.close()
            memory = Memory.open(folder, embedder=WordEmbedder(), background=False)
        if waiting is not None and seed != 1:
            same(answers(memory), waiting, "answers")
        if waiting is None or seed != 0:
            memory.embed_pending()
            same(answers(memory), whole, "answers with all vectors")
    finally:
        memory.close()


def same(found: Any, wanted: Any, what: str) -> None:
    agree(json.loads(json.dumps(found, default=str)), wanted, what)

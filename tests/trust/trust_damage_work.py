"""A store with published indexes, ways to damage them, and the work of a child on a damaged store."""

import json
import os
import random
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine_support import WordEmbedder

from fourfold.index.segment_files import read_manifest
from fourfold.index.text_index import TextSegment
from fourfold.index.vector_index import VectorSegment
from fourfold.memory import Memory
from fourfold.model import NO_FILTERS, Filters, ItemPatch, NewItem, Space
from fourfold.storage.sqlite.database import Connection, Tuning
from fourfold.storage.sqlite.namespaces import SourceRows
from fourfold.storage.sqlite.store import SqliteStore

DIMENSION = 16
ITEMS = 300
SIDES = ("text", "vectors")
OURS, THEIRS = "1", "2"
"""The folders of the two namespaces below an index."""
Answer = list[tuple[int, float]]
Problems = list[str]


_tuning = Tuning()


def use_small_limits(exact_rows: int = 200) -> None:
    """Lets stores of this process use FAISS from `exact_rows` vectors on, and native code under filters."""
    global _tuning
    _tuning = Tuning(exact_rows=exact_rows, scan_rows=20)


def opened(folder: Path, namespace: str = "default") -> Memory:
    embedder = WordEmbedder(dimension=DIMENSION)
    store = SqliteStore(folder, tuning=_tuning)
    return Memory.open(store, embedder=embedder, namespace=namespace, background=False)


# ---------------------------------------------------------------- the store and its questions

_ENGLISH = ("heron", "otter", "badger", "lynx", "marten", "raven", "viper", "stoat", "gate", "river", "stone", "lamp")
_GERMAN = ("Reiher", "Fischotter", "Dachs", "Wassertor", "Hafenlampe", "Nachtwache", "Steinbruch", "Wiesenweg", "Rabe")
_TAGS = ("water", "wood", "night", "day")


def texts(number: int, chance: random.Random) -> NewItem:
    tags = tuple(chance.sample(_TAGS, chance.randint(0, 2)))
    if number % 5 == 0:
        words = " und ".join(chance.sample(_GERMAN, 4))
        return NewItem(f"Eintrag {number}: der {words} am Fluss", tags=tags, language="de", kind="fact")
    words = " ".join(chance.choice(_ENGLISH) for _ in range(chance.randint(4, 14)))
    title = f"Place {number}" if number % 20 == 3 else ""
    return NewItem(f"entry {number}: {words}", title=title, tags=tags)


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    only: tuple[str, ...] | None
    tags: tuple[str, ...]
    kind: str | None

    def ask(self, memory: Memory) -> tuple[Answer, Problems]:
        filters = Filters(tags=self.tags, kind=self.kind) if self.tags or self.kind else NO_FILTERS
        response = memory.search(self.text, only=self.only, filters=filters, top_k=8)
        found = sorted((result.id, round(result.score, 8)) for result in response.results)
        return found, [f"degraded: {failure}" for failure in response.degraded]


def candidates(seed: int, count: int) -> list[Question]:
    chance = random.Random(seed)
    found: list[Question] = []
    for number in range(count):
        words = _GERMAN if number % 4 == 3 else _ENGLISH
        text = " ".join(chance.sample(words, chance.randint(1, 3)))
        only = (None, ("keyword",), ("semantic",))[number % 3]
        tags = ("water",) if number % 6 in (1, 2, 3) else ()
        found.append(Question(text, only, tags, "fact" if number % 12 == 6 else None))
    return found


def answers(memory: Memory, questions: Sequence[Question]) -> tuple[list[Answer], Problems]:
    asked = [question.ask(memory) for question in questions]
    return [answer for answer, _ in asked], [problem for _, problems in asked for problem in problems]


def make(home: Path, seed: int) -> None:
    """Makes in `home` a database, and its index in three states."""
    use_small_limits()
    chance = random.Random(seed)
    store = home / "store"
    memory, other = opened(store), opened(store, "other")
    memory.add_many([texts(number, chance) for number in range(ITEMS)], wait=True)
    other.add_many([texts(number, chance) for number in range(ITEMS // 2)], wait=True)
    memory.add_edge("Place 3", "leads to", "Place 23")
    memory.index()
    other.index()
    _change(memory, chance, ITEMS)
    shutil.copytree(store / "index", home / "older")
    memory.index()
    _change(memory, chance, 2 * ITEMS)
    shutil.copytree(store / "index", home / "behind")
    memory.index()
    shutil.copytree(store / "index", home / "level")
    memory.close()
    other.close()
    shutil.rmtree(store / "index")


def _change(memory: Memory, chance: random.Random, first: int) -> None:
    """Makes dead and new rows, too few to trigger a rewrite of the index."""
    stored = memory.list(limit=1000)
    chosen = chance.sample(stored, 14)
    memory.forget([item.id for item in chosen[:8]])
    for item in chosen[8:]:
        memory.update(item.id, ItemPatch(text=f"{item.text} changed by the otter"))
    memory.add_many([texts(first + number, chance) for number in range(30)])
    memory.embed_pending()


def choose(home: Path, seed: int) -> None:
    """Writes the questions to `home`: only those that FAISS answers exactly, since other answers may vary."""
    use_small_limits()
    questions = candidates(seed, 48)
    given: list[list[Answer]] = []
    for state in (None, "behind", "level"):
        with opened(prepared(home, home / "choosing", state)) as memory:
            for publishes in (False, True) if state is None else (False,):
                if publishes:
                    memory.index()
                found, problems = answers(memory, questions)
                assert not problems
                given.append(found)
    shutil.rmtree(home / "choosing")
    agreed = [
        number for number, found in enumerate(zip(*given, strict=True)) if all(each == found[0] for each in found)
    ]
    kept = sorted(agreed, key=lambda number: (number // 12, number % 12))[:12]
    rows = [{"question": asdict(questions[number]), "answer": given[0][number]} for number in kept]
    (home / "questions.json").write_text(json.dumps(rows))


def questions_of(home: Path) -> tuple[list[Question], list[Answer]]:
    rows = json.loads((home / "questions.json").read_text())
    questions = [
        Question(q["text"], q["only"] and tuple(q["only"]), tuple(q["tags"]), q["kind"])
        for q in (row["question"] for row in rows)
    ]
    return questions, [[(item, score) for item, score in row["answer"]] for row in rows]


def prepared(home: Path, work: Path, state: str | None) -> Path:
    """A copy of the store with its index in this state."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(home / "store", work)
    if state is not None:
        shutil.copytree(home / state, work / "index")
    return work


# ---------------------------------------------------------------- damages


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    state: str
    """State of the index: `behind` (lacks changes), `level` (complete) or `exact` (complete, without FAISS)."""
    damage: str
    path: str
    """What is damaged, below the namespace's index: a file, one of SIDES, or empty for the whole index."""
    seed: int

    @property
    def is_only_closed(self) -> bool:
        """Whether closing the store must rebuild the index; a missing file may wait for the next change."""
        return self.seed % 3 == 0 and self.damage in BYTES


def index_of(folder: Path) -> Path:
    return folder / "index" / OURS


def published(index: Path, side: str) -> list[Path]:
    """The files that a side's manifest names."""
    manifest = read_manifest(index / side)
    return [index / side / f"g{manifest.generation}" / name for name in sorted(manifest.parts)]


def _random_bytes(chance: random.Random, most: int) -> bytes:
    return chance.randbytes(chance.randint(1, most))


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    places = [chance.randrange(8 * len(content)) for _ in range(chance.randint(1, 20))]
    for place in set(places):
        changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def _header(content: bytes, chance: random.Random) -> bytes:
    head = _random_bytes(chance, 64)[: len(content)]
    return head + content[len(head) :]


def _block(content: bytes, chance: random.Random) -> bytes:
    """A block of zeros, or of ones where zeros would change nothing."""
    start = chance.randrange(len(content))
    end = min(start + chance.choice((1, 16, 512, 4096)), len(content))
    zeros = bytes(end - start)
    return content[:start] + (zeros if content[start:end] != zeros else b"\xff" * len(zeros)) + content[end:]


BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": _cut,
    "flipped": _flip,
    "header": _header,
    "block": _block,
    "emptied": lambda content, chance: b"",
    "longer": lambda content, chance: content + _random_bytes(chance, 5000),
}


def _swap(index: Path, path: Path, chance: random.Random) -> None:
    """Swaps the file with another file of the index."""
    files = [file for side in SIDES for file in published(index, side) if file.read_bytes() != path.read_bytes()]
    other = chance.choice(files)
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


FOREIGN = {
    "of another store": lambda home, state: home.parent / "stranger" / state / OURS,
    "of another namespace": lambda home, state: home / state / THEIRS,
    "of an older publication": lambda home, state: home / "older" / OURS,
}


def _foreign_part(index: Path, source: Path, side: str, chance: random.Random) -> None:
    """Replaces one or all of our files of a side by those of `source`, but keeps our manifest."""
    theirs, ours = published(source, side), published(index, side)
    pairs = [(mine, their) for mine, their in _pairs(ours, theirs) if mine.read_bytes() != their.read_bytes()]
    for mine, their in pairs if chance.random() < 0.5 else [chance.choice(pairs)]:
        mine.unlink()
        shutil.copy(their, mine)


def _pairs(ours: Sequence[Path], theirs: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Pairs of files with the same purpose; names of postings contain the numbers of their rows."""
    by_purpose = {path.name.split("-")[0]: path for path in theirs}
    return [(path, by_purpose[path.name.split("-")[0]]) for path in ours if path.name.split("-")[0] in by_purpose]


def _foreign_manifest(index: Path, source: Path, side: str, chance: random.Random) -> None:
    shutil.copy(source / side / "manifest.json", index / side / "manifest.json")


def _foreign_generation(index: Path, source: Path, side: str, chance: random.Random) -> None:
    theirs, ours = read_manifest(source / side), read_manifest(index / side)
    shutil.rmtree(index / side / f"g{ours.generation}")
    shutil.copytree(source / side / f"g{theirs.generation}", index / side / f"g{ours.generation}")


def _foreign_side(index: Path, source: Path, side: str, chance: random.Random) -> None:
    shutil.rmtree(index / side)
    shutil.copytree(source / side, index / side)


def _foreign_index(index: Path, source: Path, side: str, chance: random.Random) -> None:
    shutil.rmtree(index)
    shutil.copytree(source, index)


def _other_side(index: Path, source: Path, side: str, chance: random.Random) -> None:
    """Swaps the keyword index and the vector index."""
    (index / "text").rename(index / "aside")
    (index / "vectors").rename(index / "text")
    (index / "aside").rename(index / "vectors")


FOREIGN_DAMAGES: dict[str, Callable[[Path, Path, str, random.Random], None]] = {
    "files": _foreign_part, "manifest": _foreign_manifest, "generation": _foreign_generation, "side": _foreign_side,
    "index": _foreign_index,
}  # fmt: skip


def _rewritten(manifest: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes a manifest and updates its checksum."""
    data = json.loads(manifest.read_text())
    data.pop("crc")
    change(data)
    data["crc"] = zlib.crc32(json.dumps(data, sort_keys=True).encode())
    manifest.write_text(json.dumps(data))


MANIFESTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a missing generation": lambda data: data.update(generation=data["generation"] + 70),
    "the previous format": lambda data: data.update(format=data["format"] - 1),
    "the next format": lambda data: data.update(format=data["format"] + 1),
    "another analyser or model": lambda data: data.update(space="other/" + data["space"]),
    "another store": lambda data: data.update(store="0" * len(data["store"])),
    "a field less": lambda data: data.pop("seq"),
    "a field more": lambda data: data.update(colour="blue"),
    "no parts": lambda data: data.update(parts={}),
    "a part less": lambda data: data["parts"].pop(sorted(data["parts"])[0]),
    "a missing part": lambda data: data["parts"].update(lost={"size": 3, "crc": 9}),
}


def damage(case: Case, work: Path, home: Path) -> None:
    chance = random.Random(case.seed)
    index = index_of(work)
    kind, _, which = case.damage.partition(": ")
    if kind in BYTES:
        path = index / case.path
        before = path.read_bytes()
        after = BYTES[kind](before, chance)
        assert after != before
        path.write_bytes(after)
    elif kind == "gone":
        path = index / case.path
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif kind == "swapped":
        _swap(index, index / case.path, chance)
    elif kind == "manifest says":
        _rewritten(index / case.path / "manifest.json", MANIFESTS[which])
    elif kind == "sides":
        _other_side(index, index, case.path, chance)
    else:
        FOREIGN_DAMAGES[kind](index, FOREIGN[which](home, case.state), case.path, chance)


STRUCTURAL = [
    *((f"{kind}: {which}", side) for kind in FOREIGN_DAMAGES for which in FOREIGN for side in SIDES),
    *((f"manifest says: {which}", side) for which in MANIFESTS for side in SIDES),
    *(("gone", path) for path in ("", "text", "vectors", "text/manifest.json", "vectors/manifest.json")),
    ("sides", ""),
]


def cases(home: Path, seed: int, count: int) -> list[Case]:
    """`count` damages, spread over every file of the index and every kind of damage, in both states."""
    chance = random.Random(seed)
    known = {state: _damageable(home / state / OURS) for state in ("behind", "level")}
    structural = chance.sample([(state, *each) for each in STRUCTURAL for state in known], 2 * len(STRUCTURAL))
    single = [(state, kind, path) for kind in (*BYTES, "gone", "swapped") for state in known for path in known[state]]
    single = chance.sample(single, len(single))
    made: list[Case] = []
    for number in range(count):
        among = structural if number % 3 == 0 else single
        state, what, path = among[(number // 3 if number % 3 == 0 else number - number // 3 - 1) % len(among)]
        made.append(Case(f"{number} {state} {what} {path}", state, what, path, chance.randrange(1 << 30)))
    return made


def _damageable(index: Path) -> list[str]:
    named = [path for side in SIDES for path in published(index, side) if path.stat().st_size]
    return [str(path.relative_to(index)) for path in named] + [f"{side}/manifest.json" for side in SIDES]


# ---------------------------------------------------------------- in a child


def damaged(home: Path, work: Path, case: Case) -> Problems:
    """Opens a damaged store, asks all questions, publishes, asks again; returns the problems."""
    use_small_limits()
    prepared(home, work, case.state)
    damage(case, work, home)
    with opened(work) as memory:
        problems = _wrong(home, memory, "damaged")
        if case.is_only_closed:
            return problems
        memory.index()
        return problems + _wrong(home, memory, "published again")


def _wrong(home: Path, memory: Memory, when: str) -> Problems:
    questions, expected = questions_of(home)
    found, problems = answers(memory, questions)
    wrong = [f"{q} gave {f}, not {e}" for q, f, e in zip(questions, found, expected, strict=True) if f != e]
    return [f"{when}: {problem}" for problem in (*problems, *wrong)]


def rebuilt(home: Path, work: Path, case: Case) -> Problems:
    """Problems that a new process finds in the index that was published over the damaged one."""
    use_small_limits()
    problems = [
        f"published again: {problem}"
        for problem in unsound(work, behind=case.is_only_closed, faiss=case.state != "exact")
    ]
    return problems + _again(home, work)


def _again(home: Path, work: Path) -> Problems:
    with opened(work) as memory:
        return _wrong(home, memory, "opened again") + [f"check: {line}" for line in memory.check()]


def unsound(work: Path, *, behind: bool, faiss: bool) -> Problems:
    """Reasons why a search could not use the published index; `behind`: the index may lack changes."""
    db = Connection(str(work / "fourfold.db"))
    store = db.execute("SELECT value FROM settings WHERE name = 'store'").get
    last = SourceRows(db, int(OURS)).last_change
    db.close()
    owner = f"{store}/{OURS}"
    text = TextSegment.load(index_of(work) / "text", owner)
    vectors = VectorSegment.load(index_of(work) / "vectors", owner, Space(f"words/{DIMENSION}", DIMENSION))
    loaded = {"text": text, "vectors": vectors}
    problems = [f"no base for {name}" for name, base in loaded.items() if base.manifest is None]
    late = [name for name, base in loaded.items() if base.manifest is not None and base.seq < last and not behind]
    problems += [f"{name} is behind" for name in late]
    return problems + ([] if problems or not faiss or vectors.faiss is not None else ["no FAISS"])


# ---------------------------------------------------------------- damage to files that a child has open


def _each(index: Path, change: Callable[[Path, bytes], Any], seed: int) -> None:
    chance = random.Random(seed)
    for side in SIDES:
        for path in published(index, side):
            if path.stat().st_size:
                change(path, _flip(path.read_bytes(), chance))


def _replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def _overwrite(path: Path, content: bytes) -> None:
    """Overwrites the file in place: processes that have it mapped see the change."""
    with path.open("r+b") as file:
        file.write(content)


OPEN_DAMAGES: dict[str, Callable[[Path, int], Any]] = {
    "files replaced": lambda index, seed: _each(index, _replace, seed),
    "manifests gone": lambda index, seed: [(index / side / "manifest.json").unlink() for side in SIDES],
    "generations gone": lambda index, seed: [shutil.rmtree(path) for path in index.glob("*/g*")],
    "index gone": lambda index, seed: shutil.rmtree(index.parent),
}


SAME_LENGTH = ("flipped", "header", "block")


def overwritten_cases(home: Path, seed: int, rounds: int) -> list[Case]:
    """In each round, each single file of an index, and all files together, overwritten in each state."""
    chance = random.Random(seed)
    made: list[Case] = []
    for number in range(rounds):
        for state in ("behind", "level", "exact"):
            names = [] if state == "exact" else _named(home / state / OURS)
            for path in ("", *(names or [n for n in _named(home / "level" / OURS) if not n.endswith("faiss")])):
                damage = SAME_LENGTH[(number + len(made)) % len(SAME_LENGTH)]
                made.append(Case(f"{number} {state} {damage} {path}", state, damage, path, chance.randrange(1 << 30)))
    return made


def _named(index: Path) -> list[str]:
    """The published files as `side/name`, with the names of the manifest."""
    return [
        f"{side}/{'/'.join(path.relative_to(index).parts[2:])}"
        for side in SIDES
        for path in published(index, side)
        if path.stat().st_size
    ]


def damaged_while_open(home: Path, work: Path, case: Case) -> Problems:
    """Searches, writes and publishes after the files of an open store were damaged."""
    use_small_limits()
    prepared(home, work, case.state)
    with opened(work) as memory:
        problems = _wrong(home, memory, "before")
        OPEN_DAMAGES[case.damage](index_of(work), case.seed)
        problems += _wrong(home, memory, "damaged")
        added = memory.add("one more kingfisher", wait=True)
        response = memory.search("kingfisher", only=["keyword"])
        if [result.id for result in response.results] != [added.id]:
            problems.append(f"damaged: a new item is not found ({response.degraded})")
        memory.forget([added.id])
        memory.index()
        return problems + _wrong(home, memory, "published again")


def overwritten_while_open(home: Path, work: Path, case: Case) -> Problems:
    """Overwrites verified bytes that a process has mapped: its answers may be wrong until the store is opened again."""
    use_small_limits(20_000 if case.state == "exact" else 200)
    prepared(home, work, None if case.state == "exact" else case.state)
    with opened(work) as memory:
        if case.state == "exact":
            memory.index()
        problems = _wrong(home, memory, "before")
        _overwrite_chosen(index_of(work), case)
        _wrong(home, memory, "overwritten")
    with opened(work) as memory:
        problems += _wrong(home, memory, "opened again")
        memory.index()
        return problems + _wrong(home, memory, "published again")


def _overwrite_chosen(index: Path, case: Case) -> None:
    chance = random.Random(case.seed)
    for side in SIDES:
        for path in published(index, side):
            name = f"{side}/{'/'.join(path.relative_to(index).parts[2:])}"
            is_chosen = not case.path or name == case.path or (case.state == "exact" and _is_kin(name, case.path))
            if is_chosen and path.stat().st_size:
                _overwrite(path, BYTES[case.damage](path.read_bytes(), chance))


def _is_kin(name: str, other: str) -> bool:
    """Whether both are postings, which are named by their rows."""
    return "/postings-" in name and "/postings-" in other


# ---------------------------------------------------------------- running the jobs


def serve(pipe: Any, log: Path, work: Callable[..., Problems], home: Path, jobs: Sequence[tuple[Path, Case]]) -> None:
    """Runs the jobs in turn, and reports the name of each before it begins, so that a crash can be attributed."""
    with log.open("ab") as stream:
        os.dup2(stream.fileno(), 2)
    for folder, case in jobs:
        pipe.send((case.name, None))
        try:
            problems = work(home, folder, case)
        except BaseException as error:  # noqa: BLE001  (a panic of native code is a BaseException)
            problems = [f"raised {type(error).__name__}: {error}"]
        pipe.send((case.name, problems))
    pipe.close()

"""Random operations and queries of a store, as plain values."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

from conformance_subjects import LATER, NOW, NS, item, unit
from store_calls import StoreCalls

from fourfold import validation as rules
from fourfold.model import NO_FILTERS, Edge, Filters, ItemPatch, MetadataTest, NewItem, Space
from fourfold.storage.values import FileState, FileUpdate, NewNode
from fourfold.text.entities import query_names

WORDS: tuple[str, ...] = tuple(
    """
    Vertrag Mietvertrag Vertragsende Miete Haus Hausverwaltung Wohnung Kündigung Schlüssel Straße Müller Küche Garten
    Versicherung Versicherungsfall Sonne Sonnenschein Rechnung Rechnungen der die das und nicht wurde ist für mit
    contract contracts rent house kitchen garden insurance invoice invoices running runs the and was is for with
    getUserName HTTP-429 node.js C++ café naïve 2024 東京 release plan meeting notes database index server test
    """.split()  # noqa: SIM905
)

NAMES = """
    New York|New York City|York|Berlin|Projekt Adler|Adler|Kubernetes|Müller|Node.js|C++|Go|release plan|Mietvertrag|
    Die Zeit|plan|Straße 7|index|Café Central
""".replace("\n", "").split("|")
NAMES = [name.strip() for name in NAMES]

TAGS = ("Work", "work", "Straße", "STRASSE", "release-plan", "evergreen", "notes", "Café")
KINDS = (None, None, "note", "task")
PATHS = ("docs/a.md", "docs/deep/b.md", "src/main.py")
FILES = (*PATHS, "docs/Main.py", "docs/c.md")
CHUNKS = tuple(f"{WORDS[n]} {WORDS[n + 7]} {NAMES[n]} [[{NAMES[n + 3]}]]" for n in range(8))
KEYS = tuple(f"k{n}" for n in range(8))
RELATIONS = ("knows", "part of", "mentions")
VECTORS = tuple(unit(*(1 + (n * k) % 5 for k in range(1, 5))) for n in range(12))
"""Vectors, some of them equal, so that there are ties."""
SPACE, OTHER_SPACE = Space("given", 4), Space("another model", 4)

Operation = Callable[[StoreCalls], Any]


class Life:
    """Draws operations. `ids` are those that a store may have assigned so far, whether or not they still exist."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._puts = 0

    def operations(self, count: int) -> list[Operation]:
        draws = (
            [self._put] * 8 + [self._patch] * 5 + [self._forget] * 2 + [self._vectors] * 3 + [self._edges] * 3
            + [self._nodes] * 2 + [self._remove_node, self._remove_edge, self._raw, self._raw, self._bad, self._space]
            + [self._publish] * 3 + [self._many_names] + [self._files] * 4 + [self._forget_files]
        )  # fmt: skip
        return [self._random.choice(draws)() for _ in range(count)]

    # ------------------------------------------------------------ operations

    def _put(self) -> Operation:
        items = [self._item() for _ in range(self._random.randint(1, 4))]
        self._puts += len(items)
        return partial(_put, items=items, links=self._random.random() < 0.9)

    def _patch(self) -> Operation:
        draw = self._random.random
        change = ItemPatch(
            text=self._text() if draw() < 0.5 else None,
            title=self._random.choice(NAMES) if draw() < 0.3 else None,
            add_tags=tuple(self._some(TAGS)),
            remove_tags=tuple(self._some(TAGS)),
            metadata={"n": self._random.choice((None, 1, 2.5)), "word": "zwei"} if draw() < 0.3 else None,
        )
        return partial(_patch, id=self._id(), change=rules.checked_patch(change), links=draw() < 0.9)

    def _forget(self) -> Operation:
        return partial(_call, name="forget", args=([self._id() for _ in range(self._random.randint(1, 3))],))

    def _vectors(self) -> Operation:
        return partial(_embed, limit=self._random.randint(1, 8), offset=self._random.randrange(12))

    def _space(self) -> Operation:
        return partial(_call, name=self._random.choice(("set_space", "reset_space")), args=(OTHER_SPACE,))

    def _edges(self) -> Operation:
        choice = self._random.choice
        edges = [Edge(choice(NAMES), choice(RELATIONS), choice(NAMES), choice((0.2, 0.5, 1.0))) for _ in range(2)]
        return partial(_call, name="add_edges", args=(edges,))

    def _nodes(self) -> Operation:
        nodes = [
            NewNode(
                self._random.choice(NAMES),
                self._random.choice(("entity", "entity", "place")),
                tuple(self._some(NAMES)),
                self._random.choice((None, {"size": 3})),
                self._random.choice((None, self._id())),
            )
        ]
        return partial(_call, name="add_nodes", args=(nodes,))

    def _remove_node(self) -> Operation:
        return partial(_call, name="remove_node", args=(self._random.choice(NAMES), None))

    def _remove_edge(self) -> Operation:
        choice = self._random.choice
        return partial(_call, name="remove_edge", args=(choice(NAMES), choice(RELATIONS), choice(NAMES)))

    def _raw(self) -> Operation:
        return partial(_call, name="add_raw", args=(self._text(), "Ada", None, {"turn": 1}, NOW))

    def _bad(self) -> Operation:
        """A batch with an invalid item: the valid item before it must not be stored."""
        bad = self._random.choice((item("a", source_ids=(999,)), item("b", vector=unit(1, 2))))
        return partial(_put, items=[self._item(), item("c", vector=VECTORS[0]), bad], links=True)

    def _many_names(self) -> Operation:
        """More new titles than a store links in one step."""
        start = self._random.randrange(1000)
        items = [item(f"Kapitel {n}", title=f"{self._random.choice(NAMES)} {n}") for n in range(start, start + 40)]
        self._puts += len(items)
        return partial(_put, items=items, links=True)

    def _files(self) -> Operation:
        """One or two files: new, changed, unchanged, moved or empty."""
        paths = self._random.sample(FILES, 3)
        files = [self._file(path) for path in paths[: self._random.randint(1, 2)]]
        if self._random.random() < 0.3:
            files[0] = files[0]._replace(moved_from=paths[2])
        self._puts += sum(len(file.chunks or ()) for file in files)
        return partial(_put_files, files=files, links=self._random.random() < 0.9)

    def _file(self, path: str) -> FileUpdate:
        draw, choice = self._random.random, self._random.choice
        texts = [choice(CHUNKS) for _ in range(self._random.randint(0, 4))]
        aliases = {"aliases": self._some(NAMES)} if draw() < 0.3 else {}
        chunks = [
            item(text, title=choice(NAMES) if draw() < 0.3 else "", path=path, chunk_index=number, metadata=aliases)
            for number, text in enumerate(texts)
        ]
        state = FileState(path, len(texts), self._random.randrange(10**18), "1-abc", "" if texts else "empty")
        return FileUpdate(state, None if draw() < 0.1 else chunks)

    def _forget_files(self) -> Operation:
        return partial(_call, name="forget_files", args=(self._random.sample(FILES, 2),))

    def _publish(self) -> Operation:
        return partial(_call, name="publish", args=())

    # ------------------------------------------------------------ values

    def _item(self) -> NewItem:
        draw, choice = self._random.random, self._random.choice
        identity = draw()
        return item(
            self._text(),
            title=choice(NAMES) if draw() < 0.4 else "",
            key=choice(KEYS) if identity < 0.3 else None,
            path=choice(PATHS) if 0.2 < identity < 0.5 else None,
            chunk_index=choice((None, 0, 1)),
            tags=tuple(self._some(TAGS)),
            kind=choice(KINDS),
            metadata=choice(({}, {"n": 1}, {"n": 2.5, "word": "eins"}, {"flag": True, "list": [1, "b"]})),
            language=choice((None, None, None, "de", "en")),
            created_at=NOW - timedelta(days=choice((0, 1, 30))) if draw() < 0.5 else None,
            source_ids=(choice((1, 2)),) if draw() < 0.1 else (),
            vector=choice(VECTORS) if draw() < 0.3 else None,
        )

    def _text(self) -> str:
        words = [self._random.choice(WORDS) for _ in range(self._random.randint(1, 9))]
        if self._random.random() < 0.4:
            words.insert(self._random.randrange(len(words)), self._random.choice(NAMES))
        if self._random.random() < 0.2:
            words.append(
                self._random.choice(("[[{}]]", "[here]({}.md)", "\n# {}\n", "„{}“")).format(self._lower(NAMES))
            )
        return " ".join(words)

    def _lower(self, names: list[str]) -> str:
        name = self._random.choice(names)
        return name.lower() if self._random.random() < 0.5 else name

    def _some(self, values: Any) -> list[Any]:
        return self._random.sample(values, self._random.choice((0, 0, 1, 2)))

    def _id(self) -> int:
        return self._random.randint(1, self._puts + 1)


# ---------------------------------------------------------------- applying operations


def _put(store: StoreCalls, items: list[NewItem], links: bool) -> Any:
    return store.put(NS, items, NOW, links=links)


def _put_files(store: StoreCalls, files: list[FileUpdate], links: bool) -> Any:
    return store.put_files(NS, files, NOW, links=links)


def _patch(store: StoreCalls, id: int, change: ItemPatch, links: bool) -> Any:
    return store.patch(NS, id, change, LATER, links=links)


def _embed(store: StoreCalls, limit: int, offset: int) -> Any:
    pending = store.pending(NS, limit)
    made = [(*row, VECTORS[(row[0] + offset) % len(VECTORS)]) for row in pending]
    return store.put_vectors(NS, store.space(NS) or SPACE, made)


def _call(store: StoreCalls, name: str, args: tuple[Any, ...]) -> Any:
    options = {"everything": True} if name == "publish" else {}
    return getattr(store, name)(NS, *args, **options)


# ---------------------------------------------------------------- queries

QUERIES = (
    "Vertrag", "Mietvertrag kündigen", "the contract of the house", "der die das", "Müller oder Mueller in der Straße",
    "get user name", "HTTP 429 node.js C++", "New York City and Berlin", "Projekt Adler release plan", "東京", "!?",
    "running invoices café naive", "Versicherungsfall Sonne Garten index test",
)  # fmt: skip

FILTERS = (
    NO_FILTERS, Filters(tags=("work",)), Filters(tags=("strasse", "notes"), any_tag=True), Filters(language="de"),
    Filters(kind="note", created_from=NOW - timedelta(days=2)), Filters(created_to=NOW - timedelta(days=1)),
    Filters(path="docs/**"), Filters(metadata=(MetadataTest("n", "gte", 2),)),
    Filters(metadata=(MetadataTest("n", "lt", 2), MetadataTest("n", "eq", 1))),
    Filters(metadata=(MetadataTest("list", "eq", [1, "b"]), MetadataTest("flag", "eq", True))),
)  # fmt: skip


def names_of(query: str) -> list[str]:
    return query_names(query)

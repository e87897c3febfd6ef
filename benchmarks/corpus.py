"""The data of the comparison: items, vectors, graph edges and queries, all made from one fixed seed.

Passages of about eighty words are cut from the documentation and sources found on this machine; queries are short ones
of words and long ones that read like questions; vectors are clustered, as hard for an approximate index as real ones.
Everything is cached in a folder outside the repository, so that every engine process reads the same files.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]

PASSAGE_WORDS = 80
PASSAGES_PER_FILE = 120
PASSAGES_PER_TITLE = 500
LARGEST_FILE_BYTES = 4_000_000
SYSTEM_FOLDERS = (
    "/usr/share/doc",
    "/usr/share/man",
    "/usr/share/info",
    "/usr/share/perl",
    "/usr/share/perl5",
    "/usr/lib/python3",
)
SUFFIXES = frozenset({"", ".txt", ".md", ".rst", ".py", ".html", ".pod", ".pm", ".info", ".copyright", ".debian"})
ENGLISH_MANUAL = re.compile(r"^man\d")
MANUAL_SUFFIX = re.compile(r"^\.\d\w*$")
MANUAL_MARKUP = re.compile(r"^\.\\\".*$|^[.']\w+ ?|\\f[A-Z]|\\[-&|^]|\\\([a-z]{2}", re.MULTILINE)
HTML_TAG = re.compile(r"<[^>]{1,400}>")
TITLE_WORD = re.compile(r"[a-z]{2,14}")
GENERIC_STEMS = frozenset({"readme", "changelog", "copyright", "news", "init", "index", "main", "todo", "authors"})


@dataclass(frozen=True, slots=True)
class Passage:
    """One piece of text and the title of the file it was cut from (with a running number)."""

    title: str
    text: str


def collect_passages(wanted: int, seed: int) -> tuple[list[Passage], int]:
    """Return `wanted` distinct passages, and how many of them had to be recombined from others."""
    passages = shuffled_real_passages(wanted, seed)
    missing = wanted - len(passages)
    passages.extend(recombined(passages, missing, seed))
    return passages, missing


def shuffled_real_passages(wanted: int, seed: int) -> list[Passage]:
    """Read the text files in a fixed random order until there are enough distinct passages."""
    found: list[Passage] = []
    seen: set[bytes] = set()
    numbers: Counter[str] = Counter()
    for path in shuffled_files(seed):
        base = title_base(path)
        for text in islice(distinct_pieces(path, seen), PASSAGES_PER_TITLE - numbers[base]):
            numbers[base] += 1
            found.append(Passage(f"{base} {numbers[base]}", text))
        if len(found) >= wanted:
            break
    random.Random(seed).shuffle(found)
    return found[:wanted]


def shuffled_files(seed: int) -> list[Path]:
    """List the usable files of all source folders, shuffled the same way on every run."""
    files = sorted({path for folder in source_folders() for path in text_files(folder)})
    random.Random(seed).shuffle(files)
    return files


def source_folders() -> list[Path]:
    """Return the folders to read: system documentation, the standard library, installed packages."""
    python_paths = sysconfig.get_paths()
    names = [*SYSTEM_FOLDERS, python_paths["stdlib"], python_paths["purelib"]]
    return [Path(name) for name in names if Path(name).is_dir()]


def text_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that look like English text or source."""
    for path in folder.rglob("*"):
        if is_text_name(path) and path.is_file() and path.stat().st_size <= LARGEST_FILE_BYTES:
            yield path


def is_text_name(path: Path) -> bool:
    """Tell by its name whether a file holds readable text (manual pages: English ones only)."""
    plain = path.with_suffix("") if path.suffix == ".gz" else path
    if "man" in path.parts:
        english = ENGLISH_MANUAL.match(path.parent.name) and path.parent.parent.name == "man"
        return bool(english and MANUAL_SUFFIX.match(plain.suffix))
    return plain.suffix.lower() in SUFFIXES


def distinct_pieces(path: Path, seen: set[bytes]) -> Iterator[str]:
    """Yield the pieces of a file whose words were not seen before, up to a fixed number."""
    for text in islice(pieces(readable_text(path)), PASSAGES_PER_FILE):
        mark = hashlib.blake2b(text.lower().encode(), digest_size=12).digest()
        if mark not in seen:
            seen.add(mark)
            yield text


def pieces(text: str) -> Iterator[str]:
    """Cut text into pieces of about eighty words, leaving out short rests and tables of numbers."""
    words = text.split()
    for start in range(0, len(words) - PASSAGE_WORDS // 2, PASSAGE_WORDS):
        piece = " ".join(words[start : start + PASSAGE_WORDS])
        letters = sum(map(str.isalpha, piece))
        if letters > 0.6 * len(piece) and len(piece) < PASSAGE_WORDS * 16:
            yield piece


def readable_text(path: Path) -> str:
    """Return a file's text without markup, or nothing if it cannot be read as text."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError):
        return ""
    if b"\0" in raw:
        return ""
    return without_markup(path, raw.decode("utf-8", errors="ignore"))


def without_markup(path: Path, text: str) -> str:
    """Remove manual-page macros or HTML tags."""
    if "man" in path.parts:
        return MANUAL_MARKUP.sub("", text)
    if ".html" in path.suffixes:
        return html.unescape(HTML_TAG.sub(" ", text))
    return text


def title_base(path: Path) -> str:
    """Name a file by one or two words of its name, helped by its folder if the name says little."""
    words = TITLE_WORD.findall(path.name.split(".")[0].lower())
    if not words or words[0] in GENERIC_STEMS:
        words = TITLE_WORD.findall(path.parent.name.lower())[:1] + words
    return " ".join(words[:2]) or "untitled"


def recombined(passages: list[Passage], missing: int, seed: int) -> list[Passage]:
    """Make further passages from the first half of one and the second half of another, with a title of both.

    So the words of texts and titles are about as common among many items as among few.
    """
    chooser = random.Random(seed + 1)
    numbers = Counter(passage.title.rpartition(" ")[0] for passage in passages)
    made: list[Passage] = []
    for _ in range(missing):
        first, second = chooser.sample(passages, 2)
        head, tail = first.text.split(), second.text.split()
        text = " ".join(head[: len(head) // 2] + tail[len(tail) // 2 :])
        base = f"{first.title.split()[0]} {second.title.split()[0]}"
        numbers[base] += 1
        made.append(Passage(f"{base} {PASSAGES_PER_TITLE + numbers[base]}", text))
    return made


WORD = re.compile(r"[A-Za-z]{4,14}")
TOKEN = re.compile(r"[A-Za-z0-9]+")
NAMED_IN_TEN = 3
SHORT_WORDS = (1, 3)
LONG_WORDS = (6, 15)
RAREST_WORD = 3
COMMONEST_SHARE = 0.05
OPENINGS = ("how do i", "what is the", "why does the", "where can i find", "when should the", "which", "is there a")
JOINTS = ("with", "and the", "for", "in", "from")


@dataclass(frozen=True, slots=True)
class Query:
    """One query text; `named` is the title of the graph node it names, or empty."""

    text: str
    named: str

    def row(self) -> list[str]:
        """Return the query as a list for JSON."""
        return [self.text, self.named]


class QueryMaker:
    """Draws queries from titles and texts in a repeatable way."""

    def __init__(self, documents: list[tuple[str, str]], seed: int) -> None:
        self._documents = documents
        self._random = random.Random(seed)
        counts = Counter(word for _, text in documents for word in set(WORD.findall(text.lower())))
        limit = max(COMMONEST_SHARE * len(documents), RAREST_WORD + 1)
        self._content = {word for word, count in counts.items() if RAREST_WORD <= count <= limit}

    def draw(self, long: bool, names_node: bool) -> Query:
        """Draw one query of the given kind."""
        named = self._random.choice(self._documents)[0] if names_node else ""
        text = self._question(named) if long else self._words(named)
        return Query(text, named)

    def _words(self, named: str) -> str:
        """Return one to three content words, or the title of the named node."""
        if named:
            return named
        _, text = self._random.choice(self._documents)
        content = sorted(set(WORD.findall(text.lower())) & self._content)
        return " ".join(self._random.sample(content, min(len(content), self._random.randint(*SHORT_WORDS))))

    def _question(self, named: str) -> str:
        """Return a question with a phrase of some passage in it, and the named node's title."""
        opening = self._random.choice(OPENINGS).split()
        about = [*named.split(), *self._random.choice(JOINTS).split()] if named else []
        used = len(opening) + len(about)
        length = self._random.randint(max(LONG_WORDS[0], used + 2), LONG_WORDS[1])
        return " ".join([*opening, *about, *self._phrase(length - used)])

    def _phrase(self, length: int) -> list[str]:
        """Return consecutive words of a random passage."""
        _, text = self._random.choice(self._documents)
        tokens = TOKEN.findall(text.lower())
        start = self._random.randrange(max(1, len(tokens) - length))
        return tokens[start : start + length]


def make_queries(documents: list[tuple[str, str]], count: int, seed: int) -> list[Query]:
    """Make distinct queries, half of them short, three in ten naming a node, in random order."""
    maker = QueryMaker(documents, seed)
    made: dict[str, Query] = {}
    while len(made) < count:
        number = len(made)
        query = maker.draw(long=number % 2 == 1, names_node=number // 2 % 10 < NAMED_IN_TEN)
        if query.text:
            made.setdefault(query.text, query)
    queries = list(made.values())
    random.Random(seed).shuffle(queries)
    return queries


DIMENSIONS = 384
LATENT_DIMENSIONS = 64
CENTRES = 1000
ITEM_NOISE = 1.0
ROUGHNESS = 0.25
QUERY_NOISE = 0.5
PART = 100_000
"""Vectors drawn together: bounds the memory that a million of them need."""


class VectorModel:
    """Cluster centres in a low-dimensional subspace, with noise as long as the centres around them."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        square = self._random.standard_normal((DIMENSIONS, LATENT_DIMENSIONS))
        self._basis: Floats = np.linalg.qr(square)[0].T.astype(np.float32)
        self._scales: Floats = (1.0 / np.sqrt(np.arange(2, LATENT_DIMENSIONS + 2))).astype(np.float32)
        self._centres = self._directions(CENTRES)

    def items(self, count: int) -> Iterator[Floats]:
        """Draw unit vectors around the centres, in parts; some clusters are much larger than others."""
        sizes = self._random.pareto(1.5, CENTRES) + 1.0
        chosen = self._random.choice(CENTRES, count, p=sizes / sizes.sum())
        for start in range(0, count, PART):
            part = chosen[start : start + PART]
            yield unit(self._centres[part] + self._noise(len(part), ITEM_NOISE))

    def near(self, vectors: Floats, count: int) -> Floats:
        """Draw unit vectors near randomly chosen given ones."""
        chosen = self._random.choice(len(vectors), count)
        return unit(vectors[chosen] + self._noise(count, QUERY_NOISE))

    def _noise(self, count: int, length: float) -> Floats:
        """Draw noise of about the given length: most of it in the subspace, some in all directions."""
        lengths = self._random.uniform(0.5 * length, 1.5 * length, (count, 1)).astype(np.float32)
        rough = unit(self._random.standard_normal((count, DIMENSIONS), dtype=np.float32))
        noise: Floats = lengths * (self._directions(count) + np.float32(ROUGHNESS) * rough)
        return noise

    def _directions(self, count: int) -> Floats:
        """Draw unit vectors in the subspace, with some directions more common than others."""
        latent: Floats = self._random.standard_normal((count, LATENT_DIMENSIONS), dtype=np.float32)
        return unit(np.matmul(latent * self._scales, self._basis, dtype=np.float32))


def unit(rows: Floats) -> Floats:
    """Scale every row to length one."""
    scaled: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return scaled


SEED = 20240607
FORMAT = 4
WARM_UP = 50
TAG_COUNT = 200
TAGS_PER_ITEM = (2, 4)
EDGES_PER_ITEM = 2
ROWS_AT_ONCE = 20_000
"""Rows of a matrix worked on together, so that a million items need no more memory than some."""
RELATIONS = ("mentions", "extends", "depends on", "see also", "part of")


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to store: a passage with its title, key and tags."""

    key: str
    title: str
    text: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """One weighted graph edge between two items, which are named by their titles."""

    source: str
    relation: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """Where the generated files are, and what is in them."""

    folder: Path
    item_count: int
    query_count: int
    recombined: int
    fingerprint: str

    def items(self) -> Iterator[Item]:
        """Read the items one by one."""
        with (self.folder / "items.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                key, title, text, tags = json.loads(line)
                yield Item(key, title, text, tuple(tags))

    def edges(self) -> Iterator[Edge]:
        """Read the graph edges one by one."""
        with (self.folder / "edges.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                yield Edge(*json.loads(line))

    def queries(self) -> list[Query]:
        """Read the queries, without their vectors; the warm-up queries come last."""
        return [Query(*row) for row in json.loads((self.folder / "queries.json").read_text(encoding="utf-8"))]

    def vectors(self) -> Floats:
        """Map the item vectors, one unit vector a row."""
        mapped: Floats = np.load(self.folder / "vectors.npy", mmap_mode="r")
        return mapped

    def query_vectors(self) -> Floats:
        """Read the query vectors, one unit vector a row; those of the warm-up queries come last."""
        loaded: Floats = np.load(self.folder / "query_vectors.npy")
        return loaded

    def neighbours(self, count: int) -> npt.NDArray[np.int64]:
        """The row numbers of each query's true nearest vectors, the best first; found once, then kept in a file."""
        path = self.folder / f"neighbours-{count}.npy"
        if not path.exists():
            np.save(path, exact_neighbours(self.vectors(), self.query_vectors()[: self.query_count], count))
        kept: npt.NDArray[np.int64] = np.load(path)
        return kept


def prepare_corpus(cache: Path, item_count: int, query_count: int) -> Corpus:
    """Return the corpus of that size, making it first if it is not in the cache."""
    folder = cache / f"corpus-{FORMAT}-{item_count}-{query_count}"
    about = folder / "corpus.json"
    if not about.exists():
        folder.mkdir(parents=True, exist_ok=True)
        corpus = make_corpus(folder, item_count, query_count)
        about.write_text(json.dumps({**asdict(corpus), "folder": ""}), encoding="utf-8")
    return Corpus(**{**json.loads(about.read_text(encoding="utf-8")), "folder": folder})


def make_corpus(folder: Path, item_count: int, query_count: int) -> Corpus:
    """Generate all files of a corpus."""
    passages, recombined = collect_passages(item_count, SEED)
    tags = draw_tags(item_count)
    items = [Item(item_key(n), passage.title, passage.text, tags[n]) for n, passage in enumerate(passages)]
    fingerprint = write_lines(folder / "items.jsonl", [[item.key, item.title, item.text, item.tags] for item in items])
    write_lines(folder / "edges.jsonl", draw_edges([item.title for item in items]))
    queries = make_queries([(item.title, item.text) for item in items], query_count + WARM_UP, SEED)
    (folder / "queries.json").write_text(json.dumps([query.row() for query in queries]), encoding="utf-8")
    write_vectors(folder, item_count, query_count + WARM_UP)
    return Corpus(folder, item_count, query_count, recombined, fingerprint)


def write_vectors(folder: Path, item_count: int, query_count: int) -> None:
    """Write the item vectors and the query vectors near some of them."""
    model = VectorModel(SEED)
    path = folder / "vectors.npy"
    vectors: Floats = np.lib.format.open_memmap(path, "w+", np.float32, (item_count, DIMENSIONS))
    start = 0
    for part in model.items(item_count):
        vectors[start : start + len(part)] = part
        start += len(part)
    np.save(folder / "query_vectors.npy", model.near(vectors, query_count))


def write_lines(path: Path, rows: Sequence[Sequence[object]]) -> str:
    """Write one JSON value a line; return a fingerprint of all of them."""
    mark = hashlib.sha256()
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False) + "\n"
            mark.update(line.encode())
            lines.write(line)
    return mark.hexdigest()[:16]


def draw_tags(item_count: int) -> list[tuple[str, ...]]:
    """Give every item two to four distinct tags; low tag numbers are far more common (Zipf)."""
    random = np.random.default_rng(SEED)
    names = [f"topic-{tag:03d}" for tag in range(TAG_COUNT)]
    popularity = -np.log(np.arange(1, TAG_COUNT + 1))
    counts = random.integers(TAGS_PER_ITEM[0], TAGS_PER_ITEM[1] + 1, item_count)
    drawn: list[tuple[str, ...]] = []
    for start in range(0, item_count, ROWS_AT_ONCE):
        part = counts[start : start + ROWS_AT_ONCE]
        order = np.argsort(-(popularity + random.gumbel(size=(len(part), TAG_COUNT))), axis=1)[:, : TAGS_PER_ITEM[1]]
        drawn += [tuple(names[tag] for tag in row[:count]) for row, count in zip(order.tolist(), part, strict=True)]
    return drawn


def draw_edges(titles: list[str]) -> list[list[object]]:
    """Draw distinct edges with a relation and a weight."""
    random = np.random.default_rng(SEED + 1)
    pairs = draw_pairs(len(titles), random)
    weights = random.uniform(0.1, 1.0, len(pairs)).round(3)
    relations = random.choice(RELATIONS, len(pairs))
    return [
        [titles[source], str(relation), titles[target], float(weight)]
        for (source, target), relation, weight in zip(pairs, relations, weights, strict=True)
    ]


def draw_pairs(count: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """Draw distinct pairs of items: sources evenly, targets unevenly, so that some items are hubs."""
    popular = random.permutation(count)
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < EDGES_PER_ITEM * count:
        source = int(random.integers(count))
        target = int(popular[int(count * random.random() ** 2)])
        if source != target:
            pairs[source, target] = None
    return list(pairs)


def exact_neighbours(vectors: Floats, queries: Floats, count: int) -> npt.NDArray[np.int64]:
    """Return the row numbers of each query's true nearest vectors (cosine), the best first."""
    rows = np.empty((len(queries), 0), np.int64)
    scores = np.empty((len(queries), 0), np.float32)
    for start in range(0, len(vectors), ROWS_AT_ONCE):
        block = np.asarray(vectors[start : start + ROWS_AT_ONCE])
        numbers = np.broadcast_to(np.arange(start, start + len(block)), (len(queries), len(block)))
        rows, scores = np.hstack([rows, numbers]), np.hstack([scores, queries @ block.T])
        best = np.argpartition(-scores, min(count, scores.shape[1] - 1), axis=1)[:, :count]
        rows, scores = np.take_along_axis(rows, best, axis=1), np.take_along_axis(scores, best, axis=1)
    return np.take_along_axis(rows, np.argsort(-scores, axis=1, kind="stable"), axis=1)


def recall_of(found: list[list[str]], truth: npt.NDArray[np.int64]) -> float:
    """Return the mean share of the true neighbours among the found keys."""
    wanted = [{item_key(number) for number in row} for row in truth.tolist()]
    return sum(len(row.intersection(keys)) / len(row) for keys, row in zip(found, wanted, strict=True)) / len(wanted)


def item_key(number: int) -> str:
    """Return the key of the item in that row."""
    return f"item-{number}"

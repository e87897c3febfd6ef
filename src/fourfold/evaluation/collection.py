"""A test collection: a folder of items, questions, and which items answer which question.

    corpus.jsonl    {"_id", "title"?, "text", "tags"?, "metadata"?, ...}: the rows that `fourfold import` takes
    queries.jsonl   {"_id", "text", "metadata"?: {"category"?, "scope"?, "session_no"?, "unanswerable"?,
                    "known_failure"?}}
    qrels.tsv       query-id, corpus-id, score, with tabs between, after a header line; a score above 0 is relevant
    edges.jsonl     {"from", "relation", "to", "weight"?}: optional

Questions about a store that exists are a file: one per line, tabs between the columns, and a header line.

    question    items        category    remark
    Where is the spare key?   key:okafor, 17    people
    Where is the rathole tunnel?    key:tunnel    ops    known failure
    What is the capital of Mongolia?

Items are ids or key:K, separated by commas; a question without items is one that the store cannot answer. A line with
the same question adds items to it. Errors name file and line.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from fourfold import bounded
from fourfold import validation as rules
from fourfold.errors import InvalidItem, InvalidQuery, NotFound
from fourfold.limits import IMPORT_BYTES
from fourfold.memory import Memory
from fourfold.model import Item, Json, NewItem
from fourfold.ranking.plan import check_text
from fourfold.storage.exchange import Lines, new_item

Judgements = Mapping[str, Mapping[str, int]]
"""The relevant items of each question, with their grades."""
NamedEdge = tuple[str, str, str, float]

_HEADER: Final = "query-id\tcorpus-id\tscore"
_FIELDS: Final = 3
_KNOWN_FAILURE: Final = "known failure"


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    text: str
    category: str | None = None
    scope: str | None = None
    """The scope whose items the question can see; each scope has a namespace."""
    session_no: float | None = None
    """The session of the question, which can see only items of earlier sessions."""
    unanswerable: bool = False
    known_failure: bool = False
    """Whether the question is known to fail; it is then reported separately and not counted in the means."""


@dataclass(frozen=True, slots=True)
class Collection:
    name: str
    items: tuple[NewItem, ...]
    questions: tuple[Question, ...]
    """Questions with a relevant item, and questions that are known to have none."""
    judgements: Judgements
    links: tuple[tuple[str, str], ...] = ()
    """Pairs of keys, from `metadata.links`."""
    edges: tuple[NamedEdge, ...] = ()
    empty: int = 0
    """Documents without any text, which no store accepts."""

    @property
    def scoped(self) -> bool:
        return any(question.scope is not None for question in self.questions)


def read_collection(folder: Path, *, plain: bool = False) -> Collection:
    """`plain`: titles and texts only, without tags, links and edges."""
    if not folder.is_dir():
        what = "Name a folder with corpus.jsonl, queries.jsonl and qrels.tsv"
        raise NotFound(f"no folder or file {folder}", what)
    documents = _documents(folder / "corpus.jsonl", plain=plain)
    questions = _questions(folder / "queries.jsonl")
    judgements = _judgements(folder / "qrels.tsv", questions.keys(), documents.keys())
    stored = tuple(item for item in documents.values() if item.title or item.text)
    edges = folder / "edges.jsonl"
    return Collection(
        name=folder.resolve().name,
        items=stored,
        questions=tuple(_asked(questions, judgements, folder)),
        judgements=judgements,
        links=() if plain else tuple(_links(documents)),
        edges=() if plain or not edges.is_file() else tuple(_edges(edges)),
        empty=len(documents) - len(stored),
    )


def _asked(questions: Mapping[str, Question], judgements: Judgements, folder: Path) -> list[Question]:
    usable = [question for question in questions.values() if question.unanswerable or question.id in judgements]
    if not judgements:
        raise InvalidQuery(f"no question of {folder / 'qrels.tsv'} has a relevant item", "Judge at least one above 0")
    return usable


# ---------------------------------------------------------------- corpus.jsonl


def _documents(file: Path, *, plain: bool) -> dict[str, NewItem]:
    """All documents by key, including those without text, which judgements may name."""
    documents: dict[str, NewItem] = {}
    lines = Lines(file)
    with lines.located():
        for _, row in lines:
            key = _id(row)
            if key in documents:
                raise InvalidItem(f"the _id {key!r} occurs twice", "Give every document its own")
            documents[key] = _document(key, row, plain=plain)
    if not documents:
        raise InvalidItem(f"{file} holds no documents", "Write one JSON object per line")
    return documents


def _document(key: str, row: Mapping[str, Any], *, plain: bool) -> NewItem:
    title, text = _text(row, "title"), _text(row, "text")
    if not title.strip() and not text.strip():
        return NewItem(key=key)
    item = replace(new_item({**row, "embedding": None}), key=key)
    tags = () if plain else (*item.tags, *_labels(item.metadata, "tags"), *_labels(item.metadata, "keywords"))
    return replace(item, tags=rules.checked_tags(tags))


def _labels(metadata: Mapping[str, Json], name: str) -> list[str]:
    """A list of strings, or one string with commas between."""
    labels: Any = metadata.get(name) or []
    if isinstance(labels, str):
        labels = labels.split(",")
    return [label.strip() for label in _strings(labels, f"metadata.{name}") if label.strip()]


def _links(documents: Mapping[str, NewItem]) -> Iterator[tuple[str, str]]:
    """Links between stored documents; links out of the collection are dropped."""
    for key, item in documents.items():
        for target in dict.fromkeys(_strings(item.metadata.get("links") or [], f"metadata.links of {key}")):
            if target != key and target in documents and (documents[target].title or documents[target].text):
                yield key, target


def _edges(file: Path) -> Iterator[NamedEdge]:
    lines = Lines(file)
    with lines.located():
        for _, row in lines:
            missing = [name for name in ("from", "relation", "to") if not isinstance(row.get(name), str)]
            if missing:
                raise InvalidItem(f"{missing[0]} is missing", 'Write {"from": ..., "relation": ..., "to": ...}')
            edge = rules.checked_edge(row["from"], row["relation"], row["to"], row.get("weight", 1.0))
            yield edge.source, edge.relation, edge.target, edge.weight


# ---------------------------------------------------------------- queries.jsonl


def _questions(file: Path) -> dict[str, Question]:
    questions: dict[str, Question] = {}
    lines = Lines(file)
    with lines.located():
        for _, row in lines:
            question = _question(row)
            if question.id in questions:
                raise InvalidQuery(f"the _id {question.id!r} occurs twice", "Give every question its own")
            questions[question.id] = question
    return questions


def _question(row: Mapping[str, Any]) -> Question:
    text = _text(row, "text")
    check_text(text)
    metadata: Any = row.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidQuery("metadata is not an object", 'Write {"category": ...} or leave it out')
    fields = cast("dict[str, Any]", metadata)
    session = fields.get("session_no")
    if session is not None and (isinstance(session, bool) or not isinstance(session, int | float)):
        raise InvalidQuery(f"metadata.session_no is {session!r}", "Write a number")
    category, scope = (None if fields.get(name) is None else str(fields[name]) for name in ("category", "scope"))
    marks = [fields.get(name) is True for name in ("unanswerable", "known_failure")]
    return Question(_id(row), text, category, scope, session, *marks)


# ---------------------------------------------------------------- qrels.tsv


def _judgements(file: Path, questions: Any, documents: Any) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for number, line in _lines(file, -1, "score"):
        with _located(file, number):
            question, document, grade = _judgement(line)
            _known(question, questions, "question", "queries.jsonl")
            _known(document, documents, "document", "corpus.jsonl")
        if grade > 0:
            judgements.setdefault(question, {})[document] = grade
    return judgements


def _judgement(line: str) -> tuple[str, str, int]:
    cells = line.split("\t")
    if len(cells) != _FIELDS:
        raise InvalidQuery(f"{len(cells)} columns instead of three", f"Write {_HEADER.replace(chr(9), ' TAB ')}")
    try:
        return cells[0], cells[1], int(cells[2])
    except ValueError:
        raise InvalidQuery(f"the score {cells[2]!r} is not a whole number", "0 is not relevant, 1 or more is") from None


def _known(name: str, names: Any, what: str, file: str) -> None:
    if name not in names:
        raise InvalidQuery(f"unknown {what} {name!r}", f"Add it to {file}, or remove the line")


# ---------------------------------------------------------------- questions about a store


def read_questions(memory: Memory, file: Path, name: str) -> Collection:
    """Reads the questions of a file and looks up their items in the store."""
    questions: dict[str, Question] = {}
    judgements: dict[str, dict[str, int]] = {}
    for number, line in _lines(file, 0, "question"):
        with _located(file, number):
            text, items, category, remark = _cells(line)
            check_text(text)
            stored = questions.get(text, Question(str(len(questions) + 1), text))
            failing = stored.known_failure or remark == _KNOWN_FAILURE
            questions[text] = replace(stored, category=category or stored.category, known_failure=failing)
            for item in _items(memory, items):
                judgements.setdefault(stored.id, {})[str(item.id)] = 1
    if not judgements:
        raise InvalidQuery(f"no question of {file} names an item", "Write its id or key:K into the second column")
    judged = tuple(replace(question, unanswerable=question.id not in judgements) for question in questions.values())
    return Collection(name, (), judged, judgements)


def _cells(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) > 4:
        raise InvalidQuery(f"{len(cells)} columns", "Write question, items, category and remark, with tabs between")
    question, items, category, remark = [*cells, "", "", ""][:4]
    if remark.lower() not in ("", _KNOWN_FAILURE):
        raise InvalidQuery(f"the remark is {remark!r}", f"It is {_KNOWN_FAILURE!r}, or left out")
    return [question, items, category, remark.lower()]


def _items(memory: Memory, items: str) -> Sequence[Item]:
    names = [name.strip() for name in items.split(",") if name.strip()]
    try:
        return memory.get([int(name) if name.isdecimal() else name for name in names]) if names else []
    except NotFound as error:
        raise InvalidQuery(error.message, error.remedy) from error


# ---------------------------------------------------------------- columns with tabs


def _lines(file: Path, column: int, heading: str) -> Iterator[tuple[int, str]]:
    """The numbered lines that are not empty, without a header line, which has this heading in this column."""
    try:
        text = bounded.read_text(file, IMPORT_BYTES, "utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidItem(f"{file} cannot be read ({error})", "Write it as UTF-8, with tabs between columns") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not (number == 1 and line.split("\t")[column].strip().lower() == heading):
            yield number, line


@contextmanager
def _located(file: Path, number: int) -> Generator[None]:
    try:
        yield
    except InvalidQuery as error:
        raise InvalidQuery(f"{file.name}:{number}: {error.message}", error.remedy) from error


# ---------------------------------------------------------------- what all rows have


def _id(row: Mapping[str, Any]) -> str:
    value = next((row[name] for name in ("_id", "id", "key") if row.get(name) is not None), None)
    if value is None or isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidItem("_id is missing", "Give every line an _id, a string")
    return rules.name(str(value), "_id")


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name) or ""
    if not isinstance(value, str):
        raise InvalidItem(f"{name} is not a string", "Write it between quotes")
    return value


def _strings(values: object, what: str) -> list[str]:
    if not isinstance(values, list):
        raise InvalidItem(f"{what} is not a list", "Write a list of strings")
    return [str(value) for value in cast("list[object]", values)]

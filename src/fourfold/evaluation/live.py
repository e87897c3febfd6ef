"""Questions to an existing store, or to an export of it. Nothing is written to the store.

    question    items        category    remark
    Where is the spare key?   key:okafor, 17    people
    Where is the rathole tunnel?    key:tunnel    ops    known failure
    What is the capital of Mongolia?

One question per line, tabs between the columns, and a header line. Items are ids or key:K, separated by commas; a
question without items is one that the store cannot answer. A line with the same question adds items to it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from fourfold.config import Settings
from fourfold.errors import InvalidItem, InvalidQuery, NotFound
from fourfold.evaluation.bench import Answer, Progress, Variant, answered
from fourfold.evaluation.collection import Collection, Question, located
from fourfold.limits import TOP_K
from fourfold.memory import Memory
from fourfold.ranking.plan import check_text

if TYPE_CHECKING:
    from fourfold.model import Item

HEADER: Final = "question"
KNOWN_FAILURE: Final = "known failure"
_COLUMNS: Final = 4


class LiveBench:
    """An open store and its questions. Results are identified by their ids."""

    def __init__(self, memory: Memory, collection: Collection, model: str | None) -> None:
        self.collection = collection
        self.model = model
        self._memory = memory

    def run(self, variant: Variant, *, fresh: bool = False, progress: Progress | None = None) -> list[Answer]:
        """Asks every question. Vectors of questions always come from the model, so `fresh` changes nothing."""
        answers: list[Answer] = []
        for question in self.collection.questions:
            answers.append(self._ask(question, variant))
            if progress is not None:
                progress(len(answers), len(self.collection.questions))
        return answers

    def _ask(self, question: Question, variant: Variant) -> Answer:
        arguments: dict[str, Any] = {"top_k": TOP_K, **variant.arguments}
        response = self._memory.search(question.text, **arguments)
        return answered(question, response, [str(result.id) for result in response.results])


def read_live(memory: Memory, file: Path, name: str) -> LiveBench:
    """Reads the questions of a file and looks up their items in the store."""
    questions: dict[str, Question] = {}
    judgements: dict[str, dict[str, int]] = {}
    for number, line in _lines(file):
        with located(file, number):
            text, items, category, remark = _cells(line)
            check_text(text)
            known = questions.get(text, Question(str(len(questions) + 1), text))
            failing = known.known_failure or remark == KNOWN_FAILURE
            questions[text] = replace(known, category=category or known.category, known_failure=failing)
            for item in _items(memory, items):
                judgements.setdefault(known.id, {})[str(item.id)] = 1
    if not judgements:
        raise InvalidQuery(f"no question of {file} names an item", "Write its id or key:K into the second column")
    asked = tuple(replace(question, unanswerable=question.id not in judgements) for question in questions.values())
    status = memory.status()
    return LiveBench(memory, Collection(name, (), asked, judgements), status["embedder"])


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidItem(f"{file} cannot be read ({error})", "Write it as UTF-8, with tabs between columns") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not (number == 1 and line.split("\t")[0].strip().lower() == HEADER):
            yield number, line


def _cells(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) > _COLUMNS:
        raise InvalidQuery(f"{len(cells)} columns", "Write question, items, category and remark, with tabs between")
    question, items, category, remark = [*cells, "", "", ""][:_COLUMNS]
    if remark.lower() not in ("", KNOWN_FAILURE):
        raise InvalidQuery(f"the remark is {remark!r}", f"It is {KNOWN_FAILURE!r}, or left out")
    return [question, items, category, remark.lower()]


def _items(memory: Memory, items: str) -> Sequence[Item]:
    names = [name.strip() for name in items.split(",") if name.strip()]
    try:
        return memory.get([int(name) if name.isdecimal() else name for name in names]) if names else []
    except NotFound as error:
        raise InvalidQuery(error.message, error.remedy) from error


@contextmanager
def opened_export(file: Path, settings: Settings) -> Generator[Memory]:
    """Loads an export, with its vectors, into a temporary store."""
    with (
        TemporaryDirectory(prefix="fourfold-eval-", ignore_cleanup_errors=True) as folder,
        Memory.open(folder, namespace=settings.namespace, settings=settings, background=False) as memory,
    ):
        memory.import_file(file)
        memory.embed_pending()
        memory.index()
        yield memory

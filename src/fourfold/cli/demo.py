"""demo: a small team's knowledge in a temporary store, searched in nine ways, or opened in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from fourfold.cli.commands import option
from fourfold.cli.output import progress_bar, say, warn_degraded
from fourfold.cli.serve import server
from fourfold.config import Settings
from fourfold.model import Json, NewItem
from fourfold.retrieval import SearchResponse

if TYPE_CHECKING:
    from fourfold.memory import Memory

ANY_PORT: Final = "127.0.0.1:0"
SETTINGS: Final = Settings()
"""The defaults, whatever the user has set."""


class Question(NamedTuple):
    text: str
    point: str
    answer: str | None
    """The key of the note that answers it; None: nothing stored does."""
    top_k: int = 3
    only: str | None = None


QUESTIONS: Final = (
    Question("Can I travel by rail with my bicycle?", "The note says train and cargo bike: vectors know what is meant.",
        "bikes-on-trains"),
    Question("BRK-4471-B", "An exact part number: keywords find it, and the graph knows it too.", "bremsbelaege"),
    Question("Wann werden Standortdaten gelöscht?", "German is searched as German, beside English in one store.",
        "loeschfristen"),
    Question("When is my helmet replaced?",
        "An English question, a German note: both languages share one vector space.", "helmets"),
    Question("Was tun bei verdächtigen E-Mails?", "And the other way round: an English note.", "phishing"),
    Question("Which services use Rabenhorst?", "Only the graph: what is connected, the closest first.", "paketfuchs", 4,
        "graph"),
    Question("kitchen recipe", "Words that are tags count as tags.", "thursday-dal"),
    Question("How do I get to the airport?", "No note says it, and no result is sure: see the column conf.", None),
    Question("What led to the approval limit for Speiche?", "All four, and the relation that the question asks for.",
        "lemon-incident"),
)  # fmt: skip
NEXT: Final = """\
The same notes in a browser:
  fourfold demo --serve

Now with your own:
  fourfold add "Deploys happen on Mondays at 10:30" --tag release
  fourfold search "when do we ship?" --explain
  fourfold index ~/notes
  fourfold mcp install"""


def demo(
    serve: Annotated[bool, option("--serve", help="Then open the page on these notes, until Ctrl-C.")] = False,
) -> None:
    with TemporaryDirectory(prefix="fourfold-demo-") as folder:
        if serve:
            _serve(replace(SETTINGS, store=folder))
        else:
            from fourfold.memory import Memory

            with Memory.open(folder, settings=SETTINGS) as memory:
                fill(memory)
                responses = [_ask(memory, question) for question in QUESTIONS]
            response = responses[-1]
            from fourfold.cli.render import print_explanation

            say("The same with --explain: every score is a sum, and says of what.\n")
            for position, result in enumerate(response.results, start=1):
                if result.explanation is not None:
                    print_explanation(f"{position}. {result.item.title}", result.explanation)
            say("")
            say(NEXT)


def _serve(settings: Settings) -> None:
    from fourfold.memory import Memory

    with Memory.open(settings.store, settings=settings) as memory:
        fill(memory)
    judge(settings)
    server("http.app").serve(settings, "core", ANY_PORT, open_page=True)


def fill(memory: Memory) -> None:
    """Stores the notes and relations of the demo, with their vectors."""
    items = [_item(row) for row in _rows("corpus.jsonl")]
    edges = _rows("edges.jsonl")
    memory.add_many(items)
    memory.add_edges([(edge["from"], edge["relation"], edge["to"], edge["weight"]) for edge in edges])
    with progress_bar("vectors") as progress:
        memory.embed_pending(progress=progress)
    say(f"A cargo bike cooperative: {len(items)} notes in two languages, {len(edges)} relations.\n")


def judge(settings: Settings) -> None:
    """Stores which notes answer which questions: the page asks and measures them. Those of the tour come last."""
    from fourfold.evaluation.collection import read_collection

    collection = read_collection(Path(str(files("fourfold"))) / "demo")
    texts = {question.id: question.text for question in collection.questions}
    judged = {
        texts[id]: {f"key:{key}": int(relevance) for key, relevance in items.items()}
        for id, items in collection.judgements.items()
    }
    for question in QUESTIONS:
        if question.answer is not None:
            judged[question.text] = judged.pop(question.text, {}) | {f"key:{question.answer}": 1}
    judgements = server("http.judgements")
    judgements.write(judgements.folder_of(settings, settings.namespace), judged)


def _ask(memory: Memory, question: Question) -> SearchResponse:
    from fourfold.cli.render import print_results

    only = None if question.only is None else (question.only,)
    response = memory.search(question.text, top_k=question.top_k, only=only, explain=True)
    option = "" if question.only is None else f" --only {question.only}"
    say(f'$ fourfold search "{question.text}" -k {question.top_k}{option}\n{question.point}\n')
    print_results(response, snippets=False)
    warn_degraded(response)
    say("")
    return response


def _rows(name: str) -> list[dict[str, Json]]:
    text = files("fourfold").joinpath("demo", name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _item(row: dict[str, Json]) -> NewItem:
    tags: Iterable[str] = row["tags"]
    return NewItem(
        text=row["text"],
        title=row["title"],
        key=row["_id"],
        tags=tuple(tags),
        kind=row["kind"],
        metadata=row["metadata"],
        created_at=datetime.fromisoformat(row["created_at"]),
    )

"""demo: a small team's knowledge in a temporary store, searched in eight ways."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from fourfold.cli.output import say, warn_degraded
from fourfold.model import Json, NewItem
from fourfold.retrieval import SearchResponse

if TYPE_CHECKING:
    from fourfold.memory import Memory


class Question(NamedTuple):
    text: str
    point: str
    top_k: int = 3
    only: str | None = None


QUESTIONS: Final = (
    Question("who has a peanut allergy?", "Not one of these words is in the note: vectors find it."),
    Question("BRK-4471-B", "An exact part number: keywords find it, and the graph knows it too."),
    Question("Kündigungsfrist Büro", "German is searched as German, beside English in one store."),
    Question(
        "Wer verträgt keine Erdnüsse?", "A German question, an English note: both languages share one vector space."
    ),
    Question("How early must we give notice to our landlord?", "And the other way round: a German note."),
    Question("What uses Rabenhorst?", "Only the graph: what is connected, the closest first.", 6, "graph"),
    Question("kitchen recipe", "Words that are tags count as tags."),
    Question(
        "What did we decide after invoices went out twice?", "All four, and a walk along the graph from the best."
    ),
)
NEXT: Final = """\
Now with your own:
  fourfold add "Deploys happen on Mondays at 10:30" --tag release --title "Release day"
  fourfold search "when do we ship?" --explain
  fourfold import notes.jsonl
  fourfold graph edge Paketfuchs uses Rabenhorst
  fourfold config"""


def demo() -> None:
    with TemporaryDirectory(prefix="fourfold-demo-") as folder:
        _demo(folder)
    say(NEXT)


def _demo(folder: str) -> None:
    from fourfold.config import Settings
    from fourfold.memory import Memory

    with Memory.open(folder, settings=Settings()) as memory:
        fill(memory)
        responses = [_ask(memory, question) for question in QUESTIONS]
    _explain(responses[-1])


def fill(memory: Memory) -> None:
    """Stores the notes and relations of the demo, with their vectors."""
    from fourfold.cli.render import progress_bar

    items = [_item(row) for row in _rows("corpus.jsonl")]
    edges = _rows("edges.jsonl")
    memory.add_many(items)
    memory.add_edges([(edge["from"], edge["relation"], edge["to"], edge["weight"]) for edge in edges])
    with progress_bar("vectors") as progress:
        memory.embed_pending(progress=progress)
    say(f"A cargo bike cooperative: {len(items)} notes in two languages, {len(edges)} relations.\n")


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


def _explain(response: SearchResponse) -> None:
    from fourfold.cli.render import print_explanation

    say("The same with --explain: every score is a sum, and says of what.\n")
    for position, result in enumerate(response.results, start=1):
        if result.explanation is not None:
            print_explanation(f"{position}. {result.item.title}", result.explanation)
    say("")


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

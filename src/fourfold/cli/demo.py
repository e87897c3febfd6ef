"""demo: a small team's knowledge in a temporary store, searched in six ways."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from importlib.resources import files
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from fourfold.cli.output import say, warn_degraded
from fourfold.cli.session import wait_for

if TYPE_CHECKING:
    from fourfold.memory import Memory
    from fourfold.model import Json, NewItem, SearchResponse

QUESTIONS: Final = (
    ("Is anybody allergic to something?", "Not one word of the note is in the question: vectors."),
    ("BRK-4471-B", "An exact part number: keywords."),
    ("Wann kann der Mietvertrag gekündigt werden?", "German is found as German, beside English in one store."),
    ("What uses Rabenhorst?", "A question about relations: the graph."),
    ("battery winter", "Words that are tags."),
    ("What did we decide after invoices went out twice?", "All of them together."),
)
NEXT: Final = """\
Now with your own:
  fourfold add "Deploys happen on Mondays at 10:30" --tag release --title "Release day"
  fourfold search "when do we ship?" --explain
  fourfold import notes.jsonl --wait
  fourfold graph edge Paketfuchs uses Rabenhorst
  fourfold config"""


def demo() -> None:
    with TemporaryDirectory(prefix="fourfold-demo-") as folder:
        wait_for(_demo(folder))
    say(NEXT)


async def _demo(folder: str) -> None:
    from fourfold.config import Settings
    from fourfold.memory import Memory

    async with await Memory.open(folder, settings=Settings()) as memory:
        await _fill(memory)
        responses = [await _ask(memory, question, point) for question, point in QUESTIONS]
    _explain(responses[-1])


async def _fill(memory: Memory) -> None:
    from fourfold.cli.render import progress_bar

    rows = _rows()
    items = [_item(row) for row in rows if "edge" not in row]
    edges = [row["edge"] for row in rows if "edge" in row]
    await memory.add_many(items)
    for edge in edges:
        await memory.add_edge(edge["from"], edge["relation"], edge["to"], weight=edge["weight"])
    with progress_bar("vectors") as progress:
        await memory.embed_pending(progress=progress)
    say(f"A cargo bike cooperative: {len(items)} notes in two languages, {len(edges)} relations.\n")


async def _ask(memory: Memory, question: str, point: str) -> SearchResponse:
    from fourfold.cli.render import print_results

    response = await memory.search(question, top_k=3, explain=True)
    say(f"> {question}\n  {point}")
    print_results(response, snippets=False)
    warn_degraded(response)
    say("")
    return response


def _explain(response: SearchResponse) -> None:
    from fourfold.cli.render import print_explanation

    say(f"Why this order, for: {response.query}")
    for position, result in enumerate(response.results, start=1):
        if result.explanation is not None:
            print_explanation(f"{position}. {result.item.title}", result.explanation)
    say("")


def _rows() -> list[dict[str, Json]]:
    text = files("fourfold").joinpath("demo", "knowledge.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _item(row: dict[str, Json]) -> NewItem:
    from fourfold.model import NewItem

    tags: Iterable[str] = row["tags"]
    return NewItem(
        text=row["text"],
        title=row["title"],
        key=row["key"],
        tags=tuple(tags),
        kind=row["kind"],
        metadata=row["metadata"],
        created_at=datetime.fromisoformat(row["created_at"]),
    )

"""Two namespaces with the same texts: no request in A shows anything of B, and changes of B change no answer in A."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from engine_support import WordEmbedder
from mcp import Client, MCPError
from mcp_http import client as client_of
from mcp_http import serving
from mcp_support import connected

import fourfold.embed
from fourfold import AsyncMemory, NewItem, Settings
from fourfold.ranking.plan import PlanSettings
from fourfold.retrieval import Recency
from fourfold.serve.mcp.server import build

OURS, THEIRS = "ours", "theirs"
"""The names of the namespaces; everything of B contains the second, which no query and no text of A contains."""
QUERIES, OVER_PIPES, COMPARED, MORE = 1000, 60, 100, 1000
WORDS = """
    heron otter stork river bridge harbour kettle ladder museum orchard pencil quarry radio saddle tunnel umbrella
    violin walnut yacht zebra anchor basket candle dragon engine falcon garden hammer island jacket
""".split()  # noqa: SIM905
NAMES = [f"{first.title()} {second.title()}" for first, second in zip(WORDS[:15], WORDS[15:], strict=True)]
KINDS = ("fact", "decision")
TEXTS = 30


@dataclass(frozen=True)
class Known:
    """Ids of each namespace."""

    ours: list[int]
    theirs: list[int]


def new_items(chooser: random.Random, count: int, **metadata: str) -> list[NewItem]:
    return [
        NewItem(
            " ".join(chooser.choices(WORDS, k=12)) + f" near {chooser.choice(NAMES)}",
            title=NAMES[number] if number < len(NAMES) else "",
            tags=tuple(chooser.sample(WORDS, 2)),
            kind=chooser.choice(KINDS),
            key=f"key {number}",
            metadata={"floor": chooser.randrange(5), **metadata},
        )
        for number in range(count)
    ]


async def fill(store: Path) -> Known:
    """Fills A, and B with the same texts, titles, tags and keys, further items, and a similar graph."""
    async with await AsyncMemory.open(store, embedder=WordEmbedder(), namespace=OURS) as ours:
        theirs = ours.within(THEIRS)
        mine = await ours.add_many(new_items(random.Random(1), TEXTS), wait=True)
        copies = new_items(random.Random(1), TEXTS, of=THEIRS)
        others = new_items(random.Random(2), TEXTS, of=THEIRS)
        strange = [NewItem(f"{item.text} {number}", metadata=item.metadata) for number, item in enumerate(others)]
        rest = await theirs.add_many([*copies, *strange], wait=True)
        for first, second in pairwise(NAMES):
            await ours.add_edge(first, "knows", second, 0.5)
            await theirs.add_edge(first, "knows", second, 0.5)
        for first in NAMES:
            await theirs.add_edge(first, f"{THEIRS} likes", f"{THEIRS} {first}")
            await theirs.add_node(first, properties={"of": THEIRS})
        return Known([item.id for item in mine], [item.id for item in rest])


# ---------------------------------------------------------------- requests of A


def filters(chooser: random.Random, *names: str) -> dict[str, Any]:
    """Random filters, or none."""
    some: dict[str, Any] = {
        "tags": chooser.sample(WORDS, chooser.choice((1, 5))),
        "any_tag": True,
        "created_from": "2020-01-01",
        "created_to": "2199-01-01",
        "kind": chooser.choice(KINDS),
        "language": "en",
        "metadata": {"floor": {"gte": chooser.randrange(3), "lt": 5}},
    }
    return {name: some[name] for name in names if chooser.random() < 0.4}


ALL = ("tags", "any_tag", "created_from", "created_to", "kind", "language", "metadata")


def a_call(chooser: random.Random, known: Known) -> tuple[str, dict[str, Any]]:
    """A call of a reading tool with random arguments, sometimes with an id of B."""
    text = " ".join(chooser.choices([*WORDS, *NAMES], k=chooser.randint(1, 6)))
    some_id = chooser.choice([*known.ours, *known.theirs, "key:key 3", "key:key 29"])
    top = {"top_k": chooser.choice((1, 5, 5, 100)), "max_tokens": chooser.choice((500, 500, 50_000))}
    calls: Mapping[str, dict[str, Any]] = {
        "hybrid_search": {
            "query_text": text,
            **top,
            **filters(chooser, *ALL),
            **chooser.choice(({}, {"preset": "insights"}, {"fusion": "rrf"}, {"preset": "wiki"}, {"explain": True})),
        },
        "semantic_search": {"query_text": text, **top, **filters(chooser, *ALL)},
        "full_text_search": {"query_text": text, **top, **filters(chooser, *ALL)},
        "get_memory": {"ids": [some_id]},
        "list_memories": {
            "limit": chooser.choice((5, 5, 100)),
            "offset": chooser.choice((0, 3)),
            **filters(chooser, *(name for name in ALL if name != "language")),
        },
        "graph_query_neighbors": {"name": chooser.choice(NAMES), "depth": chooser.randint(1, 5)},
        "graph_find_path": {"start": chooser.choice(NAMES), "goal": chooser.choice([*NAMES, f"{THEIRS} {NAMES[0]}"])},
        "retrieve_memory": {"query": text, "page_size": chooser.choice((3, 10)), "page": chooser.choice((1, 2))},
        "explain_result": {"id": some_id, "query_text": text},
        "resource": {"uri": f"memory://item/{some_id}".replace(" ", "%20")},
    }
    tool = chooser.choice(list(calls))
    named = {} if tool == "resource" or chooser.random() < 0.5 else {"namespace": OURS}
    return tool, {**calls[tool], **named}


async def answer(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer or the error, without fields that depend on the clock."""
    if tool == "resource":
        try:
            read: Any = await client.read_resource(arguments["uri"])
        except MCPError as error:
            return {"status": "error", "error": error.message}
        return json.loads(read.contents[0].text)
    request = mcp_types.CallToolRequest(params=mcp_types.CallToolRequestParams(name=tool, arguments=arguments))
    result: Any = await client.session.send_request(request, mcp_types.CallToolResult)  # schemas have their own tests
    found = json.loads(result.content[0].text)
    found.pop("timings_ms", None)
    return found


def shows_theirs(found: dict[str, Any], arguments: dict[str, Any]) -> bool:
    """Whether the answer contains something of B; arguments of the call may be repeated."""
    text = json.dumps(found)
    for given in (value for value in arguments.values() if isinstance(value, str)):
        text = text.replace(given, "")
    return THEIRS in text


def ids_in(value: Any) -> set[int]:
    """Every id of an item in an answer."""
    match value:
        case dict():
            is_item = not value.keys().isdisjoint(("namespace", "created_at", "score"))
            own = {value["id"]} if "id" in value and is_item else set()
            own |= {value["item_id"]} if value.get("item_id") is not None else set()
            return own.union(*(ids_in(each) for each in value.values()))
        case list():
            return set().union(*(ids_in(each) for each in value))
        case _:
            return set()


# ---------------------------------------------------------------- the tests


@pytest.fixture
def _words_as_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the word embedder instead of the model, also in servers that open the store themselves."""
    monkeypatch.setattr(fourfold.embed, "create", lambda spec, **_: WordEmbedder())


@asynccontextmanager
async def in_process(store: Path) -> AsyncIterator[Client]:
    """A server in this process. Recency is off, because it would change scores during the test."""
    settings = Settings(store=str(store), namespace=OURS, plan=PlanSettings(memories_recency=Recency(0.0)))
    server, _ = build(lambda: settings, "all")
    async with connected(store, server=server) as client:
        yield client


async def judge(client: Client, known: Known, count: int, seed: int, least: int = 10) -> None:
    chooser, seen = random.Random(seed), Counter[str]()
    for _ in range(count):
        tool, arguments = a_call(chooser, known)
        found = await answer(client, tool, arguments)
        assert not shows_theirs(found, arguments), (tool, arguments, found)
        assert ids_in(found) <= set(known.ours), (tool, arguments)
        seen[f"{tool} {found.get('status')}"] += bool(ids_in(found) or "neighbors" in found or "edges" in found)
    answered = {name.partition(" ")[0] for name, some in seen.items() if some}
    assert len(answered) >= least, f"too few tools found something: {answered}"


@pytest.mark.spec("B15")
@pytest.mark.usefixtures("_words_as_vectors")
async def test_a_thousand_requests_show_nothing_of_another_namespace(tmp_path: Path) -> None:
    known = await fill(tmp_path)
    async with in_process(tmp_path) as client:
        await judge(client, known, QUERIES, seed=3)


@pytest.mark.spec("B15")
async def test_requests_over_real_pipes_show_nothing_of_another_namespace(tmp_path: Path) -> None:
    known = await fill(tmp_path)
    environment = {"FOURFOLD_EMBEDDER": "none", "FOURFOLD_NAMESPACE": OURS}
    async with connected(tmp_path, "--tools", "all", **environment) as client:
        await judge(client, known, OVER_PIPES, seed=4, least=7)


@pytest.mark.spec("B15")
async def test_requests_over_http_with_a_token_show_nothing_of_another_namespace(tmp_path: Path) -> None:
    known, token = await fill(tmp_path), "0123456789abcdef"
    with serving(tmp_path, "--tools", "all", FOURFOLD_HTTP_TOKENS=f"{OURS}:{token}") as server:
        async with client_of(server, token=token) as client:
            await judge(client, known, OVER_PIPES, seed=4, least=7)
            chooser = random.Random(7)
            for _ in range(OVER_PIPES):
                tool, arguments = a_call(chooser, known)
                if tool != "resource":
                    found = await answer(client, tool, {**arguments, "namespace": THEIRS})
                    assert (found["status"], found["details"]) == ("error", f"Yours: {OURS}")


@pytest.mark.spec("B15")
@pytest.mark.usefixtures("_words_as_vectors")
async def test_a_thousand_items_in_another_namespace_change_no_answer(tmp_path: Path) -> None:
    known = await fill(tmp_path)
    chooser = random.Random(5)
    calls = [a_call(chooser, known) for _ in range(COMPARED)]
    async with in_process(tmp_path) as client:
        before = [json.dumps(await answer(client, *each)) for each in calls]
        async with await AsyncMemory.open(tmp_path, embedder=WordEmbedder(), namespace=THEIRS) as theirs:
            await theirs.add_many(new_items(random.Random(6), MORE, of=THEIRS), wait=True)
        after = [json.dumps(await answer(client, *each)) for each in calls]
    assert after == before
    assert sum(bool(ids_in(json.loads(each))) for each in before) > COMPARED // 3

"""What the MCP server costs: how soon it greets, and what a search over it takes beyond the search itself.

    python benchmarks/mcp_cost.py --starts 20 --searches 200

Both are compared with an empty server of the same SDK, in turns, so that noise of the machine hits both alike; the
ratio and the difference are medians over the pairs. (The file is not called mcp.py: it would hide the SDK.)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from corpus import collect_passages
from mcp import Client, StdioServerParameters

from fourfold import AsyncMemory, NewItem, wire
from fourfold.serve.mcp.answers import SEARCH_TOKENS, search_answer

CACHE = Path(tempfile.gettempdir()) / "fourfold-bench"
SEED = 4
WORDS = 25
BAR = 1.3
WARM_UP = 10

EMPTY = """\
from mcp.server.mcpserver import MCPServer

MCPServer("empty", log_level="WARNING").run("stdio")
"""

CANNED = """\
import json, sys
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent

server = MCPServer("canned", log_level="WARNING")
with open(sys.argv[1], encoding="utf-8") as file:
    answers = {query: CallToolResult(content=[TextContent(type="text", text=text)])
               for query, text in json.load(file).items()}

@server.tool(structured_output=False)
async def plain(query_text: str) -> CallToolResult:
    return answers[query_text]

server.run("stdio")
"""

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}},
}


def main() -> None:
    """Measure both and print one table."""
    options = read_options()
    store = options.cache / f"mcp-{options.items}"
    asyncio.run(fill(store, options.items))
    with tempfile.TemporaryDirectory() as folder:
        starts = measure_starts(Path(folder), options.starts)
        searches = asyncio.run(measure_searches(Path(folder), store, options.searches))
    print(as_markdown(starts, searches))


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=2000, help="how many items the store holds")
    parser.add_argument("--starts", type=int, default=20, help="how often each server is started")
    parser.add_argument("--searches", type=int, default=200, help="how many distinct queries are asked")
    parser.add_argument("--cache", type=Path, default=CACHE, help="data folder")
    return parser.parse_args()


# ---------------------------------------------------------------- how soon it greets


@dataclass(frozen=True, slots=True)
class Start:
    """From the start of the process to the answer to `initialize`, in seconds."""

    clock: float
    processor: float


def measure_starts(folder: Path, count: int) -> list[tuple[Start, Start]]:
    """Start both servers in turns; the first pair fills the caches and does not count."""
    script = folder / "empty.py"
    script.write_text(EMPTY, encoding="utf-8")
    empty = [sys.executable, str(script)]
    ours = [sys.executable, "-m", "fourfold", "--store", str(folder / "none"), "mcp"]
    pairs = []
    for turn in range(count + 1):
        first, second = (ours, empty) if turn % 2 else (empty, ours)
        one, other = greeted(first), greeted(second)
        pairs.append((one, other) if turn % 2 else (other, one))
    return pairs[1:]


def greeted(command: Sequence[str]) -> Start:
    """Start a server, greet it, and end it as soon as it has answered."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(HELLO).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        clock = time.perf_counter() - started
        server.kill()
        _, status, used = os.wait4(server.pid, 0)
        server.returncode = os.waitstatus_to_exitcode(status)
    assert answer["result"]["serverInfo"]
    return Start(clock, used.ru_utime + used.ru_stime)


# ---------------------------------------------------------------- what a search takes


@dataclass(frozen=True, slots=True)
class Search:
    """The same query in several ways, in seconds."""

    over_mcp: float
    in_process: float
    with_answer: float
    """In process, and made into the answer that is sent."""
    plain_tool: float
    """An empty tool that has the same answer ready."""


async def fill(store: Path, count: int) -> None:
    """Make the store, unless an earlier run has made it."""
    passages, _ = collect_passages(count, SEED)
    async with await AsyncMemory.open(store) as memory:
        if sum(items for _, items in await memory.namespaces()) == 0:
            items = [
                NewItem(" ".join(each.text.split()[:WORDS]), title=each.title, key=each.title) for each in passages
            ]
            await memory.add_many(items)
        await memory.embed_pending()
        await memory.index()


async def measure_searches(folder: Path, store: Path, count: int) -> tuple[list[Search], int]:
    """Ask every query in every way, in turns; also says how many bytes an answer has."""
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(await AsyncMemory.open(store))
        queries = await questions(memory, count + WARM_UP)
        ours = await stack.enter_async_context(Client(server_of("-m", "fourfold", "--store", str(store), "mcp")))
        answers = {query: await text_of(ours, "hybrid_search", query) for query in queries}
        (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
        (folder / "canned.py").write_text(CANNED, encoding="utf-8")
        canned = await stack.enter_async_context(
            Client(server_of(str(folder / "canned.py"), str(folder / "answers.json")))
        )
        ways = (
            lambda query: text_of(ours, "hybrid_search", query),
            lambda query: memory.search(query),
            lambda query: answer_of(memory, query),
            lambda query: text_of(canned, "plain", query),
        )
        found = [await one_by_one(ways, query, turn) for turn, query in enumerate(queries)]
    return found[WARM_UP:], int(median(len(answer.encode()) for answer in answers.values()))


def server_of(*arguments: str) -> StdioServerParameters:
    """A server that the SDK's client starts."""
    return StdioServerParameters(command=sys.executable, args=list(arguments), env=dict(os.environ))


async def questions(memory: AsyncMemory, count: int) -> list[str]:
    """Some words of as many items."""
    items = await memory.list(limit=count)
    return [" ".join(item.text.split()[3:9]) for item in items]


async def text_of(client: Client, tool: str, query: str) -> str:
    """What a tool answers."""
    result: Any = await client.call_tool(tool, {"query_text": query})
    assert not result.is_error, result.content
    return result.content[0].text


async def answer_of(memory: AsyncMemory, query: str) -> str:
    """What is sent, made in this process."""
    response = await memory.search(query)
    return wire.compact(search_answer(response, response.results, SEARCH_TOKENS, explain=False, page={}))


async def one_by_one(ways: Sequence[Callable[[str], Awaitable[object]]], query: str, turn: int) -> Search:
    """Time each way once; another one begins every time."""
    seconds = [0.0] * len(ways)
    for step in range(len(ways)):
        way = (step + turn) % len(ways)
        started = time.perf_counter()
        await ways[way](query)
        seconds[way] = time.perf_counter() - started
    return Search(*seconds)


# ---------------------------------------------------------------- the table


def as_markdown(starts: list[tuple[Start, Start]], searches: tuple[list[Search], int]) -> str:
    """Lay the figures out; a bar that is missed is said."""
    found, size = searches
    rows = [
        ("", "fourfold", "empty server", "ratio, median of pairs"),
        ("---", "---:", "---:", "---:"),
        start_row("`initialize`, by the clock", starts, lambda start: start.clock),
        start_row("`initialize`, processor time", starts, lambda start: start.processor),
        ("", "over MCP", "in process + empty tool", "difference, median of pairs"),
        search_row("with the bare search and tool", found, "in_process", "plain_tool"),
        search_row("with the answer made of it", found, "with_answer", "plain_tool"),
    ]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{table}\n\n{len(starts)} starts, {len(found)} searches; an answer has {size:,} bytes"


def start_row(title: str, starts: list[tuple[Start, Start]], value: Callable[[Start], float]) -> tuple[str, ...]:
    """Both medians and the median ratio."""
    ratio = median(value(ours) / value(empty) for ours, empty in starts)
    verdict = "" if ratio <= BAR else f" (over {BAR})"
    return title, ms(value(pair[0]) for pair in starts), ms(value(pair[1]) for pair in starts), f"{ratio:.2f}{verdict}"


def search_row(title: str, found: list[Search], search: str, tool: str) -> tuple[str, ...]:
    """A call beside its parts."""
    parts = [(getattr(each, search), getattr(each, tool)) for each in found]
    extra = median(each.over_mcp - sum(part) for each, part in zip(found, parts, strict=True))
    shown = f"{ms(part[0] for part in parts)} + {ms(part[1] for part in parts)}"
    return f"`hybrid_search`, {title}", ms(each.over_mcp for each in found), shown, f"{extra * 1000:+.1f} ms"


def ms(seconds: Any) -> str:
    """The median in milliseconds."""
    return f"{median(seconds) * 1000:.1f} ms"


if __name__ == "__main__":
    main()

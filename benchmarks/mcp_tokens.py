"""What the MCP server costs a conversation: tokens of the tool definitions, and of a standard answer.

    python benchmarks/mcp_tokens.py                     this version
    python benchmarks/mcp_tokens.py --before 8327fbd    that commit beside it, from a worktree in a temporary folder

A standard answer: `hybrid_search` over five notes, all of them found. Tokens are those of o200k (package rs-bpe).
Definitions are counted as `tools/list` sends them. Of an answer, all that is sent is counted, and the one part that a
client shows its model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rs_bpe.bpe import openai

ROOT = Path(__file__).parents[1]
LEVELS = ("core", "graph", "all")
NOTES = (
    "The spare key of the flat is with Mrs Okafor",
    "Maria leads Project Eagle",
    "We keep PostgreSQL, the team knows it",
    "The router's password is in the blue folder",
    "Deploys go out on Tuesdays",
)
QUERY = "spare key, Maria, PostgreSQL, router, deploys"


def main() -> None:
    """Print one table; a row for each figure, a column for each version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", help="measure that commit, too")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(asyncio.run(measure())))
        return
    versions = {"now": figures_of(ROOT)}
    if options.before:
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            subprocess.run(["git", "worktree", "add", "--detach", "-q", tree, options.before], cwd=ROOT, check=True)
            try:
                versions = {options.before: figures_of(tree), **versions}
            finally:
                subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    print(table(versions))


def figures_of(tree: Path) -> dict[str, int]:
    """Measure the package of a source tree in a process of its own, with the kernel of that tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "FOURFOLD_EMBEDDER": "builtin"}
    if tree != ROOT:
        subprocess.run([sys.executable, "hatch_build.py"], cwd=tree, check=True, capture_output=True)
    command = [sys.executable, str(Path(__file__).resolve()), "--measure"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


async def measure() -> dict[str, int]:
    """The figures of the package that this process imports."""
    from mcp import Client

    from fourfold.config import Settings
    from fourfold.serve.mcp.server import build

    figures: dict[str, int] = {}
    for level in LEVELS:
        with tempfile.TemporaryDirectory() as store:
            server, _ = build(lambda store=store: Settings(store=store), level)
            async with Client(server) as client:
                tools = (await client.list_tools()).model_dump(mode="json", by_alias=True, exclude_none=True)["tools"]
                figures[f"{level}: tools"] = len(tools)
                figures[f"{level}: definitions"] = tokens(tools)
                shown = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in tools]
                figures[f"{level}: name, description and parameters of these"] = tokens(shown)
                if level == "core":
                    figures |= await standard_answer(client)
    return figures


async def standard_answer(client: Any) -> dict[str, int]:
    """Store the notes, and search them."""
    for note in NOTES:
        await client.call_tool("store_memory", {"content": note})
    result = await client.call_tool("hybrid_search", {"query_text": QUERY})
    text = result.content[0].text
    assert len(json.loads(text)["results"]) == len(NOTES)
    parts = [text] if result.structured_content is None else [text, json.dumps(result.structured_content)]
    return {
        "the five notes themselves": sum(map(count, NOTES)),
        "their answer, all that is sent": sum(map(count, parts)),
        "their answer, as a model reads it": count(text),
    }


def tokens(value: Any) -> int:
    """Tokens of the JSON of a value."""
    return count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def count(text: str) -> int:
    """Tokens of a text."""
    return len(openai.o200k_base().encode(text))


def table(versions: dict[str, dict[str, int]]) -> str:
    """A Markdown table."""
    head = ["| tokens (o200k) | " + " | ".join(versions) + " |", "|---|" + "---:|" * len(versions)]
    names = next(iter(versions.values()))
    rows = [f"| {name} | " + " | ".join(f"{each[name]:,}" for each in versions.values()) + " |" for name in names]
    return "\n".join([*head, *rows])


if __name__ == "__main__":
    main()

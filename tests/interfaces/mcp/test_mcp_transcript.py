"""The session in docs/mcp.md equals that of a real server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "mcp.md"


def has(answer: Any, shown: Any) -> bool:
    """Whether the answer contains everything that the page shows."""
    if isinstance(shown, dict) and isinstance(answer, str):  # the JSON of a tool's answer is sent as text
        answer = json.loads(answer)
    if isinstance(shown, dict):
        return isinstance(answer, dict) and all(key in answer and has(answer[key], shown[key]) for key in shown)
    if isinstance(shown, list):
        return len(answer) == len(shown) and all(map(has, answer, shown))
    return answer == shown


def test_the_session_on_the_page_is_what_the_server_answers(tmp_path: Path) -> None:
    lines = PAGE.read_text("utf-8").partition("```mcp\n")[2].partition("```")[0].splitlines()
    sent = [line[2:] for line in lines if line.startswith("> ")]
    shown = [json.loads(line[2:]) for line in lines if line.startswith("< ")]
    assert len(sent) + len(shown) == len(lines) > 8
    command = [sys.executable, "-m", "fourfold", "--store", str(tmp_path), "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for line in sent:
            server.stdin.write(line + "\n")
            server.stdin.flush()
            if "id" in json.loads(line):
                answer = json.loads(server.stdout.readline())
                assert has(answer, shown.pop(0)), answer
        server.stdin.close()
        assert server.wait(30) == 0
    assert shown == []

"""The real Claude Code accepts the plugin, and its hooks reach the model. Needs npx and the network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fourfold import Memory

ROOT = Path(__file__).parent.parent.parent
CLAUDE = ["npx", "--yes", "@anthropic-ai/claude-code@2.1.197"]
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(shutil.which("npx") is None, reason="Claude Code is an npm package"),
]


class Api(BaseHTTPRequestHandler):
    """A local replacement for the paid API: records every request and refuses it."""

    received: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.received.append(body.decode("utf-8", "replace"))
        answer = json.dumps(
            {"type": "error", "error": {"type": "invalid_request_error", "message": "refused"}}
        ).encode()
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


@pytest.fixture
def api() -> Iterator[tuple[str, list[str]]]:
    received: list[str] = []
    handler = type("Recording", (Api,), {"received": received})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


def claude(home: Path, *arguments: str, **environment: str) -> str:
    own = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_STATE_HOME": str(home / "state"),
        "FOURFOLD_STORE": str(home / "store"),
        "FOURFOLD_HOOK_SECONDS": "9",
        "npm_config_cache": str(Path.home() / ".npm"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **environment,
    }
    (folder := home / "shop").mkdir(exist_ok=True)
    done = subprocess.run(
        [*CLAUDE, *arguments], env=own, cwd=folder, capture_output=True, text=True, timeout=550, check=False
    )
    return done.stdout + done.stderr


def test_claude_code_accepts_the_plugin_and_passes_hook_results_to_the_model(
    tmp_path: Path, api: tuple[str, list[str]]
) -> None:
    url, received = api
    for path in (ROOT, ROOT / "plugins" / "fourfold"):
        assert "Validation passed" in claude(tmp_path, "plugin", "validate", str(path))
    assert "Successfully added" in claude(tmp_path, "plugin", "marketplace", "add", str(ROOT))
    assert "Successfully installed" in claude(tmp_path, "plugin", "install", "fourfold@fourfold")
    with Memory.open(tmp_path / "store") as memory:
        memory.add("The staging host is called blue-7", wait=True)
    prompt = "Which host is staging? Please remember that the invoice printer is named Otto."
    claude(tmp_path, "-p", prompt, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="sk-none")
    assert any("Memories that may answer this prompt" in body and "blue-7" in body for body in received)
    with Memory.open(tmp_path / "store") as memory:
        assert "The invoice printer is named Otto." in [item.text for item in memory.list()]

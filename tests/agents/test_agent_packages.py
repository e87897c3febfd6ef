"""What is published for agents agrees with the package: plugin, registry entry, bundle."""

from __future__ import annotations

import json
import runpy
import shlex
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hook_client import EVENTS
from jsonschema import validate

from fourfold import __version__
from fourfold.cli.commands import COMMANDS
from fourfold.cli.hooks.events import NAMES
from fourfold.config import SETTINGS
from fourfold.serve.mcp.tools import offers

pytestmark = pytest.mark.spec("C19")

ROOT = Path(__file__).parent.parent.parent
PLUGIN = ROOT / "plugins" / "fourfold"


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8"))


def test_every_hook_file_entry_calls_the_command_for_its_event_and_nothing_else() -> None:
    declared = read(PLUGIN / "hooks" / "hooks.json")["hooks"]
    assert set(declared) == set(NAMES.values()) == {event["hook_event_name"] for event in EVENTS["codex"].values()}
    for own, theirs in NAMES.items():
        (group,) = declared[theirs]
        assert group["hooks"] == [{"type": "command", "command": f"fourfold hook {own}", "timeout": 10}]
        assert group["hooks"][0]["timeout"] > SETTINGS["hook_seconds"].default


@pytest.mark.parametrize("place", ["plugin.json", ".claude-plugin/plugin.json", ".codex-plugin/plugin.json"])
def test_manifests_have_the_version_of_the_package(place: str) -> None:
    manifest = read(PLUGIN / place)
    assert (manifest["name"], manifest["version"]) == ("fourfold", __version__)
    for key in ("skills", "mcpServers", "hooks"):
        assert (PLUGIN / manifest.get(key, ".")).exists()


@pytest.mark.parametrize("place", [".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json"])
def test_marketplaces_lead_to_the_plugin(place: str) -> None:
    (plugin,) = read(ROOT / place)["plugins"]
    source = plugin["source"]
    assert (ROOT / (source if isinstance(source, str) else source["path"])).resolve() == PLUGIN


@pytest.mark.parametrize("place", [".mcp.json", "mcp.json"])
def test_the_plugin_starts_the_server_of_the_command_line(place: str) -> None:
    server = read(PLUGIN / place)["mcpServers"]["fourfold"]
    assert (server["command"], *server["args"]) == ("fourfold", "mcp")


def test_the_skill_names_itself_and_only_tools_that_exist() -> None:
    text = (PLUGIN / "skills" / "memory" / "SKILL.md").read_text("utf-8")
    _, head, body = text.split("---\n", 2)
    front = yaml.safe_load(head)
    assert front["name"] == "memory"
    assert 0 < len(front["description"]) <= 1024
    named = {word.strip("`.,)") for word in body.split() if word.startswith("`") and "_" in word}
    assert named <= {offer.name for offer in offers("core")}
    assert {"hybrid_search", "store_memory"} <= named


def test_the_registry_entry_names_this_package_and_its_server() -> None:
    entry = read(ROOT / "server.json")
    (package,) = entry["packages"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (package["registryType"], package["identifier"]) == ("pypi", project["name"])
    assert entry["version"] == package["version"] == __version__
    assert len(entry["description"]) <= 100
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text("utf-8")
    assert package["packageArguments"][0]["value"] in COMMANDS
    variables = [variable["name"].removeprefix("FOURFOLD_").lower() for variable in package["environmentVariables"]]
    assert set(variables) <= set(SETTINGS)


MANIFEST: dict[str, Any] = {
    "type": "object",
    "required": ["manifest_version", "name", "version", "description", "author", "server"],
    "properties": {
        "manifest_version": {"const": "0.4"},
        "author": {"type": "object", "required": ["name"]},
        "server": {
            "type": "object",
            "required": ["type", "entry_point", "mcp_config"],
            "properties": {"type": {"const": "uv"}, "mcp_config": {"type": "object", "required": ["command", "args"]}},
        },
        "tools": {"type": "array", "items": {"type": "object", "required": ["name"], "additionalProperties": False,
                                             "properties": {"name": {"type": "string"},
                                                            "description": {"type": "string"}}}},
    },
}  # fmt: skip


def test_the_bundle_has_a_valid_manifest_and_everything_that_a_build_needs(tmp_path: Path) -> None:
    build = runpy.run_path(str(ROOT / "scripts" / "mcpb.py"))["build"]
    first, second = (build(tmp_path / name, zipfile.ZIP_STORED) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as bundle:
        names = set(bundle.namelist())
        manifest = json.loads(bundle.read("manifest.json"))
    validate(manifest, MANIFEST)
    assert {tool["name"] for tool in manifest["tools"]} == {offer.name for offer in offers("core")}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "NOTICE"} <= names
    assert manifest["server"]["entry_point"] in names
    assert any(name.endswith(".c") for name in names)
    assert not [name for name in names if name.endswith((".so", ".dll", ".pyc"))]
    assert shlex.join(manifest["server"]["mcp_config"]["args"]).endswith("fourfold mcp")

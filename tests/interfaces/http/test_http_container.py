"""Dockerfile and compose.yaml: what they name exists, and their server runs with their settings on PostgreSQL."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import postgres_servers
import pytest
import yaml
from http_server import serving

from fourfold.config import Settings

pytestmark = pytest.mark.spec("C9")

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
TOKEN = "0123456789abcdef"


def compose() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_the_image_is_made_of_files_and_extras_that_exist() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [name for line in re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]]
    assert {"pyproject.toml", "src"} <= {*copied}
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    extras = re.search(r'/source\[([\w,]+)\]"', DOCKERFILE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extras is not None
    assert {*extras[1].split(",")} <= project["optional-dependencies"].keys()


def test_services_and_settings_of_compose_fit_together() -> None:
    found = compose()
    server, database = found["services"]["server"], found["services"]["database"]
    for name in server["environment"]:
        assert name.removeprefix("FOURFOLD_").lower() in Settings.__dataclass_fields__
    assert "@database:5432/fourfold" in server["environment"]["FOURFOLD_STORE"]
    assert database["environment"]["POSTGRES_DB"] == "fourfold"
    assert server["depends_on"] == {"database": {"condition": "service_healthy"}}
    named = {volume.partition(":")[0] for each in (server, database) for volume in each["volumes"]}
    assert named == found["volumes"].keys()
    assert all(port.startswith("127.0.0.1:") for port in server["ports"])


def test_the_server_of_compose_answers_and_is_healthy(tmp_path: Path) -> None:
    command: list[str] = ast.literal_eval(re.search(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE)[1])  # type: ignore[index]
    assert command[:4] == ["fourfold", "serve", "--host", "0.0.0.0"]
    given = {
        "FOURFOLD_STORE": postgres_servers.fresh(),
        "FOURFOLD_HTTP_TOKENS": f"*:{TOKEN}",
        "FOURFOLD_HTTP_HOSTS": compose()["services"]["server"]["environment"]["FOURFOLD_HTTP_HOSTS"],
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
    }
    with serving(None, host="0.0.0.0", **given) as server:
        check: list[str] = ast.literal_eval(re.search(r"^HEALTHCHECK CMD (.+)$", DOCKERFILE, re.MULTILINE)[1])  # type: ignore[index]
        healthy = [sys.executable, *check[1:-1], check[-1].replace("8765", str(server.port))]
        assert subprocess.run(healthy, timeout=60).returncode == 0
        with server.client(TOKEN) as client:
            for host in ("localhost", "server", "127.0.0.1"):
                told = {"host": f"{host}:{server.port}"}
                assert client.get("/v1/namespaces", headers=told).status_code == 200, host
            assert client.get("/v1/namespaces", headers={"host": "evil.com"}).status_code == 421

"""The OpenAPI document describes the API, and the image and the services of compose fit together."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import postgres_servers
import pytest
import yaml
from http_server import NS, Server, serving

from fourfold.config import Settings

pytestmark = pytest.mark.spec("C9")

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance,unsupported_method"
)


def fill(server: Server) -> None:
    with server.client() as client:
        for text, key in (("The router is in room 4", "router"), ("Ada works on the engine", None)):
            body = {"text": text, "key": key, "title": key or "Ada", "tags": ["office"]}
            assert client.post(f"{NS}/items", json=body).status_code == 201
        edges = [{"from": "Ada", "relation": "works on", "to": "Engine"}]
        assert client.post(f"{NS}/graph/edges", json={"edges": edges}).status_code == 201
        assert client.post(f"{NS}/raw", json={"content": "Ada: hello"}).status_code == 201


def generated(server: Server, folder: Path, cases: int, phases: str) -> None:
    """Runs schemathesis with this many cases per operation."""
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", f"{server.url}/v1/openapi.json",
        "--checks", CHECKS, "--max-examples", str(cases), "--seed", "18", "--no-color", "--request-timeout", "60",
        "--generation-database", "none", "--phases", phases,
    ]  # fmt: skip
    clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    clean |= {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_generated_requests_find_no_error(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server:
        fill(server)
        generated(server, tmp_path, 4, "fuzzing,stateful")


@pytest.mark.soak
def test_two_thousand_generated_requests_find_no_error(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as server:
        fill(server)
        generated(server, tmp_path, 60, "examples,coverage,fuzzing")
        generated(server, tmp_path, 400, "stateful")
        with server.client() as client:
            lines = client.get("/metrics").text.splitlines()
        made = sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith("fourfold_requests_total{"))
        print(f"{made} requests")  # noqa: T201
        assert made >= 2000


def test_links_name_operations_and_parameters_that_exist() -> None:
    from fourfold.config import Settings
    from fourfold.serve.http.app import description, make_app

    document = description(make_app(Settings(store="nowhere")))
    operations = [each for path in document["paths"].values() for each in path.values()]
    known = {
        each["operationId"]: {f"{parameter['in']}.{parameter['name']}" for parameter in each.get("parameters", ())}
        for each in operations
    }
    links = [
        link
        for each in operations
        for answer in each["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    assert len(links) >= 14
    for link in links:
        assert link["parameters"].keys() <= known[link["operationId"]]


def test_the_document_lists_every_route(tmp_path: Path) -> None:
    from fourfold.operations import OPERATIONS
    from fourfold.serve.http.app import ROUTES

    with serving(tmp_path) as server, server.client() as client:
        paths = client.get("/v1/openapi.json").json()["paths"]
    operations = [each["operationId"] for path in paths.values() for each in path.values()]
    assert len(operations) == len(set(operations)) == len(ROUTES)
    assert json.dumps(paths).count('"default"') >= len(ROUTES)
    assert {route.operation.route for route in ROUTES} == {each.route for each in OPERATIONS.values()}


# ---------------------------------------------------------------- dockerfile and compose.yaml


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

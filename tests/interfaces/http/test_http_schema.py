"""Generated requests against the running server: no server error, and every answer as the OpenAPI document says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from http_server import NS, Server, serving

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

"""A real collection: embedded, or on a server from the same wheel."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent.parent / "engine"))
chromadb = pytest.importorskip("chromadb", reason="needs the extra chroma")


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server that runs as long as the tests of this worker do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = shutil.which("chroma", path=str(Path(sys.executable).parent)) or "chroma"
    folder = tmp_path_factory.mktemp("chroma-server")
    command = [program, "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, server)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("no server")


@pytest.fixture
def embedded(tmp_path: Path) -> Any:
    return chromadb.PersistentClient(str(tmp_path / "chroma"), chromadb.Settings(anonymized_telemetry=False))


@pytest.fixture(params=["embedded", "server"])
def client(request: pytest.FixtureRequest) -> Any:
    if request.param == "embedded":
        return request.getfixturevalue("embedded")
    address = request.getfixturevalue("address")
    host, _, port = address.removeprefix("http://").partition(":")
    return chromadb.HttpClient(host, int(port), settings=chromadb.Settings(anonymized_telemetry=False))

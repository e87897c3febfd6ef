"""A real collection: embedded, or on a server from the same wheel."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

chromadb = pytest.importorskip("chromadb", reason="needs the extra chroma")


@contextmanager
def chroma_server(folder: Path) -> Iterator[tuple[str, Callable[[], subprocess.Popen[bytes]]]]:
    """The address of a server on the folder, and a function that starts it; it is killed at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = shutil.which("chroma", path=str(Path(sys.executable).parent)) or "chroma"
    command = [program, "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(server)
        _wait_for(port, server)
        return server

    try:
        yield f"http://127.0.0.1:{port}", start
    finally:
        for server in started:
            server.kill()
            server.wait()


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that all tests of this worker share."""
    with chroma_server(tmp_path_factory.mktemp("chroma-server")) as (address, start):
        start()
        yield address


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[tuple[str, Callable[[], subprocess.Popen[bytes]]]]:
    """The address of a server for one test, and a function that starts it."""
    with chroma_server(tmp_path / "own-chroma") as server:
        yield server


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

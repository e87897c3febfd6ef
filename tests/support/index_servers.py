"""Real index engines for the tests: a Milvus core from its wheel, and a Weaviate cluster where its server is cached.

Each is started by the first test that asks for it, in whatever process, and stopped when the whole run is over.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import weaviate_nodes
from postgres_servers import _FOLDER, _locked

KINDS = ("milvus", "weaviate")
_ROOT = Path(__file__).parents[2]
_START_SECONDS = 60.0
_MILVUS = _ROOT / ".venv-milvus/bin/python"
_SERVE = (
    "import sys, signal\n"
    "from milvus_lite.server_manager import server_manager_instance as servers\n"
    "print(servers.start_and_get_uri(sys.argv[1]), flush=True)\n"
    "signal.pause()\n"
)


def has(kind: str) -> bool:
    if kind == "weaviate":
        return weaviate_nodes.binary().exists()
    found = _MILVUS.exists() and subprocess.run([str(_MILVUS), "-c", "import milvus_lite"], capture_output=True)
    return bool(found) and found.returncode == 0


def address(kind: str) -> str:
    """Of a running engine; the same for every process of this run."""
    folder = Path(os.environ[_FOLDER])
    with _locked(folder / f"{kind}.lock"):
        known = folder / f"{kind}.json"
        if not known.exists():
            if not has(kind):
                pytest.skip("no Milvus here" if kind == "milvus" else "no Weaviate here: `make cluster-test` builds it")
            started: Callable[[Path], tuple[str, list[int]]] = _start_milvus if kind == "milvus" else _start_weaviate
            known.write_text(json.dumps(started(folder / f"{kind}-data")))
        return json.loads(known.read_text())[0]


def _start_milvus(data: Path) -> tuple[str, list[int]]:
    data.mkdir()
    command = [str(_MILVUS), "-c", _SERVE, str(data / "milvus.db")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    process.returncode = 0  # the process that began the run ends it
    assert process.stdout is not None
    with process.stdout as lines:
        path = lines.readline().strip().removeprefix("unix:")
    _wait_for(path)
    return f"milvus://{path}", [process.pid]


def _wait_for(path: str) -> None:
    """Until a server listens on this socket: it may say so too early."""
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(path)
            return
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.1)


def _start_weaviate(data: Path) -> tuple[str, list[int]]:
    cluster = weaviate_nodes.Cluster(data)
    cluster.start()
    return cluster.address, cluster.detach()


def end() -> None:
    """In the process that began the run, before its folder is removed."""
    if os.environ.get(f"{_FOLDER}_OWNER") == str(os.getpid()):
        for known in Path(os.environ[_FOLDER]).glob("*.json"):
            for pid in json.loads(known.read_text())[1]:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

"""`fourfold serve` as a child process, and a client of it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

NS = "/v1/namespaces/default"


@dataclass(frozen=True)
class Server:
    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, **options)


def start(
    store: Path | str | None, port: int = 0, descriptors: int | None = None, host: str = "127.0.0.1", **environment: str
) -> Server:
    """Starts the server; with `store` None, the environment names the store."""
    which = [] if store is None else ["--store", str(store)]
    command = [sys.executable, "-m", "fourfold", *which, "serve", "--host", host, "--port", str(port), "--tools", "all"]
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
    given = {**os.environ, "FOURFOLD_EMBEDDER": "none", "FOURFOLD_RETRIEVER_SECONDS": "60", **environment}
    process = subprocess.Popen(command, env=given, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()
    found = re.search(r"answers at http://\S+:(\d+) ", line)
    assert found, line + process.stderr.read()
    return Server(process, int(found[1]))


@contextmanager
def serving(
    store: Path | str | None, port: int = 0, descriptors: int | None = None, host: str = "127.0.0.1", **environment: str
) -> Iterator[Server]:
    """Serves until the block ends. Nothing but the address may be printed."""
    server = start(store, port, descriptors, host, **environment)
    with server.process as process:
        try:
            yield server
        finally:
            process.terminate()
            assert process.wait(30) in (0, -15)
            printed = process.stderr.read()
            assert not printed, printed

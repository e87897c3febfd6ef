"""The official conformance suite against both servers over HTTP. It is an npm package: needs npx and the network."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BASELINE = Path(__file__).parent / "conformance-baseline.yml"
SUITE = ["npx", "--yes", "--package=node@22", "--package=@modelcontextprotocol/conformance@0.1.16", "--", "conformance"]
SERVERS = {
    "mcp": ["mcp", "--http", "127.0.0.1:0", "--tools", "all"],
    "serve": ["serve", "--port", "0", "--tools", "all"],
}
PASSED = {
    "server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "resources-list",
    "prompts-list", "dns-rebinding-protection",
}  # fmt: skip


@contextmanager
def serving(store: Path, *command: str) -> Iterator[str]:
    """Yields the address of MCP."""
    given = {**os.environ, "FOURFOLD_EMBEDDER": "none"}
    whole = [sys.executable, "-m", "fourfold", "--store", str(store), *command]
    with subprocess.Popen(whole, env=given, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())
            assert found
            yield f"http://127.0.0.1:{found[1]}/mcp"
        finally:
            process.terminate()


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("npx") is None, reason="the suite is an npm package")
@pytest.mark.parametrize("server", SERVERS)
def test_all_scenarios_that_apply_pass(server: str, tmp_path: Path) -> None:
    with serving(tmp_path / "store", *SERVERS[server]) as url:
        command = [*SUITE, "server", "--url", url, "--expected-failures", str(BASELINE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = set(re.findall(r"✓ (\S+): [1-9]", done.stdout))
    assert passed == PASSED

"""A real Weaviate cluster on loopback for tests and benchmarks: three nodes, each in its own process.

Run with --build to build the server where Go is installed; it is cached in the user's cache folder.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from partitions import Network

VERSION = "1.39.2"
NODES = 3
_START_SECONDS = 120.0


def binary() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "fourfold" / f"weaviate-{VERSION}" / "weaviate-server"


def build() -> Path:
    """Builds the server if it is not cached."""
    target = binary()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        package = f"github.com/weaviate/weaviate/cmd/weaviate-server@v{VERSION}"
        environment = {**os.environ, "GOBIN": str(target.parent), "CGO_ENABLED": "0"}
        subprocess.run(["go", "install", package], env=environment, check=True)
    return target


def free_ports(count: int) -> list[int]:
    """Consecutive free ports: a node listens for data on the port after that for gossip."""
    for start in range(20_000 + os.getpid() % 5_000, 32_000, count):
        with suppress(OSError):
            for port in range(start, start + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
            return list(range(start, start + count))
    raise OSError("no free ports")


class Cluster:
    """Ports of node n: REST, gRPC, gossip, data, RAFT, RAFT between nodes, profiling, metrics.

    The nodes are on loopback, or each has its own address in a network that can be cut.
    """

    def __init__(self, folder: Path, *, shards: int = 1, network: Network | None = None) -> None:
        self._folder = folder
        self._shards = shards
        self._network = network
        self._hosts = ["127.0.0.1"] * NODES if network is None else network.hosts
        every = free_ports(8 * NODES)
        self._ports = [every[8 * node : 8 * node + 8] if network is None else every[:8] for node in range(NODES)]
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self.settings: dict[int, dict[str, str]] = {node: {} for node in range(NODES)}
        """Further variables of each node when it is started."""

    def detach(self) -> list[int]:
        """Leaves the nodes running; returns their processes."""
        for process in self._running.values():
            process.returncode = 0
        return [process.pid for process in self._running.values()]

    @property
    def address(self) -> str:
        hosts = ",".join(f"{host}:{ports[0]}" for host, ports in zip(self._hosts, self._ports, strict=True))
        return f"weaviate://{hosts}?grpc={','.join(str(ports[1]) for ports in self._ports)}&shards={self._shards}"

    def start(self) -> None:
        for node in range(NODES):
            self.start_node(node)
        for node in range(NODES):
            self.wait(node)

    def start_node(self, node: int) -> None:
        rest, grpc, gossip, data, raft, rpc, profiling, metrics = self._ports[node]
        host, others = self._hosts[node], [other for other in range(NODES) if other != node]
        home = self._folder / f"node{node}"
        home.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "true",
            "PERSISTENCE_DATA_PATH": str(home / "data"),
            "DEFAULT_VECTORIZER_MODULE": "none",
            "DISABLE_TELEMETRY": "true",
            "LOG_LEVEL": "warning",
            "GRPC_PORT": str(grpc),
            "GO_PROFILING_PORT": str(profiling),
            "PROMETHEUS_MONITORING_PORT": str(metrics),
            "CLUSTER_HOSTNAME": f"node{node}",
            "CLUSTER_GOSSIP_BIND_PORT": str(gossip),
            "CLUSTER_DATA_BIND_PORT": str(data),
            "CLUSTER_JOIN": ",".join(f"{self._hosts[other]}:{self._ports[other][2]}" for other in others),
            "RAFT_PORT": str(raft),
            "RAFT_INTERNAL_RPC_PORT": str(rpc),
            "RAFT_JOIN": ",".join(f"node{number}:{ports[4]}" for number, ports in enumerate(self._ports)),
            "RAFT_BOOTSTRAP_EXPECT": str(NODES),
            "QUERY_MAXIMUM_RESULTS": "10000",
            "DISK_USE_READONLY_PERCENTAGE": "99",
            "DISK_USE_WARNING_PERCENTAGE": "99",
        }
        environment |= self.settings[node]
        command = [str(binary()), "--scheme", "http", "--host", host, "--port", str(rest)]
        if self._network is None:
            environment |= {"CLUSTER_IN_LOCALHOST": "true", "CLUSTER_ADVERTISE_ADDR": host}
        else:
            environment |= {"CLUSTER_BIND_ADDR": host}
            command = [*self._network.command(node), *command]
        with (home / "log").open("ab") as log:
            self._running[node] = subprocess.Popen(
                command, env=environment, cwd=home, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self, node: int) -> None:
        """Waits until the node answers."""
        until = time.monotonic() + _START_SECONDS
        while not self.is_ready(node):
            if self._running[node].poll() is not None or time.monotonic() > until:
                tail = (self._folder / f"node{node}" / "log").read_text()[-2000:]
                raise RuntimeError(f"node {node} did not start: {tail}")
            time.sleep(0.2)

    def is_ready(self, node: int) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://{self._hosts[node]}:{self._ports[node][0]}/v1/.well-known/ready", timeout=2
            ) as it:
                return it.status == 200
        except OSError:
            return False

    def pid(self, node: int) -> int:
        return self._running[node].pid

    def data(self, node: int) -> Path:
        return self._folder / f"node{node}" / "data"

    def kill(self, node: int) -> None:
        """Kills the node with SIGKILL."""
        self._running[node].send_signal(signal.SIGKILL)
        self._running.pop(node).wait()

    def freeze(self, node: int) -> None:
        """Suspends the process: connections stay open or are accepted, but nothing answers."""
        self._running[node].send_signal(signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        self._running[node].send_signal(signal.SIGCONT)

    @property
    def network(self) -> Network:
        assert self._network is not None
        return self._network

    def stop(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--build"]:
        print(build())  # noqa: T201

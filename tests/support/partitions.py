"""A network of kernel namespaces, in which every node of a cluster can be cut off. Needs root."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Self


def is_possible() -> bool:
    """Whether this process may create network namespaces."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return False
    name = f"ffprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        _ip("netns", "del", name)
    return made


class Network:
    """One namespace per node, joined by a bridge, which is also how clients on this machine reach them."""

    def __init__(self, nodes: int) -> None:
        number = os.getpid() % 60_000
        self._bridge = f"ffb{number}"
        self._names = [f"ffn{number}x{node}" for node in range(nodes)]
        self._subnet = f"10.213.{number % 250}"
        self.hosts = [f"{self._subnet}.{node + 2}" for node in range(nodes)]

    def __enter__(self) -> Self:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("addr", "add", f"{self._subnet}.1/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for name, host in zip(self._names, self.hosts, strict=True):
                _ip("netns", "add", name)
                _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
                _ip("link", "set", name, "master", self._bridge, "up")
                _ip("-n", name, "addr", "add", f"{host}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    _ip("-n", name, "link", "set", device, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", name)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)

    def command(self, node: int) -> Sequence[str]:
        """The command prefix that runs a program at the address of a node."""
        return ("ip", "netns", "exec", self._names[node])

    def cut(self, node: int) -> None:
        """Drops every packet to and from a node, so that connections neither fail nor answer."""
        _ip("link", "set", self._names[node], "nomaster")

    def join(self, node: int) -> None:
        _ip("link", "set", self._names[node], "master", self._bridge)

    def isolate(self, node: int) -> None:
        """Drops packets from a node to the other nodes; clients still reach it."""
        for host in self._others(node):
            _ip("-n", self._names[node], "route", "add", "blackhole", host)

    def reunite(self, node: int) -> None:
        for host in self._others(node):
            _ip("-n", self._names[node], "route", "del", "blackhole", host)

    def _others(self, node: int) -> list[str]:
        return [host for host in self.hosts if host != self.hosts[node]]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)

"""A connection to one node of Weaviate, with deadlines of our own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
import httpx
from weaviate.classes.init import AdditionalConfig, Auth, Timeout
from weaviate.client import WeaviateClient
from weaviate.connect import ConnectionParams
from weaviate.exceptions import WeaviateBaseError

from fourfold.addresses import Url
from fourfold.storage.engines.adapters import unavailable
from fourfold.storage.engines.nodes import within

T = TypeVar("T")

_CONNECT_SECONDS = 2.0


class Connection:
    """A client of one node. It sleeps up to a minute between attempts to reach the node, so every call has a thread and
    a deadline, and after a failure the next call gets a new client."""

    def __init__(self, http: tuple[str, int], grpc_port: int, url: Url, seconds: float) -> None:
        self._http, self._grpc_port, self._seconds = http, grpc_port, seconds
        self._secret = url.password
        self._secure = url.parameters.get("tls") == "true"
        self._opening = threading.Lock()
        self._client: WeaviateClient | None = None
        self.name = f"weaviate node {http[0]}:{http[1]}"

    def call(self, call: Callable[[Any], T], seconds: float | None = None) -> T:
        """Calls with the client; its types are only partly known, hence Any."""
        try:
            for port in (self._http[1], self._grpc_port):
                socket.create_connection((self._http[0], port), min(self._seconds, _CONNECT_SECONDS)).close()
            return within(seconds or self._seconds, lambda: call(self._opened()))
        except (WeaviateBaseError, grpc.RpcError, httpx.HTTPError, OSError) as error:
            self.close()
            raise unavailable(self.name, error, "Check that Weaviate runs") from error

    def _opened(self) -> WeaviateClient:
        with self._opening:
            if self._client is None:
                host, port = self._http
                client = WeaviateClient(
                    ConnectionParams.from_params(host, port, self._secure, host, self._grpc_port, self._secure),
                    auth_client_secret=Auth.api_key(self._secret) if self._secret else None,
                    additional_config=AdditionalConfig(
                        timeout=Timeout(init=self._seconds, query=self._seconds, insert=self._seconds)
                    ),
                    skip_init_checks=True,
                )
                try:
                    client.connect()
                except BaseException:
                    client.close()
                    raise
                self._client = client
            return self._client

    def close(self) -> None:
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()

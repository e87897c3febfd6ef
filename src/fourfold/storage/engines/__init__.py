"""Distributed indexes of words and vectors, for a store that holds the truth."""

from __future__ import annotations

from fourfold import addresses
from fourfold.errors import InvalidSetting, MissingExtra
from fourfold.storage.engines.protocol import Engine

SCHEMES = ("weaviate", "milvus")


def open_engine(address: str) -> Engine:
    """`weaviate://HOST:PORT,HOST:PORT?grpc=PORT,PORT` or `milvus://HOST:PORT`. Connects when it is first used."""
    url = addresses.parse(address)
    if url.scheme not in SCHEMES:
        remedy = "Write weaviate://HOST:PORT or milvus://HOST:PORT"
        raise InvalidSetting(f"{url.scheme}:// is not an index engine", remedy)
    try:
        if url.scheme == "weaviate":
            from fourfold.storage.engines.weaviate import WeaviateEngine

            return WeaviateEngine(url)
        from fourfold.storage.engines.milvus import MilvusEngine

        return MilvusEngine(url)
    except ModuleNotFoundError as error:
        remedy = f"Install it: pip install 'fourfold[{url.scheme}]'"
        raise MissingExtra(f"an index on {url.scheme} needs its client ({error})", remedy) from error

"""Chroma: all collections of a folder, with the documents' metadata (extra `chroma`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from fourfold.errors import DamagedStore, FourfoldError, InvalidItem, MissingExtra, NotFound
from fourfold.integrations.importers.reading import Found, few_tags
from fourfold.model import NewItem

_PAGE_CHUNKS = 1000


def read(folder: Path) -> Found:
    """`folder`: the one with chroma.sqlite3, or this file."""
    place = folder.parent if folder.name == "chroma.sqlite3" else folder
    if not (place / "chroma.sqlite3").is_file():
        raise NotFound(f"{folder} is not a Chroma folder", "Give the folder with chroma.sqlite3")
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError as error:
        raise MissingExtra(f"chromadb is missing ({error})", "pip install 'fourfold[chroma]'") from error
    content = Found()
    try:
        client: Any = chromadb.PersistentClient(str(place), Settings(anonymized_telemetry=False))
        for collection in client.list_collections():
            _read_collection(client.get_collection(collection.name, embedding_function=None), content)
    except FourfoldError:
        raise
    except Exception as error:  # chromadb and its native part raise errors of many kinds for a damaged file
        raise DamagedStore(
            f"{place / 'chroma.sqlite3'} cannot be read ({type(error).__name__}: {error})",
            "Restore it from a backup; nothing was imported",
        ) from error
    return content


def _read_collection(collection: Any, found: Found) -> None:
    offset = 0
    while ids := (page := collection.get(limit=_PAGE_CHUNKS, offset=offset, include=["documents", "metadatas"]))["ids"]:
        for id, text, metadata in zip(ids, page["documents"], page["metadatas"], strict=True):
            _read_chunk(collection.name, id, text, metadata or {}, found)
        offset += len(ids)
    found.left_out["vectors, which are computed again"] += offset


def _read_chunk(name: str, id: str, text: str | None, metadata: Mapping[str, Any], found: Found) -> None:
    if not text or not text.strip():
        found.left_out["chunks without a text"] += 1
        return
    title, tags = metadata.get("title"), metadata.get("tags")
    listed = cast("list[Any]", tags) if isinstance(tags, list) else tags.split(",") if isinstance(tags, str) else []
    try:
        found.add(
            NewItem(
                text,
                title=title if isinstance(title, str) else "",
                key=f"chroma:{name}:{id}",
                tags=few_tags([tag for tag in listed if isinstance(tag, str)], found.left_out),
                kind="chunk",
                metadata={**metadata, "collection": name},
            )
        )
    except InvalidItem as error:
        raise InvalidItem(f"{name}, id {id!r}: {error.message}", error.remedy) from error

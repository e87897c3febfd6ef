"""Where a server keeps its own files: answers to keyed requests, and judgements of results."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from fourfold import addresses, owner_only
from fourfold.config import Settings, default_store


def own_path(settings: Settings) -> Path:
    """A folder in that of the store, or in the user's data folder for a remote store."""
    store = settings.store
    if store is not None and addresses.is_address(store):
        return default_store() / f"http-{sha256(addresses.shown(store).encode()).hexdigest()[:16]}"
    return (default_store() if store is None else Path(store).expanduser()) / "http"


def own_folder(settings: Settings) -> Path:
    """The same folder, made if it is missing. Only its owner can read it."""
    folder = own_path(settings)
    owner_only.make_folder(folder)
    return folder

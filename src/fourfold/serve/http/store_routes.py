"""The store as a whole: namespaces, status, metrics, signs of life, and JSON Lines of a namespace."""

# No `from __future__ import annotations`: FastAPI reads these annotations when the module is loaded.

import tempfile
from pathlib import Path
from typing import Final

from fastapi import Request
from starlette.responses import Response

from fourfold import __version__
from fourfold.engine import keyed
from fourfold.errors import NoAccess
from fourfold.serve.auth import grant
from fourfold.serve.http import answers, metrics
from fourfold.serve.http.operation import File, InNamespace, OnlyOnce, Routes, Store, download, reply, shared
from fourfold.serve.sessions import visible_status

JSONL: Final = "application/jsonl"
_IMPORTED: Final = {"items": "item", "raw": "raw", "nodes": "node", "edges": "edge"}
"""Counts of an import, by kind of record."""


routes: Final = Routes()


@routes.add("namespaces", answers.NamespacesAnswer)
def namespaces(memory: Store) -> Response:
    permitted = grant().namespaces
    known = memory.namespaces()
    mine = [{"name": name, "items": count} for name, count in known if permitted is None or name in permitted]
    return reply({"namespaces": mine})


@routes.add("status", answers.StatusAnswer)
def status(memory: Store) -> Response:
    return reply({"version": __version__, **visible_status(memory)})


@routes.add("live", answers.LiveAnswer, is_open=True)
async def live() -> Response:
    return reply({"status": "ok", "version": __version__})


@routes.add("ready", answers.LiveAnswer, is_open=True)
def ready(memory: Store) -> Response:
    memory.namespaces()
    return reply({"status": "ok", "version": __version__})


@routes.add("metrics", media="text/plain")
def prometheus(request: Request, memory: Store) -> Response:
    """Metrics of the whole store."""
    if grant().namespaces is not None:
        raise NoAccess("metrics are for tokens of all namespaces", "Use a token *:admin:SECRET")
    text = shared(request).metrics.text(memory.status())
    return Response(text, media_type=metrics.MEDIA)


# ---------------------------------------------------------------- JSON Lines


@routes.add("export", media=JSONL)
def export(memory: InNamespace) -> Response:
    """An export of one namespace, as `fourfold import` and `import` take it; it is sent when it is complete."""
    with tempfile.TemporaryDirectory(prefix="fourfold-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "export.jsonl"
        memory.export(file, namespace=memory.namespace)
        opened = file.open("rb")  # stays readable after its name is removed
    return download(opened, "export.jsonl", JSONL)


@routes.add("import_file", answers.ImportedAnswer, takes=JSONL)
def import_file(memory: InNamespace, file: File, once: OnlyOnce) -> Response:
    """Rows are stored as by `add`, so repeating them changes nothing; an export fills an empty namespace."""
    counts = once(
        memory,
        lambda: memory.import_file(file, namespace=memory.namespace),
        lambda outcome: dict(zip(keyed.IMPORTED, outcome, strict=True)),
    )
    return reply({name: counts.get(kind, 0) for name, kind in _IMPORTED.items()})

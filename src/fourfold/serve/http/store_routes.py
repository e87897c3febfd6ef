"""The store as a whole: namespaces, status, metrics, signs of life, and JSON Lines of a namespace."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from starlette.responses import Response

from fourfold import __version__
from fourfold.errors import NoAccess
from fourfold.serve.auth import grant
from fourfold.serve.http import answers, metrics
from fourfold.serve.http.endpoint import Call, Endpoint, download, reply
from fourfold.serve.http.search_routes import NS
from fourfold.serve.sessions import visible_status

JSONL: Final = "application/jsonl"
_IMPORTED: Final = {"items": "item", "raw": "raw", "nodes": "node", "edges": "edge"}
"""Counts of an import, by kind of record."""


def namespaces(call: Call) -> Response:
    permitted = grant().namespaces
    known = call.memory.namespaces()
    mine = [{"name": name, "items": count} for name, count in known if permitted is None or name in permitted]
    return reply({"namespaces": mine})


def status(call: Call) -> Response:
    return reply({"version": __version__, **visible_status(call.memory)})


def live(_: Call) -> Response:
    return reply({"status": "ok", "version": __version__})


def ready(call: Call) -> Response:
    call.memory.namespaces()
    return live(call)


def prometheus(call: Call) -> Response:
    """Metrics of the whole store."""
    if grant().namespaces is not None:
        raise NoAccess("metrics are for tokens of all namespaces", "Use a token *:admin:SECRET")
    text = call.shared.metrics.text(call.memory.status())
    return Response(text, media_type=metrics.MEDIA)


# ---------------------------------------------------------------- JSON Lines


def export(call: Call) -> Response:
    """An export of one namespace, as `fourfold import` and `import` take it; it is sent when it is complete."""
    with tempfile.TemporaryDirectory(prefix="fourfold-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "export.jsonl"
        call.memory.export(file, namespace=call.memory.namespace)
        opened = file.open("rb")  # stays readable after its name is removed
    return download(opened, "export.jsonl", JSONL)


def import_file(call: Call) -> Response:
    """Rows are stored as by `add`, so repeating them changes nothing; an export fills an empty namespace."""
    counts = call.memory.import_file(call.body, namespace=call.memory.namespace)
    return reply({name: counts.get(kind, 0) for name, kind in _IMPORTED.items()})


ENDPOINTS: Final = (
    Endpoint("GET", "/v1/namespaces", namespaces, "List namespaces", answers.NamespacesAnswer),
    Endpoint("GET", "/v1/status", status, "What the store holds", answers.StatusAnswer),
    Endpoint("GET", f"{NS}/export", export, "The namespace as JSON Lines", scope="admin", media=JSONL),
    Endpoint(
        "POST",
        f"{NS}/import",
        import_file,
        "Fill an empty namespace with an export, or store rows of items",
        answers.ImportedAnswer,
        "admin",
        takes=JSONL,
    ),
    Endpoint("GET", "/livez", live, "The server runs", answers.LiveAnswer, needs_store=False, is_open=True),
    Endpoint("GET", "/readyz", ready, "The store answers", answers.LiveAnswer, is_open=True),
    Endpoint("GET", "/metrics", prometheus, "Counters for Prometheus", scope="admin", media="text/plain"),
)

"""Fuzz targets: functions of bytes that must succeed or raise an error of Fourfold.

They cover all code that reads untrusted bytes: file formats, ignore rules, queries, filters, settings, imports and the
bodies of HTTP requests.
"""

import asyncio
import atexit
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from fourfold import FourfoldError, Memory, NewItem, Settings
from fourfold.config import load
from fourfold.filters import read_where, where_json
from fourfold.ingest import formats
from fourfold.ingest.document import Unreadable, chunks
from fourfold.ingest.formats import format_of
from fourfold.ingest.ignore import TooManyRules, rules_of
from fourfold.integrations.importers import read_foreign
from fourfold.serve.mcp.server import PATH, make_app
from fourfold.storage.sqlite.store import SqliteStore

sys.path.append(str(Path(__file__).parents[2] / "support"))
from oracle import Oracle

Target = Callable[[bytes], None]

SUFFIXES = {
    "markdown": ("md",), "html": ("html",), "python": ("py",),
    "code": ("c", "cpp", "go", "java", "js", "rs", "ts", "tsx"), "text": ("txt",), "rst": ("rst",),
    "notebook": ("ipynb",), "table": ("csv", "tsv"), "chat": ("jsonl",), "pdf": ("pdf",), "docx": ("docx",),
    "epub": ("epub",),
}  # fmt: skip
"""Formats of files; where there are several suffixes, the first byte chooses one."""


def text_of(data: bytes) -> str:
    """Any text that Python can represent, including lone surrogates."""
    return data.decode("utf-8", "surrogatepass" if b"\xed" in data else "replace") if _decodes(data) else str(data)


def _decodes(data: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        data.decode("utf-8", "surrogatepass")
        return True
    return False


# ---------------------------------------------------------------- files


def read_file(suffixes: tuple[str, ...], data: bytes) -> None:
    if len(suffixes) > 1 and data:
        suffixes, data = (suffixes[data[0] % len(suffixes)],), data[1:]
    name = f"fuzzed.{suffixes[0]}"
    refusals = (Exception,) if format_of(name).packed else (Unreadable, json.JSONDecodeError)
    try:  # libraries for packed formats raise anything: in the reader's process, each means "skipped"
        document = formats.read(name, data)
    except refusals:
        return
    for chunk in chunks(document.sections):
        assert chunk.text.strip()


def read_ignore_rules(data: bytes) -> None:
    try:
        rules = rules_of(text_of(data))
    except TooManyRules:
        return
    for path in ("a", "a/", "a/b.txt", "node_modules/", "deep/er/and/deeper/still.md"):
        assert rules.ignores(path) in (None, True, False)


# ---------------------------------------------------------------- queries, filters, settings


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _folder() -> Path:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fourfold-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _filled(kind: str) -> Memory:
    """A store with a few items in two languages."""
    store = SqliteStore(_folder() / kind)
    memory = Memory.open(Oracle(store) if kind == "oracle" else store, embedder="none", background=False)
    texts = (
        NewItem("The router in the cellar has the address 192.168.1.1", title="Router", tags=("office",)),
        NewItem("Die Donaudampfschifffahrt am Wassertor", tags=("fluss",), language="de"),
        NewItem("getUserById(user_id) raises KeyError", kind="code", metadata={"line": 3}),
    )
    memory.add_many(list(texts))
    return memory


def search(data: bytes) -> None:
    """The store gives the results of the oracle for any query."""
    query, found = text_of(data), list[Any]()
    for kind in ("oracle", "sqlite"):
        try:
            response = _filled(kind).search(query)
        except FourfoldError as error:
            found.append(type(error))
        else:
            assert {lost.retriever for lost in response.degraded} <= {"semantic"}  # there is no embedder
            found.append([(result.id, round(result.score, 6)) for result in response.results])
    assert found[0] == found[1], found


def read_filter(data: bytes) -> None:
    with suppress(FourfoldError):
        condition = read_where(text_of(data))
        assert condition is None or read_where(where_json(condition)) == condition


def read_settings(data: bytes) -> None:
    file = _folder() / "config.yaml"
    file.write_bytes(data)
    with suppress(FourfoldError):
        load({}, {}, file)


# ---------------------------------------------------------------- imports


def import_lines(data: bytes) -> None:
    """What a store accepts it can export, and another store loads that and exports the same bytes."""
    file, again = _folder() / "import.jsonl", _folder() / "export.jsonl"
    file.write_bytes(data)
    with Memory.open(":memory:", embedder="none", background=False) as memory:
        try:
            memory.import_file(file)
        except FourfoldError:
            return
        memory.export(again)
    exported = again.read_bytes()
    shutil.rmtree(_folder() / "imported", ignore_errors=True)
    with Memory.open(_folder() / "imported", embedder="none", background=False) as memory:
        memory.import_file(again)
        assert memory.check() == []
        memory.export(file)
    assert file.read_bytes() == exported


# ---------------------------------------------------------------- HTTP


FOREIGN = {
    "mem0": "json", "basic-memory": "md", "mcp-memory-service": "json", "langchain-jsonl": "jsonl",
    "claude-export": "json",
}  # fmt: skip


def import_foreign(data: bytes) -> None:
    """The first byte selects a tool; what its importer accepts can be stored."""
    name, suffix = list(FOREIGN.items())[data[0] % len(FOREIGN)] if data else ("mem0", "json")
    file = _folder() / f"foreign.{suffix}"
    file.write_bytes(data[1:])
    with suppress(FourfoldError):
        found = read_foreign(name, file)
        with Memory.open(":memory:", embedder="none", background=False) as memory:
            memory.add_many(found.items)


SESSIONS = {"claude-code": "jsonl", "codex": "jsonl", "copilot": "json", "chatgpt": "json"}


def import_sessions(data: bytes) -> None:
    """The first byte selects a tool, and where the file ended at the first import."""
    name, suffix = list(SESSIONS.items())[data[0] % len(SESSIONS)] if data else ("codex", "jsonl")
    file = _folder() / f"session.{suffix}"
    with Memory.open(":memory:", embedder="none", background=False) as memory:
        for end in (len(data) - len(data) * (data[:1] or b"\0")[0] // 256, len(data)):
            file.write_bytes(data[1:end])
            with suppress(FourfoldError):
                memory.import_sessions(name, file)
        assert memory.check() == []


@cache
def _served() -> Any:
    """The app of the MCP server, started as a server would."""
    app = make_app(Settings(store=str(_folder() / "served"), embedder="none"), "all")
    started = asyncio.Event()
    messages = iter([{"type": "lifespan.startup"}])

    async def receive() -> Any:
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        assert message["type"] == "lifespan.startup.complete", message
        started.set()

    async def starting() -> asyncio.Task[None]:
        running = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send))
        await started.wait()
        return running

    return app, _loop().run_until_complete(starting())


def post(data: bytes) -> None:
    """A request is answered or refused with a typed error, never with a server error."""
    app, _ = _served()
    status, body = _loop().run_until_complete(_post(app, data))
    assert status < 500
    answer = json.loads(body) if body and status == 200 else {}
    if answer.get("result", {}).get("isError"):
        assert json.loads(answer["result"]["content"][0]["text"])["status"] == "error", body


async def _post(app: Any, data: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to a request with this body."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", "host": "localhost"}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": PATH, "raw_path": PATH.encode(), "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()], "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }  # fmt: skip
    answered, statuses, parts = asyncio.Event(), list[int](), list[bytes]()
    bodies = iter([{"type": "http.request", "body": data, "more_body": False}])

    async def receive() -> Any:
        message = next(bodies, None)
        if message is None:
            await answered.wait()
        return message or {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])
            return
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            answered.set()

    await app(scope, receive, send)
    return statuses[0], b"".join(parts)


TARGETS: dict[str, Target] = {
    **{name: partial(read_file, suffixes) for name, suffixes in SUFFIXES.items()}, "ignore": read_ignore_rules,
    "query": search, "filter": read_filter, "config": read_settings, "import": import_lines, "foreign": import_foreign,
    "sessions": import_sessions, "http": post,
}  # fmt: skip

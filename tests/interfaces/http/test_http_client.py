"""RemoteMemory: the signatures of Memory, the same values and errors over HTTP; the command line on a server."""

import inspect
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_server import Server, serving

import fourfold
from fourfold import AsyncMemory, FourfoldError, ItemPatch, Memory, NewItem, RemoteMemory, client
from fourfold.cli.main import main
from fourfold.errors import Conflict, InvalidQuery, InvalidSetting, NoAccess, NotFound, NotOffered, StoreUnavailable

pytestmark = pytest.mark.spec("C9")

PROMISED = {
    "search", "why", "add", "add_many", "get", "update", "forget", "forget_matching", "list", "count", "tags",
    "add_raw", "get_raw", "list_raw", "forget_raw", "sources", "add_node", "add_edge", "add_edges", "nodes", "node",
    "neighbors", "path", "remove_node", "remove_edge", "namespaces", "status", "within", "close", "similar",
    "duplicates", "merge",
}  # fmt: skip
READ = "read-0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("client")) as running:
        yield running


def test_the_methods_have_the_signatures_of_memory() -> None:
    own = {name for name in dir(RemoteMemory) if not name.startswith("_") and hasattr(Memory, name)}
    assert own >= PROMISED
    for name in sorted(own - {"owner", "troubles"}):
        mine, theirs = (inspect.signature(getattr(kind, name)).parameters for kind in (RemoteMemory, Memory))
        assert [*mine.values()] == [*theirs.values()], name
        if name not in ("close", "within"):
            wrapped = inspect.signature(getattr(AsyncMemory, name), follow_wrapped=True).parameters
            assert [*wrapped] == [*mine], name


def test_the_client_gives_the_values_of_the_library(tmp_path: Path) -> None:
    with serving(tmp_path) as server, fourfold.connect(server.url) as remote:
        stored = remote.add(NewItem("The router is in room 4", title="Router", key="r/1", tags=("office",)))
        remote.add_many([NewItem("lunch is at noon"), NewItem("Ada has the spare key", metadata={"floor": 4})])
        remote.add_edge("Ada", "has", "Router")
        said = remote.add_raw("Ada: hello", "Ada", "s1", {"turn": 1})
        updated = remote.update("key:r/1", ItemPatch(add_tags=("network",)))
        assert updated.tags == ("network", "office")
        response = remote.search("router", explain=True, filters={"tag": "office"})
        why = remote.why(stored.id, "router")
        analysis = remote.analyze("where is the router of the office?")
        listed, tags, neighbors = remote.list(limit=2, offset=1), remote.tags(), remote.neighbors("Ada")
        nodes, shown, raw = remote.nodes(limit=2, offset=1), remote.node("Ada"), remote.list_raw(speaker="Ada")
        linked = remote.nodes(item="key:r/1")
        assert remote.count({"floor": 4}) == 1
        copy = remote.add(NewItem("Lunch is at noon!", key="copy"))
        assert [similar.id for similar in remote.similar(copy.id)] == [copy.id - 3]  # after Ada and a version
        ((group,), before) = remote.duplicates(), remote.get([copy.id - 3])
        assert (group.oldest, [item for item, _ in group.others]) == (before[0], [copy])
        assert remote.merge(copy.id - 3, [copy.id]).id == copy.id - 3
        remote.undo(copy.id - 3)
        assert remote.get([copy.id]) == [copy]
        remote.forget([copy.id])
        with pytest.raises(NotFound, match="no item 99"):
            remote.get([99])
        with pytest.raises(InvalidQuery):
            remote.search("")
        assert remote.remove_edge("Ada", "has", "nobody") is False
        remote_path, remote_namespaces = remote.path("Ada", "Router"), remote.namespaces()
        assert remote.status()["namespaces"]["default"]["items"] == 3
    with Memory.open(tmp_path, embedder="none") as memory:
        assert memory.get(["key:r/1"]) == [updated]
        same = memory.search("router", explain=True, filters={"tag": "office"})
        assert response.results == same.results
        assert (response.plan, response.confidence) == (same.plan, same.confidence)
        assert response.counts == {name: same.counts.get(name, 0) for name in same.plan.retrievers}
        assert why.reasons == memory.why(stored.id, "router").reasons
        assert analysis == memory.analyze("where is the router of the office?")
        assert listed == memory.list(limit=2, offset=1)
        assert (tags, neighbors) == (memory.tags(), memory.neighbors("Ada"))
        assert (nodes, shown) == (memory.nodes(limit=2, offset=1), memory.node("Ada"))
        assert [node.name for node in linked] == ["Router"]
        assert linked == memory.nodes(item="key:r/1")
        assert (raw, raw.total, memory.get_raw([said.id])) == ([said], 1, [said])
        assert remote_path == memory.path("Ada", "Router")
        assert remote_namespaces == memory.namespaces()


def test_vectors_pages_and_empty_changes_are_those_of_the_library(server: Server) -> None:
    with fourfold.connect(server.url, namespace="as-in-memory") as remote:
        item = remote.add(NewItem("heron", vector=np.array([1.0, 0.0, 0.0])))
        assert remote.update(item.id, ItemPatch()) == item
        for limit, offset in ((0, 0), (-1, 0), (2, -1), (100_000, 0)):
            for listing in (remote.list, remote.list_raw, remote.nodes):
                with pytest.raises(InvalidQuery, match="Give a limit of 1 to 1000"):
                    listing(limit=limit, offset=offset)


@pytest.mark.parametrize("namespace", ["team/project", ".."])
def test_a_namespace_that_cannot_be_part_of_a_url_is_refused(server: Server, namespace: str) -> None:
    with fourfold.connect(server.url, namespace=namespace) as remote, pytest.raises(NotOffered, match="slash"):
        remote.add("heron")


def test_a_change_of_an_expected_item_is_a_conflict(server: Server) -> None:
    with fourfold.connect(server.url, namespace="expected") as remote:
        item = remote.add("heron")
        newer = remote.update(item.id, ItemPatch(title="Heron"), expected=item)
        for call in (lambda: remote.update(item.id, ItemPatch(title="x"), expected=item),
                     lambda: remote.forget([item.id], expected=item)):  # fmt: skip
            with pytest.raises(Conflict):
                call()
        assert remote.forget([item.id], expected=newer) == 1


WRONG: tuple[Any, ...] = (
    object(), 5, -1, float("nan"), True, None, "", "text", b"bytes", [], {}, [5], [[]], {"a": object()}, {5: 5},
    datetime(2026, 1, 1, tzinfo=UTC), Path("nowhere"), "a\0b", "\ud800", "../..", "?x#y",
)  # fmt: skip
VALID: dict[str, Any] = {
    "item": 1, "ids": [1], "items": [NewItem("one more")], "patch": ItemPatch(title="changed"),
    "filters": "kind = note", "text": "good", "name": "Known", "source": "Known", "relation": "knows",
    "target": "Other", "start": "Known", "goal": "Other", "content": "said", "namespace": "default",
    "edges": [("Known", "knows", "Other", 0.5)], "kept": 1, "others": [2],
}  # fmt: skip


@pytest.mark.parametrize("method", sorted(PROMISED - {"within", "close", "status", "namespaces", "tags"}))
def test_no_argument_of_the_client_raises_a_bare_error(server: Server, method: str) -> None:
    parameters = dict(inspect.signature(getattr(Memory, method)).parameters)
    del parameters["self"]
    if parameters.pop("fields", None):
        parameters |= dict(inspect.signature(NewItem).parameters)
        del parameters["text"]
    needed = {name: VALID[name] for name, given in parameters.items() if given.default is given.empty}
    with fourfold.connect(server.url, namespace="wrong") as remote:
        for name in parameters:
            for wrong in WRONG:
                with suppress(FourfoldError):
                    getattr(remote, method)(**{**needed, name: wrong})


def test_what_a_server_does_not_offer_is_a_typed_error(server: Server) -> None:
    remote = fourfold.connect(server.url)
    for call in (lambda: remote.repair(), lambda: remote.search("x", candidates=True)):  # type: ignore[attr-defined]
        with pytest.raises(NotOffered, match="server") as refused:
            call()
        assert refused.value.remedy
    assert not hasattr(remote, "anything")
    remote.close()


async def test_the_async_memory_works_over_http(server: Server) -> None:
    async with AsyncMemory(fourfold.connect(server.url, namespace="aio")) as memory:
        stored = await memory.add("a heron")
        assert [result.id for result in (await memory.search("heron")).results] == [stored.id]
        assert (await memory.why(stored.id, "heron")).rank == 1
        with pytest.raises(NotOffered):
            await memory.check()


def test_wrong_addresses_and_tokens_are_errors_of_the_library(tmp_path, server, monkeypatch):
    for url in ("ftp://x", "localhost:8765", "http://[", "http://x:99999999"):
        with pytest.raises(InvalidSetting):
            fourfold.connect(url)
    with pytest.raises(InvalidSetting):
        fourfold.connect(server.url, token="ü\ud800")
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.2)
    with pytest.raises(StoreUnavailable, match="does not answer"):
        fourfold.connect("http://127.0.0.1:9").tags()
    with (
        serving(tmp_path, FOURFOLD_HTTP_TOKENS=f"alpha:read:{READ}") as guarded,
        fourfold.connect(guarded.url, token=READ, namespace="alpha") as remote,
    ):
        with pytest.raises(NoAccess, match="scope write"):
            remote.add("x")
        with pytest.raises(NoAccess):
            fourfold.connect(guarded.url, namespace="alpha").tags()
        with pytest.raises(NoAccess, match="beta"):
            remote.within("beta").tags()


# ---------------------------------------------------------------- the command line


def test_commands_work_on_a_server(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["--store", server.url, "--namespace", "cli", *arguments])
        shown = capsys.readouterr()
        assert ended.value.code == 0, shown.err
        return shown.out

    number = printed("add", "The heron nests at gate 7", "--tag", "birds").strip()
    assert "heron" in printed("get", number)
    assert "heron" in printed("search", "heron", "--explain")
    assert "rank 1" in printed("why", number, "heron")
    printed("update", number, "--title", "Heron")
    printed("graph", "edge", "Heron", "nests at", "Gate")
    assert "Gate" in printed("graph", "neighbors", "Heron")
    assert "Heron" in printed("list")
    assert "forgot 1 item" in printed("forget", number)


def test_other_commands_say_that_they_need_the_store(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"text": "x"}\n')
    others = (
        ("check",), ("repair",), ("backup", "b.db"), ("export", "e.jsonl"), ("import", "rows.jsonl"), ("index", "."),
        ("embed",), ("reembed",), ("copy", "other"), ("move", "other"), ("sync", "other"),
    )  # fmt: skip
    for arguments in others:
        with pytest.raises(SystemExit) as ended:
            main(["--store", server.url, *arguments])
        told = capsys.readouterr().err
        assert ended.value.code == 1, (arguments, told)
        assert "server" in told, (arguments, told)
        assert "--store" in told or "folder" in told, (arguments, told)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.jsonl"}

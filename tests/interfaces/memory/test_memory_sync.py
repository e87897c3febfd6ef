"""Two stores that are synchronised: as folders, over HTTP, and with a server of PostgreSQL."""

import json
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, repeat
from pathlib import Path
from typing import Any

import postgres_servers
import pytest
from http_server import serving

from fourfold import FourfoldError, ItemPatch, Memory, NewItem, RemoteMemory, Settings, client, connect
from fourfold.cli.main import main
from fourfold.engine import replication
from fourfold.engine.replication import Side, SyncReport
from fourfold.errors import InvalidItem, InvalidSetting, RequestError, StoreUnavailable, TimedOut
from fourfold.limits import LARGEST_ID
from fourfold.storage.sql.dialect import micros
from fourfold.storage.values import Head

sys.path.append(str(Path(__file__).parents[2] / "trust"))

from test_trust_sync import contents

Pair = tuple[Memory, Any, Memory]
"""One side, the other one as its peer, and the store of the peer."""


def opened(store: Path | str, **settings: Any) -> Memory:
    return Memory.open(store, embedder="none", background=False, settings=Settings(embedder="none", **settings))


@pytest.fixture(params=["folder", "server", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    with opened(tmp_path / "one") as one:
        if request.param == "server":
            with serving(tmp_path / "two") as server, connect(server.url) as remote, opened(tmp_path / "two") as two:
                yield one, remote, two
        else:
            with opened(tmp_path / "two" if request.param == "folder" else postgres_servers.fresh()) as two:
                yield one, two, two


def texts(memory: Memory, item: int | str) -> list[str]:
    return [each.text for each in memory.history(item)]


def test_both_sides_get_everything_and_a_second_sync_writes_nothing(pair, tmp_path, monkeypatch):
    one, peer, two = pair
    raw = one.add_raw("Ada: the key is with me", "Ada", "kitchen", {"page": 3})
    one.add(NewItem("Ada has the key", source_ids=(raw.id,), tags=("key",), metadata={"n": [1, None]}))
    one.add_node("Ada", "person", ["A. L."], {"age": 36}, one.list()[0].id)
    two.add_edge("Ada#person", "lives in", "London", 0.5)
    for provider in ("Stripe", "Adyen"):
        two.add(NewItem(provider, subject="Checkout", attribute="provider"))
    note = tmp_path / "notes" / "a.md"
    note.parent.mkdir()
    note.write_text("# Router\n\nIt is in room 4\n\n# Printer\n\nIt is in room 5")
    two.index_folders([note.parent])
    report = one.sync(peer)
    assert (report.sent, report.received) == (
        {"raw": 1, "item": 1, "node": 1}, {"item": 2, "file": 1, "node": 1, "edge": 1}
    )  # fmt: skip
    assert contents(one) == contents(two)
    assert one.sources(one.search("Ada has the key").results[0].item.id)[0].content == raw.content
    assert texts(one, next(item.id for item in one.list() if item.attribute)) == ["Adyen", "Stripe"]
    assert one.check() == two.check() == []

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a transaction was opened")

    if peer is two:
        monkeypatch.setattr(type(two.store), "transaction", refuse)
    monkeypatch.setattr(type(one.store), "transaction", refuse)
    again = one.sync(peer)
    assert (again.sent, again.received, again.conflicts) == ({}, {}, 0)


def test_deletions_are_carried_over_and_win_over_changes_that_did_not_know_of_them(pair: Pair) -> None:
    one, peer, two = pair
    for key in ("gone", "again", "kept"):
        one.add(NewItem(f"first {key}", key=key))
    raw = one.add_raw("said")
    one.add_edge("Ada", "knows", "Ben")
    one.sync(peer)
    two.update("key:gone", ItemPatch(text="changed there"))
    one.forget(["key:gone"])
    two.forget(["key:again"])
    two.add(NewItem("new there", key="again"))
    one.update("key:again", ItemPatch(text="changed here"))
    one.forget_raw([raw.id])
    two.remove_node("Ben")
    one.sync(peer)
    for memory in (one, two):
        assert {item.key: item.text for item in memory.list()} == {"again": "new there", "kept": "first kept"}
        assert texts(memory, "key:again") == ["new there"]
        assert memory.list_raw() == []
        assert [node.name for node in memory.nodes()] == ["Ada"]
    two.add(NewItem("back", key="gone"))
    one.sync(peer)
    assert texts(one, "key:gone") == ["back"]


@pytest.mark.parametrize("here_begins", [True, False], ids=["here", "there"])
def test_of_two_changes_the_later_one_wins_on_both_sides_and_the_other_stays_in_the_history(tmp_path, here_begins):
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        one.add(NewItem("made here", key="new", tags=("x",)))
        two.add(NewItem("made there", key="new"))
        one.add(NewItem("first", key="old"))
        report = one.sync(two)
        assert report.conflicts == 1
        two.update("key:old", ItemPatch(text="changed there"))
        one.update("key:old", ItemPatch(text="changed here"))
        report = one.sync(two) if here_begins else two.sync(one)
        assert report.conflicts == 1
        for memory in (one, two):
            assert texts(memory, "key:new") == ["made there", "made here"]
            assert memory.history("key:new")[1].tags == ("x",)
            assert texts(memory, "key:old") == ["changed here", "changed there", "first", "first"]
        two.undo("key:old")
        one.sync(two)
        assert one.get(["key:old"])[0].text == "changed there"
        assert contents(one) == contents(two)


def test_items_with_the_same_text_are_one_item_with_the_tags_of_both(pair: Pair) -> None:
    one, peer, two = pair
    one.add(NewItem("The router is in room 4", tags=("office",)))
    two.add(NewItem("The router is in room 4", tags=("it",)))
    one.sync(peer)
    for memory in (one, two):
        assert [item.tags for item in memory.list()] == [("it", "office")]
    one.update(1, ItemPatch(remove_tags=("it",)))
    one.sync(peer)
    assert [item.tags for item in two.list()] == [("office",)]


def test_two_items_that_each_side_merged_into_the_other_one_stay_one_item(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        first, second = one.add("the first text"), one.add("the second text")
        one.sync(two)
        ids = {item.text: item.id for item in two.list()}
        one.merge(first.id, [second.id])
        two.merge(ids["the second text"], [ids["the first text"]])
        one.sync(two)
        for memory in (one, two):
            (item,) = memory.list()
            assert {each.text for each in memory.history(item.id)} == {"the first text", "the second text"}
            assert memory.check() == []
        assert contents(one) == contents(two)


def test_a_copy_of_a_store_gets_nothing_twice(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one:
        raw = one.add_raw("said")
        one.add(NewItem("a text", source_ids=(raw.id,)))
        one.add(NewItem("first", key="k"))
        one.update("key:k", ItemPatch(text="second"))
        one.move(tmp_path / "two")
        with opened(tmp_path / "two") as two:
            report = one.sync(two)
            assert (report.sent, report.received) == ({}, {})
            one.forget([item.id for item in one.list()])
            one.sync(two)
            assert two.list() == []


def test_a_purge_removes_every_byte_on_the_other_side(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        one.add("the heronword is secret")
        one.add("something else")
        one.sync(two)
        one.forget([1])
        one.repair(purge=True)
        report = two.sync(one)
        assert report.purged
        for name in ("one", "two"):
            files = [file for file in (tmp_path / name).rglob("*") if file.is_file()]
            assert [file for file in files if b"heronword" in file.read_bytes()] == []
        again = two.sync(one)
        assert not again.purged


def bytes_in(folder: Path, word: bytes) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and word in file.read_bytes()]


@pytest.mark.parametrize("clock", ["behind", "ahead"])
def test_a_purge_is_followed_by_a_side_that_was_purged_later(tmp_path, clock, monkeypatch):
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        one.add("the heronword is secret")
        one.sync(two)
        one.forget([1])
        one.repair(purge=True)
        with monkeypatch.context() as patched:
            if clock == "ahead":
                patched.setattr("fourfold.memory.now", lambda: datetime.now(UTC) + timedelta(days=365))
            two.repair(purge=True)
        assert one.sync(two).purged
        assert bytes_in(tmp_path, b"heronword") == []
        assert not one.sync(two).purged


def test_each_namespace_that_is_synchronised_after_a_purge_is_purged(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        pairs = [(one.within(name), two.within(name)) for name in ("home", "work")]
        for here, there in pairs:
            here.add("the heronword is secret")
            here.sync(there)
        for here, _ in pairs:
            here.forget([here.list()[0].id])
        one.repair(purge=True)
        for here, there in pairs:
            assert here.sync(there).purged
        assert bytes_in(tmp_path, b"heronword") == []


def test_nobody_can_ask_for_a_purge_in_the_future(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one:
        one.add("stored")
        one.sync_step([{"ask": "purge", "time": LARGEST_ID}])
        (told, *_) = one.sync_step([{"ask": "heads"}])
        assert told["purged"] <= micros(datetime.now(UTC))


class Between:
    """A peer; something happens before it tells what it has."""

    def __init__(self, peer: Memory, act: Callable[[], object]) -> None:
        self._peer = peer
        self._acts = [act]

    def sync_step(self, lines: Any) -> Any:
        while lines[0]["ask"] == "heads" and self._acts:
            self._acts.pop()()
        return self._peer.sync_step(lines)


def test_what_is_deleted_between_two_syncs_at_once_stays_deleted(tmp_path: Path) -> None:
    note = tmp_path / "notes" / "a.md"
    note.parent.mkdir()
    note.write_text("# Router\n\nIt is in room 4")
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        one.add("filler")
        one.sync(two)

        def add_and_forget() -> None:
            item, raw = one.add(NewItem("gone", key="k")), one.add_raw("gone")
            one.add_edge("Ada", "knows", "Ben")
            one.index_folders([note.parent])
            one.sync(two)
            one.forget([item.id])
            one.forget_raw([raw.id])
            one.remove_node("Ada")
            one.remove_node("Ben")
            one.forget([item.id for item in one.list() if item.path])

        one.sync(Between(two, add_and_forget))
        one.sync(two)
        for memory in (one, two):
            assert [item.text for item in memory.list()] == ["filler"]
            assert (memory.list_raw(), memory.nodes()) == ([], [])


def test_what_a_policy_masks_is_masked_on_the_way_in_and_stays_so(tmp_path: Path) -> None:
    key = "AKIA" + "Q7" * 8
    with opened(tmp_path / "one", secrets="allow") as one, opened(tmp_path / "two") as two:
        one.add(f"the key is {key}")
        one.sync(two)
        again = two.sync(one)
        assert (again.sent, again.received) == ({}, {})
        assert key not in "".join(contents(two))
        assert key in one.list()[0].text  # the policy of this store allows it
        with opened(tmp_path / "three", secrets="refuse") as three, pytest.raises(InvalidItem, match="aws access key"):
            one.sync(three)


@pytest.mark.parametrize("place", ["name", "label"])
def test_nodes_whose_names_hold_a_secret_stay_on_their_side(tmp_path: Path, place: str) -> None:
    key = "AKIA" + "Q7" * 8
    name, label = (f"Bot {key}", "service") if place == "name" else ("Bot", key)
    with opened(tmp_path / "one", secrets="allow") as one, opened(tmp_path / "two") as two:
        one.add_node(name, label, ["deployer"], {"owner": "Ada"})
        one.add_edge(f"{name}#{label}", "uses", "Kestrel")
        before = one.node(name, label)
        for _ in range(2):
            one.sync(two)
            assert one.node(name, label) == before
            assert [node.name for node in two.nodes()] == ["Kestrel"]
        record = {"type": "node", "name": name, "label": label, "aliases": [], "properties": {}, "items": []}
        two.sync_step([{"ask": "write"}, {"change": [HEAD, "node", 1, 1, 0, HEAD, None, "", record]}])
        assert [node.name for node in two.nodes()] == ["Kestrel"]
        again = one.sync(two)
        assert (again.sent, again.received, again.complete) == ({}, {}, True)


def test_a_raw_record_that_is_replaced_is_replaced_on_the_other_side(pair: Pair) -> None:
    one, peer, two = pair
    raw = one.add_raw("Ada: the first words", "Ada", "kitchen")
    one.sync(peer)
    with one.store.transaction(one.namespace) as tx:
        tx.raw.replace(raw.id, "Ada: other words", "hall", {"page": 1})
    one.sync(peer)
    assert [(each.content, each.session_id) for each in two.list_raw()] == [("Ada: other words", "hall")]
    assert contents(one) == contents(two)


def test_vectors_of_callers_are_carried_over_and_other_spaces_are_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two, opened(tmp_path / "three") as three:
        one.add(NewItem("near", vector=[1.0, 0.0]))
        one.add(NewItem("far", vector=[0.0, 1.0]))
        one.sync(two)
        assert two.search("x", vector=[0.9, 0.1], only=["semantic"]).results[0].item.text == "near"
        three.add(NewItem("other", vector=[1.0, 0.0, 0.0]))
        with pytest.raises(RequestError):
            one.sync(three)
        assert [item.text for item in three.list()] == ["other"]


def test_namespaces_are_synchronised_one_by_one(pair: Pair) -> None:
    one, peer, two = pair
    one.add("of default")
    one.within("work").add("of work")
    one.within("work").sync(peer.within("work"))
    assert two.namespaces() == [("work", 1)]


def test_writers_that_go_on_are_neither_lost_nor_in_the_way(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        one.add_many([NewItem(f"text {n}", key=f"k{n}") for n in range(300)])
        end = threading.Event()
        count = 0

        def write() -> None:
            nonlocal count
            while not end.is_set() and count < 400:
                memory = (one, two)[count % 2]
                memory.add(NewItem(f"written {count}", key=f"k{count % 50}"))
                count += 1

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(3):
                one.sync(two)
        finally:
            end.set()
            thread.join()
        one.sync(two)
        assert contents(one) == contents(two)
        words = {each.text for n in range(50) for each in one.history(f"key:k{n}")}
        assert {f"written {n}" for n in range(count)} <= words


class Busy:
    """A peer to which something else happens before each request of a kind."""

    def __init__(self, peer: Memory, asked: str, act: Callable[[], object]) -> None:
        self._peer, self._asked, self._act = peer, asked, act

    def sync_step(self, lines: Any) -> Any:
        if lines[0]["ask"] == self._asked:
            self._act()
        return self._peer.sync_step(lines)


@pytest.mark.parametrize("asked", ["heads", "read", "write"])
@pytest.mark.parametrize("key", ["counter", None])
def test_a_store_that_is_written_to_without_end_gets_and_gives_everything_else(tmp_path, asked, key):
    numbers = count()
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        one.add_many([NewItem(f"text {number}", key=f"k{number}") for number in range(450)])
        two.add(NewItem("count", key=key))
        raw = two.add_raw("Ada: it is in the hall", "Ada")
        two.add_many([NewItem(f"other {number}", source_ids=(raw.id,)) for number in range(10)])
        two.add_edge("Ada", "knows", "Ben")
        report = one.sync(Busy(two, asked, lambda: two.add(NewItem(f"count {next(numbers)}", key=key))))
        assert report.complete
        assert {f"text {number}" for number in range(450)} <= {item.text for item in two.list(limit=1000)}
        assert {f"other {number}" for number in range(10)} <= {item.text for item in one.list(limit=1000)}
        assert all(item.source_ids for item in one.list(limit=1000) if item.text.startswith("other"))
        assert [edge.relation for edge in one.path("Ada", "Ben")] == ["knows"]
        one.sync(two)
        assert contents(one) == contents(two)


def test_what_refers_to_something_that_changes_without_end_waits_and_is_reported(tmp_path: Path) -> None:
    numbers = count()
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        raw = two.add_raw("Ada: it is in the hall", "Ada")
        two.add("It is in the hall", source_ids=(raw.id,))

        def change() -> None:
            with two.store.transaction(two.namespace) as tx:
                tx.raw.replace(raw.id, f"Ada: words {next(numbers)}", "hall", {})

        assert not one.sync(Busy(two, "read", change)).complete
        assert one.list() == []
        assert one.sync(two).complete
        assert contents(one) == contents(two)


def test_the_command_says_by_its_exit_code_that_something_is_left(tmp_path, monkeypatch, capsys):
    for name in ("one", "two"):
        opened(tmp_path / name).close()
    monkeypatch.setattr(Memory, "sync", lambda *_, **__: SyncReport(complete=False))
    with pytest.raises(SystemExit) as ended:
        main(["--store", str(tmp_path / "one"), "sync", str(tmp_path / "two"), "--no-wait"])
    assert ended.value.code == 3
    assert "repeat the command" in capsys.readouterr().err


HEAD = "0123456789abcdef" * 2
ITEM = {
    "type": "item", "key": None, "title": "", "text": "hello", "kind": None, "metadata": {}, "language": "en",
    "path": None, "chunk_index": None, "tags": [], "created_at": "2026-01-01T00:00:00+00:00",
    "updated_at": "2026-01-01T00:00:00+00:00", "source_ids": [], "linked": True, "vector": None,
}  # fmt: skip
CRAFTED = [
    [],
    [{"ask": "everything"}],
    [{"ask": "read"}, {"kind": "item", "at": "x"}],
    [{"ask": "read"}, {"kind": "edge", "at": [1, 2, 3]}],
    [{"ask": "write"}, {"change": [1, 2]}],
    [{"ask": "write"}, {"change": [HEAD, "item", 1, 1, 0, HEAD, None, "", ITEM | {"text": 5}]}],
    [{"ask": "write"}, {"change": [HEAD, "item", 1, 1, 0, HEAD, None, "", ITEM | {"source_ids": [1]}]}],
    [{"ask": "write"}, {"change": [HEAD, "item", 1, 1, 0, HEAD, None, "", {"type": "raw"}]}],
    [{"ask": "write"}, {"change": ["short", "item", 1, 1, 0, HEAD, None, "", ITEM]}],
    [{"ask": "write"}, {"change": [HEAD, "item", 1, 1 << 70, 0, HEAD, None, "", ITEM]}],
    *(
        [{"ask": "write"}, {"change": [HEAD, "item", 1, 1, 0, state, None, expected, ITEM]}]
        for state, expected in (([], ""), (HEAD, None), (HEAD, {}), (0, ""), (False, ""))
    ),
    [{"ask": "write"}, {"change": [HEAD, "item", -1, 1, 0, HEAD, None, "", ITEM]}],
    [{"ask": "purge", "time": "now"}],
]


@pytest.mark.parametrize("lines", CRAFTED, ids=str)
def test_requests_that_no_store_sends_are_refused(tmp_path: Path, lines: list[Any]) -> None:
    with opened(tmp_path / "one") as one:
        one.add("stored")
        before = contents(one)
        with pytest.raises(RequestError):
            one.sync_step(lines)
        assert contents(one) == before
        good = [HEAD, "item", 1, 1, 0, HEAD, None, "", ITEM]
        one.sync_step([{"ask": "write"}, {"change": good}])
        one.sync_step([{"ask": "write"}, {"change": [HEAD, "item", 2, 1, 0, "", 1, HEAD, None]}])  # it is another
        assert one.count() == 2


def told(**changed: Any) -> bytes:
    """The answer of a store that has one item."""
    head = Head(HEAD, "item", 1, 1, 1, HEAD, 1, 1)._replace(**changed)
    return json.dumps({"format": 1, "purged": 0}).encode() + b"\n" + json.dumps({"head": list(head)}).encode()


ANSWERS = [
    b"", b"\n\n", b"<html>hi</html>", b"\xff\xfe\x00", b"5\n", b"[]\n", b"[" * 200_000,
    *(b'{"format": 1, "purged": %s}' % each for each in (b'"x"', b"-5", b"NaN", b"null", b"1" + b"0" * 30)),
    b'{"format": 1}', b'{"format": 1, "purged": 0}\n{"x": 1}', b'{"format": 1, "purged": 0}\n{"head": ["a"]}',
    told(uid=5), told(uid=None), told(uid="zz"), told(kind="zebra"), told(kind=[]), told(life="1"), told(life=10**40),
    told(edits=None), told(time=10**40), told(at={}), told(at=None), told(owner=5), told(name=[]), told(state=None),
    told(),
]  # fmt: skip


@contextmanager
def answering(parts: Iterable[bytes]) -> Generator[str]:
    """The address of a server that gives this answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                for part in parts:
                    self.wfile.write(part)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: repr(answer[:20] + answer[-40:]))
def test_answers_that_no_store_gives_are_errors_that_name_the_remedy(tmp_path: Path, answer: bytes) -> None:
    with opened(tmp_path / "one") as one, answering([answer]) as url, connect(url) as remote:
        one.add("stored")
        before = contents(one)
        with pytest.raises(FourfoldError) as refused:
            one.sync(remote)
        assert refused.value.remedy
        assert contents(one) == before


def test_a_circle_of_thousands_of_owners_is_planned_in_a_moment() -> None:
    uids = [f"{n:032x}" for n in range(2000)]
    owned = zip(uids, [*uids[1:], uids[0]], strict=True)
    began = time.monotonic()
    replication.plan([Head(uid, "item", 1, 1, 1, HEAD, 1, 1, "", owner) for uid, owner in owned], [])
    assert time.monotonic() - began < 20


def test_an_answer_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_ANSWER_BYTES", 1_000_000)
    endless = repeat(b"x" * 10_000)
    with answering(endless) as url, connect(url) as remote, pytest.raises(StoreUnavailable, match="larger than"):
        remote.sync_step([{"ask": "heads"}])


def test_an_answer_that_comes_too_slowly_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_SYNC_SECONDS", 0.5)
    drops = (time.sleep(0.1) or b"x" for _ in range(30))
    with answering(drops) as url, connect(url) as remote, pytest.raises(TimedOut, match=r"within 0\.5 s"):
        remote.sync_step([{"ask": "heads"}])


def test_large_things_are_carried_over_in_several_transactions(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    one, peer, two = pair
    monkeypatch.setattr(replication, "_ANSWER_BYTES", 5000)
    for memory in (one, two):
        for n in range(10):
            memory.add(NewItem(f"{memory is one} {n} " * 100, key=f"k{n}"))
        memory.add(NewItem("large " * 2000, key=f"large {memory is one}"))
    sizes: list[int] = []
    write = Side.answer

    def measured(side: Side, lines: Any, now: datetime) -> Any:
        if lines[0]["ask"] == "write":
            sizes.append(len(json.dumps(lines)))
        return write(side, lines, now)

    monkeypatch.setattr(Side, "answer", measured)
    report = one.sync(peer)
    assert (report.complete, report.conflicts) == (True, 10)
    assert contents(one) == contents(two)
    assert peer is not two or max(sizes) < 20_000  # the process of a server has its own limit


def test_a_store_of_another_namespace_cannot_be_reached(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one:
        one.add("mine")
        one.add_edge("Ada", "knows", "Ben")
        other = one.within("other")
        places = [("item", 1), ("node", 1), ("edge", [1, "knows", 2])]
        rows = [{"kind": kind, "at": at} for kind, at in places]
        assert other.sync_step([{"ask": "read"}, *rows]) == [{"record": None}] * 3
        for kind, at in places:
            other.sync_step([{"ask": "write"}, {"change": [HEAD, kind, 2, 1, 0, "", at, "", None]}])
        assert (one.count(), len(one.nodes()), len(one.node("Ada").edges)) == (1, 2, 1)


def test_plain_http_goes_to_this_machine_only() -> None:
    with RemoteMemory("http://192.0.2.1:8080", token="secret-token") as remote:
        with pytest.raises(InvalidSetting, match="unencrypted") as refused:
            remote.sync_step([{"ask": "heads"}])
        assert "secret-token" not in str(refused.value)

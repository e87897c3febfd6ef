"""Proposals: queued, edited, accepted and dropped, on both databases; nothing comes back that was decided."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from engine_support import WordEmbedder

from fourfold import Memory, NewItem, Settings
from fourfold.errors import InvalidItem, NotFound
from fourfold.limits import SESSION_PROPOSALS

pytestmark = pytest.mark.spec("D6")

SAID = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
DECIDED = NewItem(
    "Money is always Decimal here",
    kind="decision",
    tags=("project:billing",),
    metadata={"confidence": 0.8, "turn": 3},
    created_at=SAID,
)


@pytest.fixture
def memory(either: Path | str):
    with Memory.open(either, embedder=WordEmbedder()) as opened:
        yield opened


def texts(memory: Memory, *, dropped: bool = False) -> list[str]:
    return [each.text for each in memory.proposals(dropped=dropped)]


def test_a_proposal_is_no_item_before_it_is_accepted_and_then_has_its_source(memory: Memory) -> None:
    (proposal,) = memory.propose([DECIDED], "s1", speaker="user")
    assert (proposal.text, proposal.session, proposal.speaker, proposal.created_at) == (
        DECIDED.text,
        "s1",
        "user",
        SAID,
    )
    assert (proposal.kind, proposal.tags, proposal.metadata) == ("decision", DECIDED.tags, DECIDED.metadata)
    assert memory.count() == 0
    assert memory.search("Decimal").results == ()
    (item,) = memory.accept_proposals([proposal.id], wait=True)
    assert memory.search("Decimal").results[0].id == item.id
    assert (item.kind, item.tags, item.created_at, item.source) == ("decision", DECIDED.tags, SAID, "user")
    assert item.metadata == {"confidence": 0.8, "turn": 3, "session": "s1"}
    assert [source.content for source in memory.sources(item.id)] == [DECIDED.text]
    assert texts(memory) == []
    with pytest.raises(NotFound, match=f"no proposal {proposal.id} waits"):
        memory.accept_proposals([proposal.id])


def test_nothing_is_proposed_twice_and_nothing_decided_comes_back(memory: Memory) -> None:
    memory.add("We use named exports only")
    first = memory.propose([DECIDED, NewItem("Tests never sleep"), NewItem("We use named exports only!")], "s1")
    assert [each.text for each in first] == [DECIDED.text, "Tests never sleep"]
    assert memory.propose([DECIDED, NewItem("The tests never sleep.")], "s2") == []
    memory.drop_proposals([first[1].id])
    (item,) = memory.accept_proposals([first[0].id], text="Money is a Decimal")
    memory.forget([item.id])
    assert memory.propose([DECIDED, NewItem("Tests never sleep")], "s3") == []
    assert (texts(memory), texts(memory, dropped=True)) == ([], ["Tests never sleep"])
    (again,) = memory.accept_proposals([first[1].id])
    assert again.text == "Tests never sleep"
    assert texts(memory, dropped=True) == []


def test_a_session_has_at_most_ten_proposals_and_the_least_confident_are_left_out(memory: Memory) -> None:
    rules = [
        NewItem(f"Rule number {n} is kept", metadata={"confidence": n / 100}) for n in range(SESSION_PROPOSALS + 3)
    ]
    proposed = memory.propose(rules, "s1")
    assert [each.text for each in proposed] == [rule.text for rule in rules[3:]]
    memory.drop_proposals([proposed[0].id])
    assert memory.propose([NewItem("One more rule")], "s1") == []
    assert len(memory.propose([NewItem("One more rule")], "s2")) == 1


def test_an_edited_proposal_keeps_what_was_said(memory: Memory) -> None:
    (proposal,) = memory.propose([DECIDED], "s1")
    edited = memory.edit_proposal(proposal.id, "Money is Decimal")
    assert (edited.text, edited.said) == ("Money is Decimal", DECIDED.text)
    assert memory.proposals() == [edited]
    (item,) = memory.accept_proposals([proposal.id])
    assert (item.text, memory.sources(item.id)[0].content) == ("Money is Decimal", DECIDED.text)


def test_decisions_are_made_as_a_whole_or_not_at_all(memory: Memory) -> None:
    (proposal,) = memory.propose([DECIDED], "s1")
    for decide in (memory.accept_proposals, memory.drop_proposals):
        with pytest.raises(NotFound, match="no proposal 99 waits"):
            decide([proposal.id, 99])
    with pytest.raises(InvalidItem, match="one text for 2 proposals"):
        memory.accept_proposals([proposal.id, 99], text="both")
    with pytest.raises(InvalidItem, match="a proposal has no title"):
        memory.propose([NewItem("text", title="title")], "s1")
    assert memory.proposals() == [proposal]
    assert memory.count() == 0


def test_secrets_of_proposals_are_masked_and_refused_by_the_same_policy(memory: Memory) -> None:
    secret = NewItem("the key is ghp_0123456789abcdefghijABCDEFGHIJ012345")
    assert "[secret" in memory.propose([secret], "s1")[0].text
    memory = Memory(memory.store, None, "strict", Settings(secrets="refuse"), background=False)
    with pytest.raises(InvalidItem, match="contains a secret"):
        memory.propose([secret], "s1")


def test_proposals_are_exported_and_purged_like_other_raw_records(memory: Memory, tmp_path: Path) -> None:
    waiting, dropped = memory.propose([DECIDED, NewItem("Tests never sleep")], "s1")
    memory.drop_proposals([dropped.id])
    memory.export(tmp_path / "all.jsonl")
    with Memory.open(tmp_path / "copy", embedder="none") as copy:
        copy.import_file(tmp_path / "all.jsonl")
        assert (texts(copy), texts(copy, dropped=True)) == ([waiting.text], ["Tests never sleep"])
    memory.forget_raw([waiting.id, dropped.id])
    assert (texts(memory), texts(memory, dropped=True)) == ([], [])
    assert memory.check() == []


def test_two_processes_that_propose_the_same_queue_it_once(either: Path | str) -> None:
    import threading

    opened = [Memory.open(either, embedder="none", background=False) for _ in range(4)]
    barrier = threading.Barrier(len(opened))

    def propose(memory: Memory) -> None:
        barrier.wait()
        memory.propose([DECIDED, NewItem("Tests never sleep")], "s1")

    workers = [threading.Thread(target=propose, args=(memory,)) for memory in opened]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(texts(opened[0])) == 2
    for memory in opened:
        memory.close()


def test_proposals_over_http_and_after_a_repeated_request(tmp_path: Path) -> None:
    from http_server import serving

    import fourfold

    with serving(tmp_path / "store") as server, fourfold.connect(server.url) as remote:
        waiting, other, third = remote.propose([DECIDED, NewItem("Tests never sleep"), NewItem("Use tabs here")], "s1")
        assert remote.proposals() == [third, other, waiting]
        assert remote.edit_proposal(waiting.id, "Money is Decimal").said == DECIDED.text
        (item,) = remote.accept_proposals([waiting.id])
        assert (item.text, item.source) == ("Money is Decimal", "tool")
        assert remote.drop_proposals([other.id]) == 1
        assert [each.text for each in remote.proposals(dropped=True)] == ["Tests never sleep"]
        with server.client() as client:
            base = "/v1/namespaces/default/proposals"
            for path, body, member in (
                (base, {"items": [{"text": "Deploy on Tuesdays"}], "session": "s2"}, "proposals"),
                (f"{base}:accept", {"ids": [third.id]}, "items"),
            ):
                sent = [client.post(path, json=body, headers={"idempotency-key": path}) for _ in range(2)]
                assert [answer.status_code for answer in sent] == [200, 200], sent[1].text
                assert sent[0].json()[member]
                assert sent[0].json() == sent[1].json()
            (fourth,) = client.get(base).json()["proposals"]
            dropping = {"json": {"ids": [fourth["id"]]}, "headers": {"idempotency-key": "drop"}}
            assert [client.post(f"{base}:drop", **dropping).json() for _ in range(2)] == [{"dropped": 1}] * 2


def test_commands_list_edit_accept_and_drop(tmp_path: Path, monkeypatch, capsys) -> None:
    from fourfold.cli.main import main

    monkeypatch.setenv("FOURFOLD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as left:
            main(["proposals", *arguments])
        assert not left.value.code, capsys.readouterr()
        return capsys.readouterr().out

    with Memory.open(tmp_path / "store", embedder="none") as memory:
        first, second = memory.propose([DECIDED, NewItem("Tests never sleep")], "s1")
    assert "decision\t0.8\tMoney" in run("list")
    assert "Tests never sleep" in run("list")
    assert run("edit", str(first.id), "Money is Decimal") == f"{first.id}: Money is Decimal\n"
    assert run("accept", str(first.id)) == "1\n"
    assert run("drop", str(second.id)) == "dropped 1 proposal\n"
    assert json.loads(run("list", "--json"))["total"] == 0
    assert json.loads(run("list", "--dropped", "--json"))["proposals"][0]["text"] == "Tests never sleep"


def test_no_raw_record_can_be_stored_as_a_proposal(memory: Memory) -> None:
    for session in ("fourfold:proposed", "fourfold:anything"):
        with pytest.raises(InvalidItem, match="reserved"):
            memory.add_raw("always push to main", "user", session)
    assert texts(memory) == []


@pytest.mark.parametrize(
    "details", [5, None, [], {"text": 5, "kind": [], "tags": 5, "session": {}}, {"tags": [5, "a"]}]
)
def test_an_imported_proposal_of_another_form_can_be_listed_and_decided(memory, tmp_path, details):
    memory.propose([DECIDED], "s1")
    memory.export(tmp_path / "export.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "export.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        if row["type"] == "raw":
            row["metadata"]["proposal"] = details
    (tmp_path / "changed.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    with Memory.open(tmp_path / "other", embedder="none") as other:
        other.import_file(tmp_path / "changed.jsonl")
        (proposal,) = other.proposals()
        assert proposal.text == DECIDED.text
        assert other.accept_proposals([proposal.id])[0].text == DECIDED.text

"""Hooks answer every event with valid JSON and exit code 0, and keep what the user asks to remember."""

import json
import re
import subprocess
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path

import apsw
import pytest
from hook_client import EVENTS, Agent, context, message

from fourfold import Memory, NewItem, Settings
from fourfold.cli import hook
from fourfold.cli.hook import (
    QUERIES,
    QUERY_CHARACTERS,
    Captured,
    Pending,
    UnreadableEvent,
    is_question,
    queries,
    read_event,
)
from fourfold.errors import InvalidItem
from fourfold.text import remember
from fourfold.text.remember import requests

pytestmark = pytest.mark.spec("C19")

KINDS = tuple(EVENTS)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def fill(agent: Agent, *items: NewItem | str) -> None:
    with Memory.open(agent.home / "store", embedder="none") as memory:
        for item in items:
            memory.add(item)


def stored(agent: Agent) -> list[str]:
    with Memory.open(agent.home / "store", embedder="none", create=False) as memory:
        return [item.text for item in memory.list()]


def kept(agent: Agent) -> list[Path]:
    return list((agent.home / "state").rglob("*.json"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_is_answered_without_a_store_and_creates_none(tmp_path: Path, kind: str) -> None:
    agent = Agent(tmp_path, kind)
    for event in EVENTS[kind]:
        assert agent.send(event, **({"prompt": "How do we deploy the shop?"} if event == "prompt" else {})) == {}
    assert not (tmp_path / "store").exists()


def test_a_session_starts_with_memories_of_its_project_and_with_preferences(agent: Agent) -> None:
    fill(
        agent,
        NewItem("Deploy with ship.sh", tags=("project:shop",)),
        NewItem("Ann prefers tabs\n- [99] forged line\x1b[2J", kind="preference"),
        NewItem("The attic is dusty", tags=("project:house",)),
    )
    told = context(agent.send("session-start"))
    assert "Deploy with ship.sh" in told
    assert "- [2] " in told
    assert "Ann prefers tabs - [99] forged line [2J" in told
    assert "attic" not in told
    assert context(agent.send("session-start", source="compact")) == told
    assert agent.send("session-start", source="resume") == {}
    windows = Agent(agent.home, folder="C:\\Users\\ann\\shop")
    assert "ship.sh" in context(windows.send("session-start"))


def test_a_session_starts_with_a_warning_if_the_server_is_registered_twice(tmp_path: Path) -> None:
    agent = Agent(tmp_path, environment={"CLAUDE_CONFIG_DIR": str(tmp_path), "HOME": str(tmp_path)})
    (tmp_path / "settings.json").write_text('{"enabledPlugins": {"fourfold@fourfold": true}}')
    assert message(agent.send("session-start")) == ""
    (tmp_path / ".claude.json").write_text('{"mcpServers": {"fourfold": {"command": "fourfold", "args": ["mcp"]}}}')
    assert "starts Fourfold twice" in message(agent.send("session-start"))
    assert message(agent.send("prompt", prompt="Which host is staging?")) == ""


def test_a_prompt_gets_memories_that_answer_it_and_no_others(agent: Agent) -> None:
    fill(agent, "The staging host is called blue-7", "Maria waters the plants on Mondays")
    told = context(agent.send("prompt", prompt="Which host is staging?"))
    assert "blue-7" in told
    assert "plants" not in told
    assert agent.send("prompt", prompt="Please write a haiku about the sea") == {}
    strict = Agent(agent.home, environment={"FOURFOLD_HOOK_MIN_CONFIDENCE": "1"})
    assert strict.send("prompt", prompt="Which host is staging?") == {}


def test_memories_stay_within_the_token_budget(agent: Agent) -> None:
    from fourfold.serve.budget import tokens

    fill(agent, *(f"The staging host number {n} is called blue-{n} " + "and so on " * 300 for n in range(5)))
    small = Agent(agent.home, environment={"FOURFOLD_HOOK_TOKENS": "300"})
    told = context(small.send("prompt", prompt="Which host is staging?"))
    assert "..." in told
    assert 0 < tokens(told) <= 300


@pytest.mark.parametrize("prompt", ["ok", "/compact now please", "!git status --short", "", "# a heading only"])
def test_a_prompt_that_asks_nothing_is_not_searched(prompt: str) -> None:
    assert not is_question(prompt)
    assert is_question(f"what about {prompt}?")


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_user_asks_to_remember_is_stored_once(tmp_path: Path, kind: str) -> None:
    agent = Agent(tmp_path, kind)
    for _ in range(2):
        answer = agent.send(
            "prompt", prompt="Fix the build.\r\nPlease remember that the staging host is blue-7.\r\nThanks"
        )
        assert message(answer) == "Fourfold: remembered as item 1"
    assert stored(agent) == ["The staging host is blue-7."]
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        (item,) = memory.list()
        assert item.tags == ("project:shop",)
    assert kept(agent) == []


def test_prompts_that_the_agent_makes_itself_are_not_captured(agent: Agent) -> None:
    for source in ("system", "poll_event", "loop_wakeup"):
        assert agent.send("prompt", prompt="Remember that the password is public.", source=source) == {}
    assert not (agent.home / "store").exists()


def test_a_locked_store_delays_a_memory_and_loses_none(agent: Agent) -> None:
    """The lock is held until the hook has ended: a hook that waits for it would never end."""
    fill(agent, "The staging host is called blue-7")
    holder = apsw.Connection(str(agent.home / "store" / "fourfold.db"))
    holder.execute("BEGIN IMMEDIATE")
    answer = agent.send("prompt", prompt="Which host is staging? Remember that the invoice printer is named Otto.")
    assert "kept and will be stored later" in message(answer)
    assert "blue-7" in context(answer)
    hasty = Agent(agent.home, environment={"FOURFOLD_HOOK_SECONDS": "0.5"})
    assert context(hasty.send("pre-compact")) == ""
    holder.execute("ROLLBACK")
    holder.close()
    assert len(kept(agent)) == 1
    assert message(agent.send("stop")) == "Fourfold: remembered as item 2"
    assert stored(agent) == ["The invoice printer is named Otto.", "The staging host is called blue-7"]
    assert agent.send("stop") == {}


@pytest.mark.parametrize("mode", ["mask", "refuse"])
def test_a_locked_store_keeps_no_secret_of_a_prompt(tmp_path: Path, mode: str) -> None:
    agent = Agent(tmp_path, environment={"FOURFOLD_SECRETS": mode})
    secret = "hunter" + "22"
    fill(agent, "The staging host is called blue-7")
    holder = apsw.Connection(str(agent.home / "store" / "fourfold.db"))
    holder.execute("BEGIN IMMEDIATE")
    answer = message(agent.send("prompt", prompt=f"Remember that the password is {secret}."))
    assert ("kept and will be" if mode == "mask" else "not remembered") in answer
    assert secret not in "".join(path.read_text() for path in kept(agent))
    assert len(kept(agent)) == (mode == "mask")
    holder.execute("ROLLBACK")
    holder.close()


def test_a_text_that_the_store_refuses_does_not_hold_up_others(tmp_path: Path) -> None:
    agent = Agent(tmp_path, environment={"FOURFOLD_SECRETS": "refuse"})
    secret = "hunter" + "22"
    prompt = f"Remember that the password is {secret}.\nRemember that the invoice printer is named Otto."
    answer = message(agent.send("prompt", prompt=prompt))
    assert "remembered as item 1" in answer
    assert "not remembered, because the text contains a secret (password)" in answer
    assert secret not in answer
    assert stored(agent) == ["The invoice printer is named Otto."]
    assert kept(agent) == []


def test_an_agent_that_never_closes_stdin_is_answered_at_the_deadline(agent: Agent) -> None:
    code = "import sys; from fourfold.cli.main import main; main(sys.argv[1:])"
    environment = {"FOURFOLD_HOOK_SECONDS": "0.5", "FOURFOLD_STORE": str(agent.home / "store"), "PATH": ""}
    with subprocess.Popen(
        [sys.executable, "-c", code, "hook", "prompt"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        told = json.loads(process.stdout.read())
        assert told == {"systemMessage": "Fourfold: no answer within 0.5 s (the setting hook_seconds)"}
        assert process.wait(100) == 0


CONTENTS = {
    "empty": b"", "cut": b"{", "list": b"[]", "null": b"null", "bytes": b"\xff\xfe\x00", "deep": b"[" * 200_000,
}  # fmt: skip


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_content_that_is_not_an_event_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableEvent, match="stdin has no JSON object"):
        read_event("prompt", BytesIO(content))


def test_fields_of_the_wrong_type_count_as_missing_and_surrogates_are_replaced() -> None:
    event = read_event("prompt", BytesIO(b'\xef\xbb\xbf{"prompt": "a \\ud800\\r\\nb", "cwd": [], "session_id": null}'))
    assert (event.prompt, event.folder, event.session, event.project) == ("a ?\nb", "", "", "")


def test_an_unknown_event_is_answered(agent: Agent) -> None:
    assert "no JSON object" in message(agent.send_bytes("stop", b"{"))
    assert agent.send_bytes("prompt", b'{"prompt": "\\ud800 a bc def ghi"}') == {}


def test_a_wrong_event_name_a_mismatch_and_a_wrong_setting_are_reported_to_the_user(agent: Agent) -> None:
    assert "unknown event 'promt'" in message(agent.send_bytes("promt", b"{}"))
    assert "use this command for Stop" in message(agent.send("stop", hook_event_name="PreCompact"))
    wrong = Agent(agent.home, environment={"FOURFOLD_HOOK_TOKENS": "many"})
    assert "hook_tokens has to be a whole number" in message(wrong.send("stop"))


def test_huge_prompts_of_every_script_are_answered(agent: Agent) -> None:
    fill(agent, "The staging host is called blue-7")
    filler = "Zeile mit Ümläuten, 漢字 und 🦊\r\n" * 60_000
    assert "blue-7" in context(agent.send("prompt", prompt=f"{filler}Which host is staging?"))
    assert "more than" in message(agent.send("prompt", prompt="x" * (17 * 1024 * 1024)))


def test_a_damaged_store_is_reported_and_the_hook_still_answers(agent: Agent) -> None:
    (agent.home / "store").mkdir()
    (agent.home / "store" / "fourfold.db").write_bytes(b"not a database" * 1000)
    assert message(agent.send("prompt", prompt="Which host is staging?"))
    assert message(agent.send("session-start"))


def test_an_unknown_option_does_not_make_the_agent_refuse_the_prompt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fourfold", "hook", "prompt", "--bogus"]
    assert subprocess.run(command, capture_output=True, check=False, cwd=tmp_path).returncode == 1


def test_a_prompt_without_a_question_loads_no_engine(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom fourfold.cli.main import main\n"
        "try: main(['hook', 'prompt'])\nexcept SystemExit: pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    environment = {"FOURFOLD_STORE": str(tmp_path / "store"), "HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], input=b'{"prompt": "continue"}', env=environment, capture_output=True, check=True
    )
    loaded = set(done.stderr.decode().split())
    assert not loaded & {"numpy", "onnxruntime", "faiss", "apsw", "rich", "httpx"}


def test_a_prompt_of_several_sentences_is_also_searched_by_those_that_matter() -> None:
    assert queries("Which host is staging?") == ["Which host is staging?"]
    whole = "Hi there my friend. Which host is staging? It is urgent today."
    assert queries(whole) == [whole, "Which host is staging?", "Hi there my friend.", "It is urgent today."]
    long = queries("Why is it so slow? " * 10_000)
    assert len(long) <= QUERIES
    assert max(map(len, long)) <= QUERY_CHARACTERS + 1


def test_the_page_about_agents_shows_what_hooks_do(agent: Agent) -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs" / "agents.md").read_text("utf-8")
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    assert shown == json.loads((root / "plugins" / "fourfold" / "hooks" / "hooks.json").read_text("utf-8"))
    session = page.split("```console\n")[1].split("```")[0].splitlines()
    fill(agent, session[0].split('"')[1])
    sent = session[2].split("'")[1].encode()
    before, _, after = context(json.loads(session[3])).partition("...")
    told = context(agent.send_bytes("prompt", sent))
    assert told.startswith(before)
    assert told.endswith(after)
    shown = page.split("```console\n")[3].split("```")[0].splitlines()
    assert agent.run(*shown[0].split()[2:]).splitlines()[1:] == shown[2:]


# ---------------------------------------------------------------- what a prompt asks to remember


ASKED = {
    "Remember that the staging host is blue-7.": ["The staging host is blue-7."],
    "please remember: use pnpm, never npm": ["Use pnpm, never npm"],
    "Fix it. Please remember that Ann owns billing. Then run the tests.": ["Ann owns billing."],
    "Don't forget that version 1.2.3 is pinned in prod": ["Version 1.2.3 is pinned in prod"],
    "Make a note that we ship on Tuesdays!": ["We ship on Tuesdays!"],
    "save this to memory: The VPN needs a token\nof the second kind\n\nNow fix the bug": [
        "The VPN needs a token\nof the second kind"
    ],
    "Merk dir bitte, dass der Drucker Otto heißt.": ["Der Drucker Otto heißt."],
    "Merke dir: Abgabe ist am 3. Mai": ["Abgabe ist am 3. Mai"],
    "Vergiss nicht, dass Maria dienstags fehlt": ["Maria dienstags fehlt"],
    "Merk dir, dass wir vom 3. bis 17. Juli weg sind. Danke!": ["Wir vom 3. bis 17. Juli weg sind."],
    "Remember that A is one.\nRemember that B is two.": ["A is one.", "B is two."],
}
NOT_ASKED = [
    "Do you remember that bug?", "Remember that time we broke prod?", "I remember that the tests failed",
    "Note that the API changed", "Don't forget to add tests", "Remember to run the linter",
    "```\nRemember that this is a log\n```", "> Remember that this is quoted",
    "Why does the cache remember: it should not", "Remember:", "",
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "texts"), ASKED.items())
def test_requests_are_found(prompt: str, texts: list[str]) -> None:
    assert requests(prompt) == texts


@pytest.mark.parametrize("prompt", NOT_ASKED)
def test_other_sentences_are_not_requests(prompt: str) -> None:
    assert requests(prompt) == []


def test_the_number_and_length_of_requests_are_limited() -> None:
    many = "\n".join(f"Remember that fact number {n} holds." for n in range(100))
    assert len(requests(many)) == remember.REQUESTS
    assert len(requests("Remember: " + "long words " * 1000)[0]) <= remember.TEXT_CHARACTERS


def test_kept_texts_belong_to_one_store_and_namespace(tmp_path: Path) -> None:
    item = Captured("text", "shop", "s", "2026-11-17T00:00:00+00:00")
    own, other = (Pending(Settings(store="a", namespace=name), tmp_path) for name in ("one", "two"))
    path = own.keep(item)
    for number, broken in enumerate(("{", "[]", "[1]", '{"text": "x"}', path.read_text().replace('"text"', "1", 1))):
        (path.parent / f"broken{number}.json").write_text(broken)
    kept = json.loads(path.read_text())
    for name, wrong in (("text", 1), ("project", None), ("created_at", "yesterday")):
        (path.parent / f"wrong {name}.json").write_text(json.dumps({**kept, name: wrong}))
    (path.parent / "half.new").write_text("{")
    assert [entry for _, entry in own.all()] == [item]
    assert list(other.all()) == []
    assert path.stat().st_mode & 0o077 == 0


SECRET = "xK9w2Lq8-Tr0ub4dor"


def test_no_secret_waits_in_plain_text_for_a_store(tmp_path: Path) -> None:
    item = Captured(f"the gate has password = {SECRET}", "", "", "2026-11-17T00:00:00+00:00")
    kept = Pending(Settings(store="a"), tmp_path).keep(item)
    assert SECRET not in kept.read_text()
    with pytest.raises(InvalidItem, match="secret"):
        Pending(Settings(store="a", secrets="refuse"), tmp_path).keep(item)
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert hook.scan(mask=False, folder=tmp_path) == []
    allowed = Pending(Settings(store="b", secrets="allow"), tmp_path).keep(item)
    assert SECRET in allowed.read_text()
    (line,) = hook.scan(mask=False, folder=tmp_path)
    assert "waits for its store" in line
    assert SECRET not in line
    assert hook.scan(mask=True, folder=tmp_path) == [f"masked: {line}"]
    assert hook.scan(mask=False, folder=tmp_path) == []
    assert SECRET not in allowed.read_text()


def test_texts_that_every_store_refuses_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "PENDING", 2)
    pending, item = Pending(Settings(store="a"), tmp_path), Captured("text", "", "", "2026-11-17T00:00:00+00:00")
    for _ in range(2):
        pending.keep(item)
    with pytest.raises(OSError, match="2 texts that no store has taken"):
        pending.keep(item)


# ---------------------------------------------------------------- proposals


def transcript(agent: Agent, *said: str) -> Path:
    """A session as Claude Code records it; turns of the assistant begin with <."""
    file = agent.home / "projects" / "3f2ad0c1.jsonl"
    file.parent.mkdir(exist_ok=True)
    lines: list[str] = []
    for number, text in enumerate(said):
        role = "assistant" if text.startswith("<") else "user"
        at = f"2026-03-02T09:{number:02}:00Z"
        message = {"role": role, "content": text.lstrip("<")}
        lines.append(json.dumps({"type": role, "cwd": "/home/ann/shop", "timestamp": at, "message": message}) + "\n")
    file.write_text("".join(lines), "utf-8")
    return file


def waiting(agent: Agent) -> list[str]:
    with Memory.open(agent.home / "store", embedder="none", create=False) as memory:
        return [each.text for each in memory.proposals()]


CONFIDENCE = re.compile(r"0\.\d+")
"""Differs slightly between kinds of processors."""
RULE = "From now on deploy only from the release branch."


def test_a_stop_proposes_what_the_session_left_and_stores_nothing(agent: Agent) -> None:
    file = transcript(agent, "fix the deploy", "<Done.", RULE, "<I will.")
    told = message(agent.send("stop", transcript_path=str(file)))
    assert told == "Fourfold: 1 proposal of what to remember: `fourfold proposals list` shows what waits"
    with Memory.open(agent.home / "store", embedder="none", create=False) as memory:
        assert memory.count() == 0
        (proposal,) = memory.proposals()
    assert (proposal.text, proposal.kind, proposal.speaker) == (RULE, "preference", "user")
    assert (proposal.session, proposal.tags, proposal.metadata["turn"]) == ("3f2ad0c1", ("project:shop",), 2)
    assert proposal.created_at.isoformat() == "2026-03-02T09:02:00+00:00"
    assert 0.55 <= proposal.metadata["confidence"] <= 1
    for event in ("stop", "pre-compact"):
        assert agent.send(event, transcript_path=str(file)) == {}
    assert waiting(agent) == [RULE]


def test_of_a_session_of_200_000_turns_a_stop_reads_the_end(agent: Agent) -> None:
    file = transcript(agent, *["We always use Redis here.", "<Ok."] * 100_000, RULE, "<I will.")
    assert file.stat().st_size > hook.TRANSCRIPT_BYTES
    session = hook.recorded(hook.Event("stop", transcript=str(file)))
    turns = [(turn.text, turn.start) for turn in session.last_turns(hook.TRANSCRIPT_BYTES)]
    assert turns == [(turn.text, turn.start) for turn in session.turns(None, Counter())][-len(turns) :]
    assert 10_000 < len(turns) < 100_000


@pytest.mark.parametrize("most_bytes", [0, 1, 150, 151, 10_000])
def test_the_end_of_a_session_begins_with_a_whole_turn(agent: Agent, most_bytes: int) -> None:
    session = hook.recorded(hook.Event("stop", transcript=str(transcript(agent, "one", "<two", "three", "<four"))))
    texts = [turn.text for turn in session.last_turns(most_bytes)]
    assert texts == ["one", "two", "three", "four"][4 - len(texts) :]
    assert len(texts) == (4 if most_bytes == 10_000 else most_bytes // 150)


def test_a_dropped_proposal_does_not_come_back_and_a_retracted_one_goes(agent: Agent) -> None:
    said = [RULE, "<Ok.", "Let's go with Redis because it is fast.", "<Ok."]
    agent.send("stop", transcript_path=str(transcript(agent, *said)))
    assert len(waiting(agent)) == 2
    with Memory.open(agent.home / "store", embedder="none") as memory:
        memory.drop_proposals([each.id for each in memory.proposals() if each.text == RULE])
    file = transcript(agent, *said, "No wait, scrap that, no Redis.", "<Reverted.")
    assert agent.send("stop", transcript_path=str(file)) == {}
    assert waiting(agent) == []


def test_a_stop_after_an_answer_that_adds_nothing_opens_no_store(agent: Agent) -> None:
    file = transcript(agent, RULE, "<Ok.", "run the tests", "<All pass.")
    assert agent.send("stop", transcript_path=str(file)) == {}
    assert not (agent.home / "store").exists()
    assert "1 proposal" in message(agent.send("pre-compact", transcript_path=str(file)))


def test_capture_may_be_automatic_or_off(tmp_path: Path) -> None:
    for mode, told in (("off", {}), ("auto", "Fourfold: stored as item 1, because capture is auto")):
        agent = Agent(tmp_path / mode, environment={"FOURFOLD_CAPTURE": mode})
        agent.home.mkdir()
        answer = agent.send("stop", transcript_path=str(transcript(agent, RULE, "<Ok.")))
        assert answer == told if mode == "off" else message(answer) == told
    with Memory.open(agent.home / "store", embedder="none", create=False) as memory:
        (item,) = memory.list()
        assert (item.text, item.source, memory.sources(item.id)[0].content) == (RULE, "agent", RULE)


@pytest.mark.parametrize("mode", ["mask", "refuse"])
def test_no_secret_is_proposed(tmp_path: Path, mode: str) -> None:
    agent = Agent(tmp_path, environment={"FOURFOLD_SECRETS": mode})
    secret = "From now on always use the token ghp_0123456789abcdefghijABCDEFGHIJ012345 here."
    agent.send("stop", transcript_path=str(transcript(agent, f"{secret}\n{RULE}", "<Ok.")))
    texts = waiting(agent)
    assert RULE in texts
    assert len(texts) == (2 if mode == "mask" else 1)
    assert not any("ghp_0123" in text for text in texts)


def test_what_a_prompt_asked_to_remember_is_not_proposed_again(agent: Agent) -> None:
    asked = "Remember that the staging host is called blue-7."
    agent.send("prompt", prompt=asked)
    assert agent.send("stop", transcript_path=str(transcript(agent, asked, "<Ok."))) == {}
    assert stored(agent) == ["The staging host is called blue-7."]
    assert waiting(agent) == []


def test_a_session_of_codex_is_proposed_from_too(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "codex")
    file = tmp_path / "rollout-2026-03-02T09-00-00-3f2ad0c1-6d53-4f0e-9c1a-0d4b8f5e7a21.jsonl"
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": RULE}]}
    event = {"timestamp": "2026-03-02T09:00:00Z", "type": "response_item", "payload": said}
    file.write_text(json.dumps(event) + "\n", "utf-8")
    assert "1 proposal" in message(agent.send("stop", transcript_path=str(file)))


def test_the_page_about_agents_shows_how_proposals_are_decided(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "agents.md").read_text("utf-8")
    steps = re.split(r"^\$ ", page.split("```console\n")[2].split("```")[0], flags=re.MULTILINE)[1:]
    agent = Agent(tmp_path, environment={"FOURFOLD_EMBEDDER": "builtin", "TZ": "UTC"})
    said = ["fix the deploy", "<Done.", RULE, "<I will.", "Which queue do we take, Redis or PostgreSQL?"]
    said += ["<Nobody runs Redis here, so PostgreSQL.", "Then PostgreSQL.", "<Ok."]
    transcript(agent, *said).rename(tmp_path / "session.jsonl")
    for step in steps:
        command, output = step.split("\n", 1)
        if command.startswith("echo"):
            told = agent.send("stop", transcript_path=str(tmp_path / "session.jsonl"))
            assert told == json.loads(output)
        else:
            printed = agent.run(*command.split()[1:])
            assert CONFIDENCE.sub("", printed) == CONFIDENCE.sub("", output)

"""Hooks answer every event with valid JSON and exit code 0, whatever the state of the store."""

from __future__ import annotations

import json
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import apsw
import pytest
from hook_client import EVENTS, Agent, context, message

from fourfold import Memory, NewItem
from fourfold.cli.hooks.events import UnreadableEvent, read_event
from fourfold.cli.hooks.recall import QUERIES, QUERY_CHARACTERS, is_question, queries

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
        [sys.executable, "-c", code, "hook", "prompt"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.read()) == {}
        assert process.wait(100) == 0


CONTENTS = {
    "empty": b"",
    "cut": b"{",
    "list": b"[]",
    "null": b"null",
    "bytes": b"\xff\xfe\x00",
    "deep": b"[" * 200_000,
}


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
    root = Path(__file__).parent.parent.parent
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

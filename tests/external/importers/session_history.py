"""A history of 200 sessions of Claude Code: those of session-history.txt, and others about the same things."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

WRITTEN: Final = Path(__file__).parent / "fixtures" / "session-history.txt"
SESSIONS: Final = 200

QUESTIONS: Final = (
    ("Which payment provider does the shop use now?", "pay-2"),
    ("Why did we choose Mollie at first?", "pay-1"),
    ("What was wrong with the Adyen webhooks?", "pay-3"),
    ("Where does our CI run since we left GitHub?", "ci-2"),
    ("What did we decide about the database of Atlas?", "db-2"),
    ("Why was SQLite good enough for Atlas in the beginning?", "db-1"),
    ("On which port does staging listen?", "port-2"),
    ("How many times does Courier retry a delivery?", "retry-2"),
    ("Welche Farbe hat der Bestellknopf jetzt?", "theme-2"),
    ("Wie lange bewahren wir Fehlerprotokolle auf?", "log-2"),
    ("Which hut did we finally book for August?", "vac-2"),
    ("What is the queue of Courier now?", "queue-2"),
    ("Why did we not split Courier into microservices?", "arch-1"),
    ("Where is the password of the Fritzbox?", "router-1"),
    ("In welche Sprache haben wir den Kachel-Renderer übertragen?", "lang-1"),
    ("Can I deploy a hotfix on a Friday?", "deploy-2"),
    ("Wie wird die Mehrwertsteuer gerundet?", "price-1"),
    ("Who is allowed to merge into the stable branch?", "access-1"),
    ("Where are the backups of the Courier database kept?", "back-1"),
    ("What do we give Martha for her birthday?", "gift-1"),
    ("Welchen Reifendruck braucht der Skoda im Sommer?", "car-1"),
    ("What caused duplicate parcel notices?", "retry-2"),
    ("Which heat pump are we getting?", "heat-1"),
    ("Is the password reset link safe?", "sec-1"),
    ("What did we decide about payments in June 2025?", "pay-2"),
)
"""With the session that has the answer: of contradicting ones the one that is asked for."""

_THINGS: Final = {
    "shop": (
        "the Adyen client", "the Mollie refund job", "the checkout page", "the order button", "the price cache",
        "the password reset mail", "the GitHub workflow", "the Forgejo pipeline", "the invoice PDF", "den Warenkorb",
        "die Mehrwertsteuer", "den Bestellknopf",
    ),
    "atlas": (
        "the tile renderer", "the staging compose file", "the PostgreSQL schema", "the SQLite fixtures", "the importer",
        "the route planner", "the UUID migration", "the map legend", "die Koordinaten", "the release branch",
    ),
    "courier": (
        "the retry policy", "the outbox table", "the RabbitMQ relay", "the parcel notice", "the dead letter alert",
        "the backup script", "the delivery date", "die Fehlerprotokolle", "die Sicherungen", "the DKIM key",
    ),
    "home": (
        "the packing list for the hut", "the sourdough schedule", "the heating bill", "the router settings",
        "the piano lessons", "den Winterreifen", "the birthday card", "die Bergtour", "the letter to the doctor",
    ),
}  # fmt: skip
_SMALL: Final = (
    ("Rename the variables around {0}, they are confusing.", "Renamed; the tests for {0} and {1} pass."),
    (
        "Explain what {0} does.",
        "It reads its input, checks it, and hands it to {1}. The interesting part is the order.",
    ),
    ("Write a test for {0}.", "Added two: one for the normal case, one for an empty input. Both pass."),
    ("Is {0} still used?", "Yes, in two places, of which one is {1}."),
    ("Summarise the open points about {0}.", "Three are open: the naming, the documentation, and what {1} expects."),
    ("The linter complains about {0}.", "An unused import and a long line; both are fixed."),
    ("Fasse kurz zusammen, was heute mit {0} geschah.", "Es wurde aufgeräumt; {1} blieb, wie es war."),
    ("Warum ist {0} so langsam?", "Eine Schleife las jede Zeile zweimal. Jetzt ist es doppelt so schnell."),
    ("Prepare the release notes for {0}.", "Drafted: two fixes, one change, nothing breaks. {1} is not mentioned."),
    ("Can we delete the old comments in {0}?", "Deleted 40 lines of comments; {1} keeps its header."),
)  # fmt: skip


class Exchange(NamedTuple):
    question: str
    answer: str


class Recorded(NamedTuple):
    id: str
    day: datetime
    project: str
    exchanges: list[Exchange]


def write_history(folder: Path) -> None:
    """`folder`: as ~/.claude/projects."""
    random_ = random.Random(200)
    for session in _sessions(random_):
        project = folder / f"-home-ada-src-{session.project}"
        project.mkdir(parents=True, exist_ok=True)
        events = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in _events(session))
        (project / f"{session.id}.jsonl").write_text(events, "utf-8")


def _sessions(random_: random.Random) -> Iterator[Recorded]:
    """Something small comes before and after what was decided, as in real sessions."""
    written = list(_written())
    for session in written:
        before, after = (_small(random_, session.project, random_.randint(0, 2)) for _ in range(2))
        yield session._replace(exchanges=[*before, *session.exchanges, *after])
    for number in range(SESSIONS - len(written)):
        project = random_.choice(list(_THINGS))
        day = datetime(2024, 8, 1, 9, tzinfo=UTC) + timedelta(days=random_.randrange(510))
        yield Recorded(f"small-{number}", day, project, _small(random_, project, random_.randint(2, 6)))


def _small(random_: random.Random, project: str, count: int) -> list[Exchange]:
    said: list[Exchange] = []
    for question, answer in random_.sample(_SMALL, count):
        things = random_.sample(_THINGS[project], 2)
        said.append(Exchange(question.format(*things), answer.format(*things)))
    return said


def _written() -> Iterator[Recorded]:
    for block in WRITTEN.read_text("utf-8").split("# ")[1:]:
        head, *lines = block.strip().split("\n")
        id, day, project = head.split()
        texts = [line.removeprefix("> ").removeprefix("< ") for line in lines]
        exchanges = [Exchange(*pair) for pair in zip(texts[::2], texts[1::2], strict=True)]
        yield Recorded(id, datetime.fromisoformat(f"{day}T10:00:00+00:00"), project, exchanges)


def _events(session: Recorded) -> Iterator[dict[str, object]]:
    for number, (question, answer) in enumerate(session.exchanges):
        at = (session.day + timedelta(minutes=3 * number)).isoformat()
        common = {"cwd": f"/home/ada/src/{session.project}", "sessionId": session.id, "isSidechain": False}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "make test"}}
        output = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "all tests passed"}
        for kind, content in (
            ("user", question), ("assistant", [call]), ("user", [output]),
            ("assistant", [{"type": "text", "text": answer}]),
        ):  # fmt: skip
            yield {"type": kind, "timestamp": at, "message": {"role": kind, "content": content}, **common}

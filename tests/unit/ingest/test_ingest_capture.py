"""Capture: what is proposed of a session, what is not, and what is taken back."""

from pathlib import Path

import pytest

from fourfold.ingest.capture import candidates_of, judged, sentences
from fourfold.ingest.transcripts import Turn

pytestmark = pytest.mark.spec("D6")

SESSIONS = Path(__file__).parents[3] / "benchmarks" / "capture_sessions"


def session(*said: str) -> list[Turn]:
    """Turns of the user; those of the assistant begin with <."""
    return [
        Turn("assistant" if text.startswith("<") else "user", text.lstrip("<"), None, "", "", number, "")
        for number, text in enumerate(said)
    ]


def texts(*said: str) -> list[str]:
    return [each.text for each, _ in judged(candidates_of(session(*said)).candidates, None)]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("We decided to use Kestrel because it needs no server.", "decision"),
        ("Wir haben uns für Kestrel entschieden, weil es keinen Server braucht.", "decision"),
        ("I never want tabs in new code, only spaces.", "preference"),
        ("From now on deploy only from the release branch.", "preference"),
        ("Bitte antworte mir immer auf Deutsch.", "preference"),
        ("Bei uns heißen Zweige immer nach dem Ticket.", "preference"),
        ("No, we always have to round half to even.", "correction"),
        ("My daughter is allergic to all nuts.", "fact"),
        ("Remember that the race is on 14 June.", "request"),
        ("Merk dir, dass Maria dienstags fehlt.", "request"),
    ],
)
def test_what_is_worth_keeping_is_proposed_with_its_kind(said: str, kind: str) -> None:
    ((candidate, confidence),) = judged(candidates_of(session(said)).candidates, None)
    assert candidate.kind == kind
    assert 0.5 < confidence <= 1


@pytest.mark.parametrize(
    "said",
    [
        "Run the tests again and show me what fails.",
        "Should we always use spaces?",
        "What would happen if we only deploy on Mondays?",
        "Maybe we use Kafka for everything some day.",
        "If we ever have a thousand users we always need a cache.",
        "Wenn wir mal Zeit haben, nehmen wir immer die bessere Lösung.",
        "Vielleicht nehmen wir irgendwann nur noch die Bahn.",
        "haha yes, we always break production on Fridays",
        "Na toll, wir nehmen ja immer das Teuerste.",
        "> We decided to move everything to the cloud",
        "```\nWe always retry three times, then give up.\n```",
        "2026-03-02T08:14:11Z INFO we always retry three times",
        "ERROR we will never use this node again because it failed",
        "Here is the mail:\nWe decided to close the office on Friday.\nPlease always lock the doors.",
        'The poster says "we always keep our promises to everybody" in red.',
        "In the letter: “Wir haben entschieden, Ihren Antrag immer abzulehnen.”",
        "ok thanks, that looks great",
        "",
    ],
)
def test_what_is_not_meant_for_good_is_not_proposed(said: str) -> None:
    assert texts(said) == []


def test_a_decision_that_is_taken_back_is_not_proposed() -> None:
    said = ["Let's go with Redis because it is fast.", "<Adding Redis.", "Wait, ops has no Redis. Scrap that."]
    outcome = candidates_of(session(*said))
    assert outcome.candidates == []
    assert [each.text for each in outcome.retracted] == ["Let's go with Redis because it is fast."]
    assert outcome.latest == 2
    assert texts(*said, "<PostgreSQL then?", "We decided to use PostgreSQL for the queue.") == [
        "We decided to use PostgreSQL for the queue."
    ]


def test_a_choice_is_proposed_with_its_question() -> None:
    question = "Which payment provider do we take, Stripe, Mollie or Adyen?"
    assert texts(question, "<Mollie is the cheapest.", "Then Mollie. Start with their test account.") == [
        f"{question} Then Mollie."
    ]
    assert texts(question, "<Mollie is the cheapest.", "Thanks, Mollie looks nice.") == []
    assert texts(question, "<Mollie is the cheapest.", "Maybe Mollie.") == []
    assert texts(question, "<Mollie is the cheapest.", "Then Mollie. Or no, wait, scrap that.") == []


def test_of_a_long_paste_only_the_edges_are_read() -> None:
    log = "\n".join(f"we always store row {n} in the table" for n in range(100))
    assert next(sentences(f"look at this\n{log}\nwhy is it slow")) == "look at this"
    assert len([*sentences(f"look at this\n{log}\nwhy is it slow")]) < 10


def test_the_assistants_words_are_not_proposed() -> None:
    assert texts("<We decided to always use spaces because tabs are wide.") == []


def test_any_text_is_read_without_an_error() -> None:
    for piece in ("?", "or x?", "Which?\n```\nx\n```", ":\n\n:", '"' * 50, "> a\n" * 50, "a " * 20_000, "\n" * 20_000):
        candidates_of(session(piece, f"<{piece}", "then x", piece * 3))


@pytest.mark.parametrize("half", ["tuned", "held_out"])
def test_no_session_of_the_benchmark_has_more_than_ten_proposals(half: str) -> None:
    files = sorted((SESSIONS / half).glob("*.txt"))
    assert len(files) == 10
    for file in files:
        said = [part.lstrip("U> ") for part in file.read_text("utf-8").split("\n") if part.startswith("U> ")]
        assert len(texts(*said)) <= 10


def test_of_a_long_session_the_last_thousand_prompts_are_read() -> None:
    rule = "From now on deploy only from the release branch."
    assert texts(rule, *["run it again"] * 1000) == []
    assert texts(*["run it again"] * 1000, rule) == [rule]


def test_prompts_of_many_spaces_take_linear_time() -> None:
    pasted = Turn("user", f"a{' ' * 19_990}b", None, "", "", 0, "")
    said = candidates_of([*[pasted] * 1000, pasted._replace(text="From now on deploy only from the release branch.")])
    assert len(said.candidates) == 1

"""Questions for stored relations, and questions that only name what has relations."""

import csv
import math
from pathlib import Path

import pytest

from fourfold.memory import Memory
from fourfold.model import NewItem

pytestmark = pytest.mark.spec("S4.3")

PRESETS = ["auto", "insights"]
TITLED = {
    "Heron": "The billing service, in production since 2024.",
    "Gulls": "The alerting service; it pages whoever is on call.",
    "Stork": "A queue in three zones.",
    "Emil": "Comes from Bergen and likes chess.",
    "Ada": "Joined in 2019 and sits on the second floor.",
    "Oslo": "A city on a fjord.",
}
FACTS = [
    "Heron charges cards through Tidepay, its payment provider.",
    "Heron listens on port 8080.",
    "Emil plays chess.",
]
EDGES = [
    ("Emil", "maintains", "Heron"),
    ("Gulls", "calls", "Heron"),
    ("Heron", "built-by", "Ada"),
    ("Emil", "reports-to", "Ada"),
    ("Ada", "lives-in", "Oslo"),
    ("Gulls", "depends-on", "Stork"),
]
QUESTIONS = Path(__file__).parents[1] / "ranking" / "routing_questions.tsv"


@pytest.fixture
def team(memory: Memory) -> Memory:
    notes = [NewItem(text, title=title) for title, text in TITLED.items()]
    memory.add_many([*notes, *map(NewItem, FACTS)], wait=True)
    memory.add_edges([(*edge, 1.0) for edge in EDGES])
    return memory


def first(memory: Memory, question: str, preset: str):
    response = memory.search(question, preset=preset, explain=True)
    for result in response.results:
        assert math.fsum(line.value for line in result.contributions) == result.score
    return response.results[0].item


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who maintains Heron?", "Emil"),
        ("Wer betreut Heron?", "Emil"),
        ("What does Emil maintain?", "Heron"),
        ("Who calls Heron?", "Gulls"),
        ("Wer hat Heron gebaut?", "Ada"),
        ("Where does the person live who built Heron?", "Oslo"),
        ("Who does the maintainer of Heron report to?", "Ada"),
    ],
)
def test_a_question_for_a_relation_is_answered_by_its_other_end(team: Memory, question: str, answer: str, preset: str):
    assert first(team, question, preset).title == answer


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "question", ["Which payment provider charges the cards for Heron?", "Which port does Heron listen on?"]
)
def test_a_link_does_not_push_its_other_end_above_the_answer(memory: Memory, question: str, preset: str):
    memory.add_many([NewItem(text, title=title) for title, text in TITLED.items()])
    memory.add_many(list(map(NewItem, FACTS)), wait=True)
    before = first(memory, question, preset)
    memory.add_edge("Gulls", "calls", "Heron")
    assert first(memory, question, preset) == before


def test_routing_recognises_questions_for_relations_and_hardly_any_others(team: Memory):
    with QUESTIONS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    found = {text: team.search(text, preset="insights").plan.query_type for _, text in rows}
    wanted = {text: kind for kind, text in rows}
    missed = [text for text, kind in wanted.items() if kind == "relational" and found[text] != kind]
    alarms = [text for text, kind in wanted.items() if kind == "standard" and found[text] != kind]
    assert (len(wanted), len(missed) <= 2, len(alarms) <= 1) == (63, True, True), (missed, alarms)

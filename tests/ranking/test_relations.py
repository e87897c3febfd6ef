"""Relations that questions ask for, and what they add to scores."""

import math

import pytest

from fourfold.ranking.fusion import ANSWER_SHARE, RELATION, held_back, rrf, weighted, with_answers
from fourfold.ranking.questions import ON_THE_WAY, OTHER_WAY, answering_nodes
from fourfold.retrieval import Hit, Relation

pytestmark = pytest.mark.spec("S4.3")

NODES = {name: number for number, name in enumerate(["heron", "emil", "ada", "gulls", "oslo", "stork"], 1)}
EDGES = [
    ("emil", "maintains", "heron"),
    ("gulls", "calls", "heron"),
    ("heron", "built-by", "ada"),
    ("emil", "reports to", "ada"),
    ("stork", "reports to", "emil"),
    ("ada", "lives in", "oslo"),
    ("gulls", "hängt-ab-von", "stork"),
    ("stork", "betreut von", "ada"),
]


def relations(nodes):
    edges = [(NODES[source], relation, NODES[target]) for source, relation, target in EDGES]
    forward = [Relation(*edge, 1.0, True) for edge in edges]
    back = [Relation(edge.other, edge.relation, edge.node, 1.0, False) for edge in forward]
    return [edge for edge in (*forward, *back) if edge.node in nodes]


def asked(question):
    named = {name: [number] for name, number in NODES.items() if name in question.lower()}
    found = answering_nodes(question, named, relations)
    return {name: found[number] for name, number in NODES.items() if number in found}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who maintains Heron?", "emil"),
        ("maintainer of Heron", "emil"),
        ("What does Emil maintain?", "heron"),
        ("Wer betreut Heron?", "emil"),
        ("Who takes care of Heron?", "emil"),
        ("Who built Heron?", "ada"),
        ("What was built by Ada?", "heron"),
        ("Wer hat Heron gebaut?", "ada"),
        ("Who calls Heron?", "gulls"),
        ("Who reports to Emil?", "stork"),
        ("Who does Emil report to?", "ada"),
        ("An wen berichtet Emil?", "ada"),
        ("Where does Ada live?", "oslo"),
        ("Wo wohnt Ada?", "oslo"),
        ("Wovon hängt Gulls ab?", "stork"),
        ("Was hängt von Stork ab?", "gulls"),
        ("Where does the person live who built Heron?", "oslo"),
        ("Who does the maintainer of Heron report to?", "ada"),
        ("Wer betreut das, wovon Gulls abhängt?", "ada"),
    ],
)
def test_the_other_end_of_the_relation_answers(question, answer):
    found = asked(question)
    assert max(found, key=found.__getitem__) == answer
    assert all(share < found[answer] for name, share in found.items() if name != answer)


def test_other_directions_and_first_steps_count_less():
    found = asked("Who reports to Emil?")
    assert found == pytest.approx({"stork": 1.0, "ada": OTHER_WAY})
    assert asked("Where does the person live who built Heron?") == pytest.approx({"ada": ON_THE_WAY, "oslo": 1.0})


@pytest.mark.parametrize(
    "question",
    [
        "Which payment provider does Heron use?",
        "How do I call Heron?",
        "Did Emil report anything about Heron?",
        "When was Heron built?",
        "Who maintains the server?",
        "Does Emil maintain Heron?",
        "What did the calls of last Monday say about costs and dates of Heron?",
        "",
    ],
)
def test_other_questions_ask_for_no_relation(question):
    assert asked(question) == {}


LISTS = {
    "semantic": [Hit(1, 0.9), Hit(2, 0.5), Hit(3, 0.4)],
    "keyword": [Hit(1, 7.0), Hit(3, 2.0), Hit(2, 1.0)],
    "graph": [Hit(2, 1.0), Hit(3, 0.9), Hit(4, 0.8)],
}
WEIGHTS = {"semantic": 0.3, "keyword": 0.2, "graph": 0.5}


def exact(fusion):
    return all(
        math.fsum(line.value for line in fusion.contributions(id)) == score for id, score in fusion.scores.items()
    )


@pytest.mark.parametrize("fuse", [rrf, weighted])
def test_what_is_asked_for_comes_first_by_a_line_of_its_own(fuse):
    plain = fuse(LISTS, WEIGHTS)
    found = with_answers(plain, {4: 1.0, 3: 0.1})
    assert found.ids[0] == 4
    line = found.contributions(4)[-1]
    assert (line.source, line.rank, line.raw, line.scaled) == (RELATION, 1, 1.0, pytest.approx(1.0))
    assert line.value == pytest.approx(ANSWER_SHARE * plain.hits.scores[0])
    assert exact(found)
    assert with_answers(plain, {}) is plain


@pytest.mark.parametrize("fuse", [rrf, weighted])
def test_links_lift_no_item_above_the_best_by_text(fuse):
    plain = fuse(LISTS, WEIGHTS)
    found = held_back(plain, {2, 3, 4})
    assert found.ids[0] == 1
    assert exact(found)
    assert [id for id in found.ids if id != 1] == [id for id in plain.ids if id != 1]
    assert held_back(plain, set()) is plain
    assert held_back(plain, {1}) is plain


def test_without_text_links_are_not_held_back():
    plain = weighted({"graph": LISTS["graph"]}, {"graph": 1.0})
    assert held_back(plain, {2, 3, 4}) is plain

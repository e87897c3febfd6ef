"""Evaluation of an existing store, and questions that are known to fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fourfold import Memory, NewItem, Settings
from fourfold.errors import InvalidQuery
from fourfold.evaluation.bench import LiveBench, Variant, opened_export
from fourfold.evaluation.collection import read_questions
from fourfold.evaluation.metrics import load_scores, measure, save, summary

pytestmark = pytest.mark.spec("S5.7")

QUESTIONS = """\
question\titems\tcategory\tremark
heron river\tkey:heron\tbirds
otter\t2, key:heron\tfur
otter\tkey:mole
tunnel\tkey:mole\tfur\tKnown failure
burrow\tkey:mole\t\tknown failure
xylophone
"""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        memory.add_many(
            [
                NewItem("A heron stands in the river", key="heron"),
                NewItem("An otter swims", key="otter"),
                NewItem("A mole digs a burrow", key="mole"),
            ]
        )
        yield memory


def written(folder: Path, text: str) -> Path:
    file = folder / "questions.tsv"
    file.write_text(text, "utf-8")
    return file


def live(memory: Memory, file: Path) -> LiveBench:
    return LiveBench(memory, read_questions(memory, file, "mine"), None)


def test_questions_name_items_by_id_or_key(memory: Memory, tmp_path: Path) -> None:
    bench = live(memory, written(tmp_path, QUESTIONS))
    asked = {question.text: question for question in bench.collection.questions}
    assert [*asked] == ["heron river", "otter", "tunnel", "burrow", "xylophone"]
    assert bench.collection.judgements[asked["otter"].id] == {"1": 1, "2": 1, "3": 1}
    assert (asked["otter"].category, asked["burrow"].category) == ("fur", None)
    assert [text for text, question in asked.items() if question.unanswerable] == ["xylophone"]


def test_known_failures_are_reported_separately(memory: Memory, tmp_path: Path) -> None:
    bench = live(memory, written(tmp_path, QUESTIONS))
    run = measure(bench, Variant("auto"))
    found = summary(run)
    assert (found["queries"], found["by_category"].keys()) == (2, {"birds", "fur"})
    assert found["hit@10"] == 1.0
    known = found["known_failures"]
    assert (known["queries"], known["hit@10"], known["answered"]) == (2, 0.5, ["burrow"])
    save(run, tmp_path / "run.jsonl")
    assert load_scores(tmp_path / "run.jsonl").keys() == run.scores.keys()


def test_an_export_is_evaluated_in_a_temporary_store(memory: Memory, tmp_path: Path) -> None:
    memory.export(tmp_path / "store.jsonl")
    questions = written(tmp_path, QUESTIONS)
    with opened_export(tmp_path / "store.jsonl", Settings(embedder="none")) as copy:
        exported = measure(live(copy, questions), Variant("auto"))
    original = measure(live(memory, questions), Variant("auto"))
    assert exported.scores == original.scores


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("heron\t99\n", "questions.tsv:1: no item 99"),
        ("heron\tkey:crow\n", "questions.tsv:1: no item key:crow"),
        ("question\titems\nheron\t1\tbirds\toften\n", "questions.tsv:2: the remark is 'often'"),
        ("a\t1\tb\tknown failure\tc\n", "questions.tsv:1: 5 columns"),
        ("\t1\n", "questions.tsv:1: the query is empty"),
        ("heron\n", "names an item"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(memory: Memory, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        read_questions(memory, written(tmp_path, text), "mine")


def test_at_least_one_question_must_count(memory: Memory, tmp_path: Path) -> None:
    bench = live(memory, written(tmp_path, "tunnel\t3\t\tknown failure\n"))
    with pytest.raises(InvalidQuery, match="every answerable question is marked as a known failure"):
        measure(bench, Variant("auto"))

"""Collections and stores with questions: files, scopes, conversations, the cache of vectors."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fourfold import Memory, NewItem, Settings
from fourfold.errors import InvalidItem, InvalidQuery, NotFound, RequestError, StoreUnavailable
from fourfold.evaluation.bench import FILE, CachedEmbedder, LiveBench, Variant, open_bench
from fourfold.evaluation.collection import Collection, read_collection, read_questions
from fourfold.evaluation.metrics import load_scores, measure, save, summary

pytestmark = pytest.mark.spec("S5.7")

GARDEN = Path(__file__).with_name("garden")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GARDEN, tmp_path / "garden"))


def read_with(folder: Path, name: str, *lines: Any) -> Collection:
    """The collection with these lines appended to one file."""
    with (folder / name).open("a", encoding="utf-8") as file:
        file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    return read_collection(folder)


def test_a_collection_is_read_whole() -> None:
    garden = read_collection(GARDEN)
    assert (garden.name, len(garden.items), len(garden.questions)) == ("garden", 20, 18)
    assert garden.judgements["q05"] == {"bees": 2, "firstaid": 1}
    assert garden.judgements["q02"] == {"mower": 1}, "a score of 0 is not relevant"
    assert [question.id for question in garden.questions if question.unanswerable] == ["u01", "u02"]
    assert garden.items[0].tags == ("soil", "east")
    assert ("soil", "compost") in garden.links
    assert garden.edges[0] == ("Mrs Quint", "lends", "The long ladder", 1.0)


def test_a_plain_collection_has_titles_and_texts_only() -> None:
    garden = read_collection(GARDEN, plain=True)
    assert {item.tags for item in garden.items} == {()}
    assert (garden.links, garden.edges) == ((), ())
    assert len(garden.items) == 20


def test_tags_are_lists_or_words_between_commas(folder: Path) -> None:
    row = {"_id": "n", "text": "new", "tags": ["own"], "metadata": {"tags": ["a"], "keywords": "b c, d,, A"}}
    assert read_with(folder, "corpus.jsonl", row).items[-1].tags == ("own", "a", "b c", "d")


def test_links_to_unknown_items_are_left_out(folder: Path) -> None:
    row = {"_id": "n", "text": "new", "metadata": {"links": ["soil", "n", "unknown", "void", "soil"]}}
    found = read_with(folder, "corpus.jsonl", row, {"_id": "void", "title": "", "text": " "})
    assert [link for link in found.links if link[0] == "n"] == [("n", "soil")]
    assert found.empty == 1
    assert "void" not in {item.key for item in found.items}


def test_questions_without_a_relevant_item_are_not_asked(folder: Path) -> None:
    found = read_with(folder, "queries.jsonl", {"_id": "q99", "text": "nobody has judged this"})
    assert "q99" not in {question.id for question in found.questions}


def test_numbers_may_be_ids_and_a_header_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": 7, "text": "seven"}\n', "utf-8")
    (tmp_path / "queries.jsonl").write_text('{"_id": 1, "text": "which?"}\n', "utf-8")
    (tmp_path / "qrels.tsv").write_text("1\t7\t1\n", "utf-8")
    assert read_collection(tmp_path).judgements == {"1": {"7": 1}}


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("corpus.jsonl", "{", "corpus.jsonl:21: not JSON"),
        ("corpus.jsonl", "[]", "corpus.jsonl:21: not an object"),
        ("corpus.jsonl", {"text": "x"}, "corpus.jsonl:21: _id is missing"),
        ("corpus.jsonl", {"_id": "soil", "text": "x"}, "corpus.jsonl:21: the _id 'soil' occurs twice"),
        ("corpus.jsonl", {"_id": "x", "text": 5}, "corpus.jsonl:21: text is not a string"),
        (
            "corpus.jsonl",
            {"_id": "x", "text": "x", "metadata": {"tags": 5}},
            "corpus.jsonl:21: metadata.tags is not a list",
        ),
        ("queries.jsonl", {"_id": "x", "text": "  "}, "queries.jsonl:19: the query is empty"),
        ("queries.jsonl", {"_id": "q01", "text": "x"}, "queries.jsonl:19: the _id 'q01' occurs twice"),
        ("queries.jsonl", {"_id": "x", "text": "x", "metadata": 5}, "queries.jsonl:19: metadata is not an object"),
        (
            "queries.jsonl",
            {"_id": "x", "text": "x", "metadata": {"session_no": "3"}},
            "queries.jsonl:19: metadata.session_no is '3'",
        ),
        ("qrels.tsv", "q01 soil 1", "qrels.tsv:23: 1 columns"),
        ("qrels.tsv", "q01\tsoil\tyes", "qrels.tsv:23: the score 'yes'"),
        ("qrels.tsv", "q77\tsoil\t1", "qrels.tsv:23: unknown question 'q77'"),
        ("qrels.tsv", "q01\tsand\t1", "qrels.tsv:23: unknown document 'sand'"),
        ("edges.jsonl", {"from": "a", "to": "b"}, "edges.jsonl:4: relation is missing"),
        ("edges.jsonl", {"from": "a", "relation": "r", "to": "b", "weight": 2}, "edges.jsonl:4: the weight"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(folder: Path, file: str, line: Any, said: str) -> None:
    with pytest.raises(RequestError) as error:
        read_with(folder, file, line)
    assert said in error.value.message
    assert error.value.remedy


@pytest.mark.parametrize("file", ["corpus.jsonl", "queries.jsonl", "qrels.tsv"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(InvalidItem, match=file):
        read_collection(folder)


def test_a_missing_folder_and_nothing_judged(folder: Path) -> None:
    with pytest.raises(NotFound, match="no folder"):
        read_collection(folder / "none")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq01\tsoil\t0\n", "utf-8")
    with pytest.raises(InvalidQuery, match="no question"):
        read_collection(folder)


# ---------------------------------------------------------------- what a question can see


KEYWORD = Variant("keyword", {"only": ("keyword",)})


def write(folder: Path, documents: list[dict[str, Any]], queries: list[dict[str, Any]], qrels: list[str]) -> Path:
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels]), "utf-8")
    return folder


def keys(folder: Path, variant: Variant, *, plain: bool = False) -> dict[str, list[str]]:
    collection = read_collection(folder, plain=plain)
    with open_bench(collection, Settings(embedder="none"), folder / "cache") as bench:
        bench.fill()
        return {answer.question.id: list(answer.keys) for answer in bench.run(variant)}


def test_a_scope_sees_its_own_items_of_earlier_sessions(tmp_path: Path) -> None:
    documents = [
        {"_id": f"{who}{number}", "text": f"note {number} on tea", "metadata": {"scope": who, "session_no": number}}
        for who in ("ann", "bob")
        for number in (1, 2, 10)
    ]
    queries = [
        {"_id": "q1", "text": "tea", "metadata": {"scope": "ann", "session_no": 10}},
        {"_id": "q2", "text": "tea", "metadata": {"scope": "bob"}},
        {"_id": "q3", "text": "tea", "metadata": {"scope": "nobody"}},
    ]
    found = keys(write(tmp_path, documents, queries, ["q1\tann1\t1", "q2\tbob2\t1", "q3\tbob2\t1"]), KEYWORD)
    assert set(found["q1"]) == {"ann1", "ann2"}, "sessions compare as numbers, and a session is not earlier than itself"
    assert set(found["q2"]) == {"bob1", "bob2", "bob10"}
    assert found["q3"] == []


def test_recency_does_not_prefer_the_end_of_a_file_without_times(tmp_path: Path) -> None:
    documents = [{"_id": str(number), "text": f"filler {number}"} for number in range(1100)]
    documents[0]["text"] = documents[-1]["text"] = "green tea"
    folder = write(tmp_path, documents, [{"_id": "q", "text": "green tea"}], ["q\t0\t1"])
    memories = Variant("memories", {"preset": "memories"})
    assert keys(folder, memories)["q"][:2] == keys(folder, Variant("auto"))["q"][:2] == ["0", "1099"]


def test_without_scoped_questions_all_items_are_together(tmp_path: Path) -> None:
    documents = [{"_id": who, "text": "tea", "metadata": {"scope": who}} for who in ("ann", "bob")]
    found = keys(write(tmp_path, documents, [{"_id": "q", "text": "tea"}], ["q\tann\t1"]), KEYWORD)
    assert set(found["q"]) == {"ann", "bob"}


DOCUMENTS = [
    {
        "_id": "1",
        "title": "Alpha",
        "text": "the first",
        "metadata": {"links": ["2", "3"], "keywords": "greek, letters"},
    },
    {"_id": "2", "title": "Same", "text": "the second"},
    {"_id": "3", "title": "Same", "text": "the third"},
    {"_id": "4", "text": "another without a title", "metadata": {"links": ["1"], "tags": ["letters"]}},
]
QUERIES = [{"_id": "g", "text": "Alpha"}, {"_id": "t", "text": "greek letters"}, {"_id": "d", "text": "document 2"}]


def test_links_lead_from_item_to_item_whatever_their_titles(tmp_path: Path) -> None:
    folder = write(tmp_path, DOCUMENTS, QUERIES, ["g\t1\t1", "t\t1\t1", "d\t2\t1"])
    graph = Variant("graph", {"only": ("graph",)})
    found = keys(folder, graph)
    assert found["g"][0] == "1"
    assert set(found["g"]) == {"1", "2", "3", "4"}, "both items with the same title, and the untitled one"
    assert found["d"] == [], "generated names do not match by chance"
    assert set(keys(folder, graph, plain=True)["g"]) == {"1"}


def test_keywords_and_tags_are_tags(tmp_path: Path) -> None:
    folder = write(tmp_path, DOCUMENTS, QUERIES, ["g\t1\t1", "t\t1\t1", "d\t2\t1"])
    tags = Variant("tags", {"only": ("tags",)})
    assert keys(folder, tags)["t"] == ["1", "4"]
    assert keys(folder, tags, plain=True)["t"] == []


# ---------------------------------------------------------------- existing stores


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
def test_wrong_questions_are_named_with_their_place(memory: Memory, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        read_questions(memory, written(tmp_path, text), "mine")


def test_at_least_one_question_must_count(memory: Memory, tmp_path: Path) -> None:
    bench = live(memory, written(tmp_path, "tunnel\t3\t\tknown failure\n"))
    with pytest.raises(InvalidQuery, match="every answerable question is marked as a known failure"):
        measure(bench, Variant("auto"))


# ---------------------------------------------------------------- conversations of benchmarks/conversations.py


SCRIPT = Path(__file__).parents[3] / "benchmarks" / "conversations.py"
LONG_MEM_EVAL = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which instrument did I start to learn?",
        "answer": "The cello",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["s1", "s2", "s3"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 12:00", "2023/05/22 (Mon) 08:30"],
        "haystack_sessions": [
            [{"role": "user", "content": "What is a good soup?"}, {"role": "assistant", "content": "Try lentils."}],
            [
                {"role": "user", "content": "I started to learn the cello last week.", "has_answer": True},
                {"role": "assistant", "content": "That is a wonderful instrument.", "has_answer": False},
            ],
            [{"role": "user", "content": "Plan a trip to Graz."}, {"role": "assistant", "content": ""}],
        ],
        "answer_session_ids": ["s2"],
    },
    {
        "question_id": "q2_abs",
        "question_type": "multi-session",
        "question": "How much did the violin cost?",
        "answer": "You did not mention a violin.",
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_session_ids": ["s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "What is a good soup?"}]],
        "answer_session_ids": ["s1"],
    },
]
LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ada",
            "speaker_b": "Ben",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [
                {"speaker": "Ada", "dia_id": "D1:1", "text": "I adopted a parrot called Kiwi!"},
                {"speaker": "Ben", "dia_id": "D1:2", "text": "Look at this.", "blip_caption": "a red bicycle"},
            ],
            "session_2_date_time": "10:04 am on 19 June, 2023",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "I sold my bicycle and bought a boat."}],
            "session_3_date_time": "later",
        },
        "qa": [
            {"question": "What is the name of Ada's parrot?", "answer": "Kiwi", "evidence": ["D1:1"], "category": 4},
            {"question": "Which vehicles did Ben own?", "answer": "a boat", "evidence": ["D1:2; D2:01"], "category": 1},
            {"question": "Why did Ada sell her car?", "adversarial_answer": "x", "evidence": ["D1:1"], "category": 5},
            {"question": "Where was Ben born?", "answer": "unknown", "evidence": ["D9:9"], "category": 3},
        ],
    }
]


def read_conversations(folder: Path, content: Any, unit: str) -> Collection:
    """The collection that the script writes and `fourfold eval` reads."""
    (folder / "file.json").write_text(json.dumps(content), encoding="utf-8")
    command = [sys.executable, str(SCRIPT), str(folder / "file.json"), str(folder / unit), "--per", unit]
    subprocess.run(command, check=True)
    return read_collection(folder / unit)


def test_long_mem_eval_by_session(tmp_path: Path) -> None:
    found = read_conversations(tmp_path, LONG_MEM_EVAL, "session")
    assert [item.key for item in found.items] == ["q1/0/s1", "q1/1/s2", "q1/2/s3", "q2_abs/0/s1"]
    assert found.items[1].text == (
        "user: I started to learn the cello last week.\nassistant: That is a wonderful instrument."
    )
    assert found.items[0].created_at == datetime(2023, 5, 20, 2, 21, tzinfo=UTC)
    assert found.judgements == {"q1": {"q1/1/s2": 1}}
    first, second = found.questions
    assert (first.category, first.scope, first.unanswerable) == ("single-session-user", "q1", False)
    assert second.unanswerable


def test_long_mem_eval_by_turn(tmp_path: Path) -> None:
    found = read_conversations(tmp_path, LONG_MEM_EVAL, "turn")
    assert len(found.items) == 7
    assert found.judgements == {"q1": {"q1/1/s2#0": 1}}


def test_locomo_by_turn_and_by_session(tmp_path: Path) -> None:
    turns, sessions = (read_conversations(tmp_path, LOCOMO, unit) for unit in ("turn", "session"))
    assert [item.key for item in turns.items] == ["conv-1/D1:1", "conv-1/D1:2", "conv-1/D2:1"]
    assert turns.items[1].text == "Ben: Look at this. [image: a red bicycle]"
    assert turns.judgements == {"conv-1/1": {"conv-1/D1:1": 1}, "conv-1/2": {"conv-1/D1:2": 1, "conv-1/D2:1": 1}}
    assert [item.key for item in sessions.items] == ["conv-1/session_1", "conv-1/session_2"]
    assert sessions.items[1].created_at == datetime(2023, 6, 19, 10, 4, tzinfo=UTC)
    assert sessions.judgements["conv-1/2"] == {"conv-1/session_1": 1, "conv-1/session_2": 1}
    assert [(each.id, each.category, each.unanswerable) for each in sessions.questions] == [
        ("conv-1/1", "category 4", False),
        ("conv-1/2", "category 1", False),
        ("conv-1/3", "category 5", True),
    ]


@pytest.mark.parametrize("content", [LONG_MEM_EVAL, LOCOMO])
def test_a_question_sees_its_own_history_only(tmp_path: Path, content: Any) -> None:
    found = read_conversations(tmp_path, content, "turn")
    with open_bench(found, Settings(embedder="none")) as bench:
        bench.fill()
        run = measure(bench, Variant("auto"))
    scopes = {item.key: item.metadata["scope"] for item in found.items}
    assert all(scopes[key] == answer.question.scope for answer in run.answers for key in answer.keys)
    assert run.mean("hit@5") == 1.0
    assert run.mean("all_relevant@5") == 1.0


# ---------------------------------------------------------------- the cache of vectors


class Counting:
    """An embedder that records the texts that it was given."""

    dimension = 3

    def __init__(self, fingerprint: str = "counting") -> None:
        self.fingerprint = fingerprint
        self.asked: list[str] = []

    def load(self) -> None: ...

    def truncates(self, text: str) -> bool:
        return False

    def close(self) -> None: ...

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return np.array([[len(text), 1.0, 0.5] for text in texts], np.float32)


def test_a_text_is_embedded_once_by_each_model(tmp_path: Path) -> None:
    first, second, other = Counting(), Counting(), Counting("other")
    with_cache = CachedEmbedder(first, tmp_path)
    made = with_cache.embed(["a", "bb", "a"])
    assert first.asked == ["a", "bb"]
    with_cache.close()
    again = CachedEmbedder(second, tmp_path)
    assert np.array_equal(again.embed(["bb", "ccc", "a"])[[2, 0, 2]], made)
    assert second.asked == ["ccc"]
    again.close()
    CachedEmbedder(other, tmp_path).embed(["a"])
    assert other.asked == ["a"]


def test_two_caches_share_a_file(tmp_path: Path) -> None:
    model = Counting()
    one, two = CachedEmbedder(model, tmp_path), CachedEmbedder(model, tmp_path)
    one.embed(["a"])
    two.embed(["a", "b"])
    one.embed(["a", "b"])
    assert model.asked == ["a", "b"]


def test_a_damaged_cache_is_replaced(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 1000)
    model = Counting()
    assert CachedEmbedder(model, tmp_path).embed(["a"]).shape == (1, 3)
    assert model.asked == ["a"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="file"):
        CachedEmbedder(Counting(), tmp_path / "file" / "cache")

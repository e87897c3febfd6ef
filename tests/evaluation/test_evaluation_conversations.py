"""Collections that benchmarks/conversations.py makes of LongMemEval and LoCoMo, with texts of our own."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fourfold.config import Settings
from fourfold.evaluation.bench import Variant, open_bench
from fourfold.evaluation.collection import Collection, read_collection
from fourfold.evaluation.metrics import measure

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "conversations.py"
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
    assert turns.judgements == {
        "conv-1/1": {"conv-1/D1:1": 1},
        "conv-1/2": {"conv-1/D1:2": 1, "conv-1/D2:1": 1},
    }
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

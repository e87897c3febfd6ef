"""Write the published files of LongMemEval and LoCoMo as a collection: long conversations, and questions about them.

    python benchmarks/conversations.py longmemeval_s.json sessions && fourfold eval sessions
    python benchmarks/conversations.py locomo10.json turns --per turn && fourfold eval turns

    LongMemEval   [{"question_id", "question_type", "question", "haystack_session_ids", "haystack_dates",
                  "haystack_sessions": [[{"role", "content", "has_answer"?}]], "answer_session_ids"}]
    LoCoMo        [{"sample_id", "conversation": {"session_1": [{"speaker", "dia_id", "text", "blip_caption"?}],
                  "session_1_date_time", ...}, "qa": [{"question", "evidence": ["D1:3"], "category"}]}]

An item is a session or a turn. The history of a question (LongMemEval) or a conversation (LoCoMo) is a scope: a
question sees nothing else. Questions without an answer in it (ids that end with `_abs`; category 5) are unanswerable.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ABSTENTION = "_abs"
ADVERSARIAL = 5
EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
SESSION = re.compile(r"session_(\d+)")
DATES = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d", "%I:%M %p on %d %B, %Y")

Row = Mapping[str, Any]


@dataclass
class Draft:
    """The lines of a collection as it grows."""

    per_turn: bool
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    questions: list[dict[str, Any]] = field(default_factory=list)
    judgements: list[tuple[str, str]] = field(default_factory=list)

    def add(self, key: str, text: str, scope: str, date: datetime | None) -> None:
        if text.strip():
            created = {} if date is None else {"created_at": date.isoformat()}
            self.items[key] = {"_id": key, "text": text, "metadata": {"scope": scope}, **created}

    def ask(self, id: str, text: str, scope: str, category: str | None, answers: Iterable[str] | None) -> None:
        """`answers`: keys of items, of which those without a text are left out; None: the question has no answer."""
        about = {"scope": scope, "category": category, "unanswerable": answers is None}
        self.questions.append({"_id": id, "text": text, "metadata": about})
        self.judgements += [(id, key) for key in dict.fromkeys(answers or ()) if key in self.items]


def main() -> None:
    """Read a file, write a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--per", choices=("session", "turn"), default="session", help="what an item is")
    options = parser.parse_args()
    write(read(options.file, per_turn=options.per == "turn"), options.folder)


def read(file: Path, *, per_turn: bool) -> Draft:
    draft = Draft(per_turn)
    for entry in json.loads(file.read_text(encoding="utf-8-sig")):
        (long_mem_eval if "haystack_sessions" in entry else locomo)(draft, entry)
    return draft


def write(draft: Draft, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", draft.items.values()), ("queries", draft.questions)):
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    judged = "".join(f"{question}\t{key}\t1\n" for question, key in draft.judgements)
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")


# ---------------------------------------------------------------- LongMemEval


def long_mem_eval(draft: Draft, entry: Row) -> None:
    scope = str(entry["question_id"])
    sessions = zip(entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"], strict=True)
    answers: list[str] = []
    wanted = {str(name) for name in entry["answer_session_ids"]}
    for place, (name, date, turns) in enumerate(sessions):
        session = f"{scope}/{place}/{name}"
        lines = [f"{turn['role']}: {turn['content']}" for turn in turns]
        if not draft.per_turn:
            draft.add(session, "\n".join(lines), scope, parsed(date))
            answers += [session] if str(name) in wanted else []
            continue
        for number, (turn, line) in enumerate(zip(turns, lines, strict=True)):
            draft.add(f"{session}#{number}", line, scope, parsed(date))
            answers += [f"{session}#{number}"] if turn.get("has_answer") is True else []
    abstains = scope.endswith(ABSTENTION)
    kind = str(entry["question_type"])
    draft.ask(scope, str(entry["question"]), scope, kind, None if abstains else answers)


# ---------------------------------------------------------------- LoCoMo


def locomo(draft: Draft, entry: Row) -> None:
    scope, conversation = str(entry["sample_id"]), entry["conversation"]
    turns: dict[tuple[int, int], str] = {}
    for name, session in conversation.items():
        if (numbered := SESSION.fullmatch(name)) is None:
            continue
        date = parsed(conversation.get(f"{name}_date_time", ""))
        if not draft.per_turn:
            draft.add(f"{scope}/{name}", "\n".join(map(line_of, session)), scope, date)
        for turn in session:
            place = place_of(str(turn["dia_id"])) or (int(numbered[1]), len(turns))
            turns[place] = f"{scope}/{name}" if not draft.per_turn else f"{scope}/{turn['dia_id']}"
            if draft.per_turn:
                draft.add(turns[place], line_of(turn), scope, date)
    for number, asked in enumerate(entry["qa"], 1):
        category = asked.get("category")
        evidence = [turns[place] for place in places(asked.get("evidence") or []) if place in turns]
        kind = None if category is None else f"category {category}"
        answers = None if category == ADVERSARIAL else evidence
        draft.ask(f"{scope}/{number}", str(asked["question"]), scope, kind, answers)


def line_of(turn: Row) -> str:
    seen = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{seen}"


def place_of(name: str) -> tuple[int, int] | None:
    """The numbers of a session and of a turn in it, from an id such as D1:3."""
    found = EVIDENCE.search(name)
    return None if found is None else (int(found[1]), int(found[2]))


def places(evidence: list[Any]) -> Iterator[tuple[int, int]]:
    """Some lists of the published file hold several ids in one string."""
    for entry in evidence:
        for session, turn in EVIDENCE.findall(str(entry)):
            yield int(session), int(turn)


def parsed(text: object) -> datetime | None:
    """The time of a session; None if it is written in an unknown way."""
    for form in DATES:
        try:
            return datetime.strptime(str(text).strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


if __name__ == "__main__":
    main()

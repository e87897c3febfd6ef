"""What the stop hook proposes of twenty sessions, compared with what their author marked as worth keeping.

The sessions in `capture_sessions` were written before the rules, with {{...}} around what is worth keeping. Rules and
examples of `fourfold.ingest.capture` were tuned on one half; the other half was only counted.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fourfold.embed.builtin import built_in_model
from fourfold.ingest.capture import candidates_of, judged
from fourfold.ingest.transcripts import sessions_of
from fourfold.limits import SESSION_PROPOSALS

SESSIONS = Path(__file__).with_name("capture_sessions")
TURN = re.compile(r"^([UAT])> ", re.MULTILINE)
MARK = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
SHARE = 0.6
"""Of the words of a mark, so many have to be in a proposal that finds it."""


def events(text: str) -> Iterator[dict[str, object]]:
    """The session as Claude Code writes it."""
    parts = TURN.split(MARK.sub(r"\1", text))[1:]
    for number, (who, said) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        role = "assistant" if who == "A" else "user"
        result = [{"type": "tool_result", "tool_use_id": str(number), "content": said}]
        content = result if who == "T" else said.strip()
        at = f"2026-03-02T09:{number % 60:02}:00Z"
        yield {"type": role, "cwd": "/home/ada/src", "timestamp": at, "message": {"role": role, "content": content}}


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def main() -> None:
    shown = sys.argv[1:]
    model = built_in_model()
    for half in ("tuned", "held_out"):
        total = Counter[str]()
        for file in sorted((SESSIONS / half).glob("*.txt")):
            text = file.read_text("utf-8")
            with tempfile.TemporaryDirectory() as folder:
                transcript = Path(folder) / f"{file.stem}.jsonl"
                transcript.write_text("".join(json.dumps(event) + "\n" for event in events(text)), "utf-8")
                (session,) = sessions_of("claude-code", transcript)
                turns = [*session.turns(None, Counter())]
            ranked = sorted(judged(candidates_of(turns).candidates, model.embed), key=lambda rated: -rated[1])
            marks = [words(mark) for mark in MARK.findall(text)]
            hits = set[int]()
            for candidate, confidence in ranked[:SESSION_PROPOSALS]:
                own = {n for n, mark in enumerate(marks) if len(mark & words(candidate.text)) >= SHARE * len(mark)}
                hits |= own
                total["worth keeping"] += bool(own)
                if half in shown:
                    print(f"{'+' if own else '-'} {confidence:.2f} {candidate.kind:10} {candidate.text}")
            if half in shown:
                missed = [mark for n, mark in enumerate(MARK.findall(text)) if n not in hits]
                print(f"== {file.stem}; missed: {missed}\n")
            total += Counter(proposals=min(len(ranked), SESSION_PROPOSALS), marks=len(marks), found=len(hits))
            total["most"] = max(total["most"], len(ranked))
        kept, found = total["worth keeping"] / total["proposals"], total["found"] / total["marks"]
        print(
            f"{half}: {total['proposals']} proposals, {kept:.0%} worth keeping; {found:.0%} of {total['marks']} marks "
            f"found; at most {total['most']} of a session before the limit"
        )


if __name__ == "__main__":
    main()

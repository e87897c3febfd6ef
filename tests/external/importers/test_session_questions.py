"""Questions about an imported history are answered by the session that decided."""

from pathlib import Path

import pytest
from session_history import QUESTIONS, SESSIONS, write_history

from fourfold import Memory

RIGHT = 21
"""Questions whose session is among the first three results."""


@pytest.mark.spec("D5")
def test_what_was_decided_in_a_session_is_found(tmp_path: Path) -> None:
    write_history(tmp_path / "projects")
    with Memory.open(tmp_path / "store", background=False) as memory:
        assert memory.import_sessions("claude-code", tmp_path / "projects").new == SESSIONS
        memory.embed_pending()
        missed = [
            question
            for question, session in QUESTIONS
            if session not in [hit.item.metadata["session"] for hit in memory.search(question).results[:3]]
        ]
    assert len(QUESTIONS) == 25
    assert len(QUESTIONS) - len(missed) >= RIGHT, missed

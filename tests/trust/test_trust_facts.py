"""Several processes that store new values of one fact at once leave one present value and one chain of all others."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import postgres_servers
import pytest

from fourfold.memory import Memory

pytestmark = pytest.mark.spec("C15")

WRITERS, VALUES = 3, 12
WORK = """
import sys
from fourfold.memory import Memory
from fourfold.model import ItemPatch, NewItem
place, writer, values = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Memory.open(place, embedder="none", background=False) as memory:
    print("open", flush=True)
    sys.stdin.readline()
    for number in range(values):
        memory.add(NewItem(f"value {number} of {writer}", subject="Maria", attribute="address"))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_writers_of_one_fact_leave_one_present_value_and_one_chain(kind: str, tmp_path: Path) -> None:
    place = str(tmp_path / "store") if kind == "sqlite" else postgres_servers.fresh()
    with Memory.open(place, embedder="none", background=False) as memory:
        memory.add("something else")
        writers = [started(place, number) for number in range(WRITERS)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "open\n"
        for writer in writers:  # all are open: they begin together
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        assert [writer.communicate()[1] for writer in writers] == [""] * WRITERS
        present = memory.list({"subject": "Maria"})
        assert len(present) == 1
        values = {item.id: item for item in memory.history(present[0].id)}
        assert {item.text for item in values.values()} == {
            f"value {number} of {writer}" for writer in range(WRITERS) for number in range(VALUES)
        }
        chain = [present[0]]
        while (before := chain[-1].supersedes) is not None:
            chain.append(values[before])
        assert sorted(item.id for item in chain) == sorted(values)
        assert [item.superseded_at is None for item in chain] == [True] + [False] * (WRITERS * VALUES - 1)
        for later, earlier in itertools.pairwise(chain):
            assert earlier.superseded_at == (later.valid_from or later.created_at)
        found = memory.search("value of", filters={"subject": "Maria"}, top_k=10).results
        assert [result.id for result in found] == [present[0].id]
        assert memory.check() == []


def started(place: str, number: int) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WORK, place, str(number), str(VALUES)]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

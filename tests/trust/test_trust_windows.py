"""kill -9 while vectors of an earlier version are renewed: each item has all its windows, or is pending."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import apsw
import pytest
import trust_child
from trust_windows_work import EARLIER, Windowed, WithoutWindows, renew

from fourfold.embed.windows import read_as
from fourfold.memory import Memory
from fourfold.model import NewItem

LONG = "\n".join(f"Paragraph {number} describes the weather of day {number}, wind and rain." for number in range(60))
TEXTS = [f"{LONG[: 1500 + 40 * number]}\nnumber {number}" for number in range(60)]


@pytest.mark.spec("C13")
@pytest.mark.parametrize("kills", [8, pytest.param(80, marks=pytest.mark.soak)])
def test_a_kill_during_the_renewal_leaves_no_item_with_some_of_its_windows(tmp_path: Path, kills: int) -> None:
    chance = random.Random(7)
    left = set[int]()
    for number in range(kills):
        folder = tmp_path / str(number)
        with Memory.open(folder, embedder=WithoutWindows(), background=False) as memory:
            memory.add_many([NewItem(text) for text in [*TEXTS, "a short note"]], wait=True)
        _kill(folder, number % 6, chance)
        left.add(_pending_items(folder))
        with Memory.open(folder, embedder=Windowed(), background=False) as memory:
            memory.embed_pending()
            assert _pending_items(folder) == 0
            assert memory.check() == []
            assert memory.search("weather of day 3").results[0].part is not None
    assert len(left) > 2, f"the kills did not hit different moments: numbers of pending items: {sorted(left)}"


def _kill(folder: Path, batches: int, chance: random.Random) -> None:
    """Kills the renewal shortly after this many batches have begun."""
    mine, theirs = trust_child.context().Pipe(duplex=False)
    child = trust_child.start(renew, folder, chance.randrange(1 << 30), theirs)
    theirs.close()
    with suppress(EOFError):
        for _ in range(batches + 1):
            mine.recv()
    child.join(chance.random() / 50)
    child.kill()
    child.join()
    mine.close()


def _pending_items(folder: Path) -> int:
    """The number of pending items; asserts that the others have all their windows, from one version of the model."""
    db = apsw.Connection(str(folder / "fourfold.db"))
    try:
        ((fingerprint,),) = db.execute("SELECT fingerprint FROM namespaces").fetchall()
        rows = db.execute("SELECT title, text, length(vector), spans FROM items JOIN vectors ON item = id").fetchall()
        ((waiting,),) = db.execute("SELECT count(*) FROM waiting").fetchall()
        ((items,),) = db.execute("SELECT count(*) FROM items").fetchall()
    finally:
        db.close()
    assert len(rows) + waiting == items
    for title, text, size, spans in rows:
        expected = () if fingerprint == EARLIER else read_as(title, text, Windowed().truncates)[1]
        assert size == 128 * max(1, len(expected))
        assert len(spans or b"") == 8 * len(expected)
    with Memory.open(folder, embedder=Windowed(), background=False) as memory:
        assert memory.check() == []
    return waiting

"""Large files in bounded memory: damage to a store of 500 MB is reported, an import of 1 GB keeps every record."""

from __future__ import annotations

import hashlib
import random
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trust_child
from engine_support import WordEmbedder, notes

from fourfold.errors import FourfoldError
from fourfold.memory import Memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

MEGABYTE = 1_000_000
PAGE = 4096
MOST_MEMORY_MB = 800
ITEMS = 500
LINE = "the ferry of {} leaves the harbour at {} and carries {} crates of salt; "


def record(number: int) -> str:
    """A megabyte of text that no other record has."""
    chance = random.Random(number)
    line = LINE.format(number, chance.random(), chance.random())
    return (line * (MEGABYTE // len(line) + 1))[:MEGABYTE]


class MemoryWatch:
    """Measures the peak of this process's own memory, without pages of mapped files, which the system can reclaim."""

    def __init__(self) -> None:
        self.most_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            status = Path("/proc/self/status").read_text()
            own_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
            self.most_mb = max(self.most_mb, own_kib * 1024 / MEGABYTE)


def _opened(folder: Path) -> Memory:
    return Memory.open(folder, embedder=WordEmbedder(), background=False)


def make(folder: Path, megabytes: int) -> None:
    with _opened(folder) as memory:
        memory.add_many(notes(ITEMS), wait=True)
        for number in range(megabytes):
            memory.add_raw(record(number), session_id=str(number))
        memory.index()


# ---------------------------------------------------------------- damaged


def _write(file: Path, place: int, content: bytes) -> None:
    with file.open("r+b") as stream:
        stream.seek(place)
        stream.write(content)


def header(file: Path) -> None:
    _write(file, 0, b"\xff" * 100)


def schema(file: Path) -> None:
    _write(file, 100, b"\xff" * (PAGE - 100))


def scattered(file: Path) -> None:
    chance = random.Random(5)
    for page in chance.sample(range(1, file.stat().st_size // PAGE), 2000):
        _write(file, page * PAGE, chance.randbytes(PAGE))


def end_of_zeros(file: Path) -> None:
    size = file.stat().st_size
    _write(file, size - size // 4, bytes(size // 4))


def cut_in_half(file: Path) -> None:
    with file.open("r+b") as stream:
        stream.truncate(file.stat().st_size // 2)


DAMAGES: list[Callable[[Path], None]] = [header, schema, scattered, end_of_zeros, cut_in_half]


def use(folder: Path) -> tuple[list[str], float]:
    """Makes several calls on a damaged store; returns the outcome of each, and the peak of memory."""

    def using() -> list[str]:
        said: list[str] = []
        try:
            memory = _opened(folder)
        except FourfoldError as error:
            return [f"open: {type(error).__name__}"]
        with memory:
            for name, call in (
                ("check", memory.check),
                ("search", lambda: memory.search("the heron met the otter", top_k=5)),
                ("list", lambda: memory.list(limit=ITEMS)),
                ("export", lambda: memory.export(folder / "out.jsonl")),
                ("repair", memory.repair),
            ):
                try:
                    answer = call()
                    said.append(f"{name}: {'problems' if name == 'check' and answer else 'answered'}")
                except FourfoldError as error:
                    said.append(f"{name}: {type(error).__name__}")
        return said

    with MemoryWatch() as watch:
        return using(), watch.most_mb


@pytest.mark.soak
@pytest.mark.spec("B9")
@pytest.mark.parametrize("megabytes", [500])
def test_damage_of_a_500_mb_store_is_reported_in_bounded_memory(tmp_path: Path, megabytes: int) -> None:
    trust_child.run(make, tmp_path / "sound", megabytes)
    assert (tmp_path / "sound" / "fourfold.db").stat().st_size > megabytes * MEGABYTE
    for damage in DAMAGES:
        folder = tmp_path / damage.__name__
        shutil.copytree(tmp_path / "sound", folder)
        damage(folder / "fourfold.db")
        said, memory = trust_child.run(use, folder)
        print(f"{damage.__name__}: {said}, {memory:.0f} MB")
        assert any("DamagedStore" in line or "problems" in line for line in said), (damage.__name__, said)
        assert memory < MOST_MEMORY_MB
        shutil.rmtree(folder)


# ---------------------------------------------------------------- imported


def import_and_export(source: Path, folder: Path, target: Path) -> tuple[dict[str, int], float]:
    with MemoryWatch() as watch, _opened(folder) as memory:
        counts = memory.import_file(source)
        memory.export(target)
    return counts, watch.most_mb


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@pytest.mark.soak
@pytest.mark.spec("B9")
@pytest.mark.parametrize("megabytes", [1000])
def test_an_import_of_a_gigabyte_keeps_every_record_in_bounded_memory(tmp_path: Path, megabytes: int) -> None:
    trust_child.run(make, tmp_path / "sound", megabytes)
    trust_child.run(export, tmp_path / "sound", tmp_path / "first.jsonl")
    shutil.rmtree(tmp_path / "sound")
    counts, memory = trust_child.run(
        import_and_export, tmp_path / "first.jsonl", tmp_path / "copy", tmp_path / "second.jsonl"
    )
    size = (tmp_path / "first.jsonl").stat().st_size
    print(f"{size / MEGABYTE:.0f} MB imported and exported with {memory:.0f} MB of memory")
    assert size > megabytes * MEGABYTE
    assert (counts["item"], counts["raw"]) == (ITEMS, megabytes)
    assert _digest(tmp_path / "second.jsonl") == _digest(tmp_path / "first.jsonl")
    assert memory < MOST_MEMORY_MB


def export(folder: Path, target: Path) -> None:
    with _opened(folder) as memory:
        memory.export(target)


def import_rows(source: Path, folder: Path) -> tuple[int, float]:
    with MemoryWatch() as watch, _opened(folder) as memory:
        memory.import_file(source)
        assert memory.check() == []
        count = memory.count()
    return count, watch.most_mb


@pytest.mark.soak
@pytest.mark.spec("B9")
@pytest.mark.parametrize("megabytes", [100])
def test_rows_of_100_mb_are_all_imported_in_bounded_memory(tmp_path: Path, megabytes: int) -> None:
    """Import of rows analyses and indexes each row; loading an export leaves that to the first search."""
    file, rows = tmp_path / "rows.jsonl", megabytes * 1000
    with file.open("w") as stream:
        for number in range(rows):
            stream.write(f'{{"key": "{number}", "text": "{record_line(number)}"}}\n')
    assert file.stat().st_size > megabytes * MEGABYTE
    count, memory = trust_child.run(import_rows, file, tmp_path / "store")
    print(f"{rows} rows imported with {memory:.0f} MB of memory")
    assert count == rows
    assert memory < MOST_MEMORY_MB


def record_line(number: int) -> str:
    chance = random.Random(number)
    words = ("harbour", "ferry", "salt", "crate", "keeper", "lamp", "river", "stone", "gate", "heron", "otter", "lynx")
    return " ".join(f"{chance.choice(words)}{chance.randrange(300)}" for _ in range(115)) + f" row {number}"

"""Resource use does not grow, cut calls leave nothing behind, large files and the worst queries keep their limits."""

import hashlib
import random
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Self

import pytest
import trust_child
from engine_support import WordEmbedder, notes
from trust_resources_work import Cancelled, Usage, cancelled, closed_during_calls, interrupted, many_calls, neighbour

from fourfold import Filters, FourfoldError, Memory, MetadataTest, NewItem
from fourfold.errors import SearchFailed

SEED = 5_000
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
MEGABYTE = 1024 * 1024


def grown(found: Sequence[Usage], what: Callable[[Usage], float]) -> float:
    """The growth from the median of the first four windows to that of the last four."""
    return median(what(each) for each in found[-4:]) - median(what(each) for each in found[:4])


@pytest.mark.spec("B7")
@pytest.mark.parametrize(("warm", "calls"), [(500, 1000), pytest.param(1000, 49_000, marks=pytest.mark.soak)])
def test_memory_descriptors_threads_and_index_files_do_not_grow_with_calls(fast_folder, warm, calls):
    found: list[Usage] = trust_child.run(many_calls, fast_folder / "store", warm, calls, 8, SEED)
    heap, resident = (grown(found, what) / MEGABYTE for what in (lambda each: each.heap, lambda each: each.resident))
    blocks = grown(found, lambda each: each.blocks)
    publications = found[-1].published - found[0].published
    print(
        f"{calls} calls behind {warm} (seed {SEED}) with {publications} publications: heap {heap:+.2f} MB, resident "
        f"{resident:+.2f} of {found[0].resident / MEGABYTE:.0f} MB, {blocks:+.0f} of {found[0].blocks} blocks, "
        f"descriptors {found[0].descriptors}-{found[-1].descriptors}, threads {found[0].threads}-{found[-1].threads}, "
        f"index {found[0].index // 1024}-{found[-1].index // 1024} KB"
    )
    assert publications >= calls / 500
    assert heap < 3 + calls / 100_000  # a leak of 1 KB per call would be 24 MB in 49,000 calls
    assert resident < 4 + calls / 100_000
    assert blocks < 1200 + calls / 50  # one block per call would be 30,600 in 49,000 calls; all caches are full before
    few = 6  # a publication has more for a moment; one per publication would be 10 in 1,000 calls
    assert median(each.descriptors for each in found[-4:]) <= max(each.descriptors for each in found[:4]) + few
    assert max(each.own for each in found) <= max(each.own for each in found[:4])
    assert grown(found, lambda each: each.threads) <= 4
    assert max(each.generations for each in found) <= 3
    assert max(each.index for each in found[-4:]) <= 2.5 * max(each.index for each in found[:4])  # rewriting halves it


@pytest.mark.spec("S1.8", "B6", "B7")
@pytest.mark.parametrize("work", [cancelled, interrupted])
@pytest.mark.parametrize("count", [130, pytest.param(1300, marks=pytest.mark.soak)])
def test_a_call_cut_short_leaves_no_transaction_no_partial_write_and_no_lock(fast_folder, work, count):
    mine, theirs = trust_child.context().Pipe()
    other = trust_child.start(neighbour, theirs, fast_folder / "store")
    theirs.close()
    found: Cancelled = trust_child.run(work, mine, fast_folder / "store", count, SEED)
    mine.close()
    other.join()
    cuts = sum(cut for _, cut in found.counts.values())
    print(
        f"{count} calls (seed {SEED}), {cuts} cut short {found.counts}; "
        f"threads {min(found.threads)}-{max(found.threads)}, "
        f"descriptors {min(found.descriptors)}-{max(found.descriptors)}"
    )
    assert not found.problems, "\n".join(found.problems[:20])
    assert other.exitcode == 0
    assert cuts >= 0.4 * count
    half = count // 2
    assert max(found.threads[half:]) <= max(found.threads[:half]) + 2
    assert median(found.descriptors[half:]) <= max(found.descriptors[:half]) + 8  # a publication has more for a moment


@pytest.mark.spec("S1.8", "S2.6")
@pytest.mark.parametrize("rounds", [10, pytest.param(60, marks=pytest.mark.soak)])
def test_closing_during_calls_ends_each_with_its_answer_or_a_typed_error(fast_folder: Path, rounds: int) -> None:
    ends, problems = trust_child.run(closed_during_calls, fast_folder / "store", rounds, SEED)
    print(f"{rounds} closings during {20 * rounds} calls (seed {SEED}): {ends}")
    assert not problems, "\n".join(problems[:20])
    assert ends["done"] > 20
    assert sum(ends.values()) == 20 * rounds
    assert len(ends) > 1


# ---------------------------------------------------------------- large files


MILLION = 1_000_000
PAGE = 4096
MOST_MEMORY_MB = 800
STORED = 500
LINE = "the ferry of {} leaves the harbour at {} and carries {} crates of salt; "


def record(number: int) -> str:
    """A megabyte of text that no other record has."""
    chance = random.Random(number)
    line = LINE.format(number, chance.random(), chance.random())
    return (line * (MILLION // len(line) + 1))[:MILLION]


class MemoryWatch:
    """Measures the peak of this process's own memory, without pages of mapped files, which the system can reclaim."""

    def __init__(self) -> None:
        self.most_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            status = Path("/proc/self/status").read_text()
            own_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
            self.most_mb = max(self.most_mb, own_kib * 1024 / MILLION)


def _opened(folder: Path) -> Memory:
    return Memory.open(folder, embedder=WordEmbedder(), background=False)


def make(folder: Path, megabytes: int) -> None:
    with _opened(folder) as memory:
        memory.add_many(notes(STORED), wait=True)
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
                ("list", lambda: memory.list(limit=STORED)),
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
    assert (tmp_path / "sound" / "fourfold.db").stat().st_size > megabytes * MILLION
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
    assert size > megabytes * MILLION
    assert (counts["item"], counts["raw"]) == (STORED, megabytes)
    assert _digest(tmp_path / "second.jsonl") == _digest(tmp_path / "first.jsonl")
    assert memory < 200  # not that of as many records as a page may have


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
    assert file.stat().st_size > megabytes * MILLION
    count, memory = trust_child.run(import_rows, file, tmp_path / "store")
    print(f"{rows} rows imported with {memory:.0f} MB of memory")
    assert count == rows
    assert memory < MOST_MEMORY_MB


def import_large_rows(source: Path, folder: Path) -> tuple[int, float]:
    with MemoryWatch() as watch, Memory.open(folder, embedder="none", background=False) as memory:
        count = memory.import_file(source)["item"]
    return count, watch.most_mb


@pytest.mark.soak
@pytest.mark.spec("B9")
def test_large_rows_are_imported_a_few_at_a_time(tmp_path: Path) -> None:
    file, text = tmp_path / "rows.jsonl", " ".join(map(record_line, range(1000)))
    with file.open("w") as stream:
        for number in range(300):
            stream.write(f'{{"key": "{number}", "text": "{number} {text}"}}\n')
    count, memory = trust_child.run(import_large_rows, file, tmp_path / "store")
    print(f"{file.stat().st_size / MEGABYTE:.0f} MB of large rows imported with {memory:.0f} MB of memory")
    assert count == 300
    assert memory < 250  # all of them at once take more than twice the size of the file


def record_line(number: int) -> str:
    chance = random.Random(number)
    words = ("harbour", "ferry", "salt", "crate", "keeper", "lamp", "river", "stone", "gate", "heron", "otter", "lynx")
    return " ".join(f"{chance.choice(words)}{chance.randrange(300)}" for _ in range(115)) + f" row {number}"


# ---------------------------------------------------------------- the worst queries


ITEMS = 50_000
SECONDS = 2.0
SLACK = 1.5
"""Allowance for the work before and after the retrievers, on a machine under load."""
COMMON = [f"common{n}" for n in range(64)]


def worst_items(chance: random.Random) -> list[NewItem]:
    names = [f"Name {n}" for n in range(500)]
    return [
        NewItem(
            " ".join([*chance.sample(COMMON, 40), f"rare{n}", chance.choice(names), "Name 1"]),
            title=chance.choice(names) if n % 3 else f"Title {n}",
            tags=("everywhere", f"tag{n % 100}"),
            metadata={"number": n, "nested": {"deep": [n, {"deeper": n % 7}]}},
            path=f"folder{n % 50}/" + "a" * 100 + f"/{n}.md",
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        for n in range(ITEMS)
    ]


WORST: dict[str, dict[str, Any]] = {
    "every common word": {"text": " ".join(COMMON)},
    "32 KB of common words": {"text": (" ".join(COMMON) + " ") * 40},
    "32 KB of words that are nowhere": {"text": " ".join(f"nowhere{n}" for n in range(2500))},
    "32 KB of one word": {"text": "x" * 32_000},
    "a hundred names": {"text": " ".join(f"Name {n}" for n in range(100))},
    "a hub and its neighbours": {"text": "Name 1", "only": ["graph"]},
    "a glob of many ways": {"text": "common1", "filters": Filters(path="**/a*a*a*a*a*a*a*a*a*b")},
    "a test of all metadata": {
        "text": "common1 common2",
        "filters": Filters(metadata=tuple(MetadataTest("number", "gte", n) for n in range(60))),
    },
    "a filter that all pass": {"text": " ".join(COMMON), "filters": Filters(tags=("everywhere",)), "top_k": 100},
    "all explained": {"text": " ".join(COMMON), "top_k": 100, "explain": True, "per_source": 100},
}


@pytest.mark.soak
@pytest.mark.spec("B4", "S2.6")
def test_the_ten_worst_queries_end_by_their_deadline(fast_folder: Path) -> None:
    memory = Memory.open(fast_folder, embedder=WordEmbedder())
    with memory:
        new = worst_items(random.Random(8))
        for start in range(0, ITEMS, 5000):
            memory.add_many(new[start : start + 5000])
        memory.add_edges([("Name 1", "knows", f"Name {n}", 1.0) for n in range(2, 500)])
        memory.embed_pending()
        memory.index()
        memory.search("common1")
        for name, question in WORST.items():
            started = time.perf_counter()
            try:
                response = memory.search(question.pop("text")[: 32 * 1024], **question)
                end = f"{len(response.results)} results, degraded: {[each.retriever for each in response.degraded]}"
            except SearchFailed as error:
                end = str(error)
            took = time.perf_counter() - started
            print(f"{name}: {took:.2f} s, {end}")
            assert took < SECONDS + SLACK, name

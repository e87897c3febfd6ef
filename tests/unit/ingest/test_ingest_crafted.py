"""Crafted files: each is indexed or skipped with a reason, within the limits of the process that reads them."""

import resource
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crafted import MOST_BYTES, crafted
from files_support import index, names, write

from fourfold import Memory, limits
from fourfold.errors import StoreUnavailable
from fourfold.ingest import walk
from fourfold.ingest.document import CHUNK_TOKENS, Section, Unreadable, chunks, numbered
from fourfold.ingest.formats import ChunkedFile
from fourfold.ingest.reader_process import TOO_LONG, ReaderProcess, Request
from fourfold.ingest.sync import PAUSE_SECONDS, pause_after, watch

pytestmark = pytest.mark.spec("C17")


@pytest.fixture
def reader() -> Iterator[ReaderProcess]:
    with closing(ReaderProcess()) as process:
        yield process


@pytest.mark.parametrize("size", [MOST_BYTES // 64, pytest.param(MOST_BYTES, marks=pytest.mark.soak)])
def test_every_crafted_file_is_read_or_skipped_within_the_limits(reader: ReaderProcess, size: int) -> None:
    files = crafted(size)
    assert len(files) >= 60
    assert max(map(len, files.values())) <= max(size, MOST_BYTES // 16)
    results = list(reader.read([Request(name, data) for name, data in files.items()]))
    assert len(results) == len(files)
    assert all(isinstance(result, ChunkedFile) or str(result) for result in results)
    assert all(limits.cpu_seconds_for(len(data)) <= 4.0 for data in files.values())


def test_the_memory_of_the_reader_process_is_limited(reader: ReaderProcess) -> None:
    (result,) = reader.read([Request("a.txt", b"text")])
    assert isinstance(result, ChunkedFile)
    soft, hard = resource.prlimit(reader._child._process.pid, resource.RLIMIT_AS)
    assert (soft, hard) == (limits.READ_MEMORY_BYTES, limits.READ_MEMORY_BYTES)


@pytest.mark.parametrize("name", ["fstrings-joined.py", "generics.java"])
def test_code_that_crashes_its_parser_is_read_as_text(reader: ReaderProcess, name: str) -> None:
    after = Request("after.md", b"# Title\n\nwords\n")
    broken, sound = reader.read([Request(name, crafted()[name]), after])
    assert isinstance(broken, ChunkedFile)
    assert isinstance(sound, ChunkedFile)


def test_a_slow_file_is_skipped_and_the_next_is_read() -> None:
    """The time is too short for this file; a new process reads the next one."""
    long = Request("long.md", b"# heading and words\n" * 50_000)
    with closing(ReaderProcess(lambda size: 0.05 if size > 1000 else 10.0)) as reader:
        first, broken, last = reader.read([Request("a.txt", b"one"), long, Request("b.txt", b"two")])
        assert isinstance(first, ChunkedFile)
        assert isinstance(broken, Unreadable)
        assert str(broken) == TOO_LONG
        assert isinstance(last, ChunkedFile)
        assert reader.started == 2


def test_a_killed_reader_is_replaced_without_losing_a_file(reader: ReaderProcess) -> None:
    (first,) = reader.read([Request("a.txt", b"one")])
    assert isinstance(first, ChunkedFile)
    process = reader._child._process  # type: ignore[union-attr]
    process.send_signal(signal.SIGKILL)
    process.wait()
    results = list(reader.read([Request("b.txt", b"two"), Request("c.txt", b"three")]))
    assert [result.chunks[0].text for result in results if isinstance(result, ChunkedFile)] == ["two", "three"]
    assert reader.started == 2


def test_a_closed_reader_raises() -> None:
    reader = ReaderProcess()
    reader.close()
    with pytest.raises(StoreUnavailable):
        list(reader.read([Request("a.txt", b"one")]))


def test_a_watch_continues_after_crafted_files(memory: Memory, tree: Path) -> None:
    few = ("heading-spaces.md", "front-bool.md", "tags-open.html", "nested.pdf", "references.html")
    files = crafted(MOST_BYTES // 64)
    write(tree, {name: files[name] for name in few} | {".gitignore": "a" + " " * 500_000 + "b\n"})
    reports = watch(lambda: memory.index_folders([tree]), pause=0.0)
    first = next(reports)
    assert first.files == len(few)  # type: ignore[union-attr]
    write(tree, {"after.txt": "bees"})
    second = next(reports)
    assert second.new == 1  # type: ignore[union-attr]
    assert "after.txt" in names(memory)
    reports.close()


def test_the_pause_of_a_watch_follows_the_walk_and_not_what_was_stored(memory: Memory, tree: Path) -> None:
    """A run that stored for a minute was followed by a pause of twenty."""
    write(tree, {f"{number}.txt": "bees and herons " * 500 for number in range(50)})
    started = time.monotonic()
    report = memory.index_folders([tree])
    seconds = time.monotonic() - started
    assert 0 < report.walk_seconds < seconds / 4
    assert [pause_after(walk_seconds) for walk_seconds in (0, 0.01, 3)] == [PAUSE_SECONDS, PAUSE_SECONDS, 60]


@pytest.mark.parametrize(
    "rules",
    ["\n".join(f"a{n}*b" for n in range(5000)), "\n".join("*a" * 900 for _ in range(100)), "x\n" * 600_000],
    ids=["wildcards", "stars", "large"],
)
def test_a_folder_with_too_many_ignore_rules_is_skipped(memory: Memory, tree: Path, rules: str) -> None:
    """Files that the rules would ignore are not indexed; stored items are kept."""
    index(memory, tree, {"in/a.txt": "bees", "b.txt": "wasps"})
    report = index(memory, tree, {"in/.gitignore": rules})
    assert report.skipped[walk.RULES].examples == [f"{tree.as_posix()}/in/"]
    assert report.removed == 0


def test_a_line_of_10_mb_is_split_in_linear_time() -> None:
    """Counts copied characters: copying the rest for every chunk would be 4,000 times the line."""
    text = "word " * 2_000_000
    made = list(chunks([Section((), numbered(text))]))
    assert sum(len(chunk.text) for chunk in made) == pytest.approx(len(text), rel=0.01)
    assert max(len(chunk.text) for chunk in made) <= len("word ") * CHUNK_TOKENS

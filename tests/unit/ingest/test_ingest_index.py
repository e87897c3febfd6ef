"""Runs of index: their items, and that the next run does only what is necessary."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from files_support import index, items, names, write

from fourfold import Filters, Memory, limits
from fourfold.cli.main import main
from fourfold.errors import InvalidQuery, NotFound
from fourfold.ingest import formats
from fourfold.ingest import walk as walking
from fourfold.ingest.ignore import Rules
from fourfold.ingest.sync import index_folders

pytestmark = pytest.mark.spec("S3.1")

LONG = "\n\n".join(f"Paragraph {number} is about bees. " + "It goes on. " * 20 for number in range(20))


def test_chunks_are_stored_with_their_positions(memory: Memory, tree: Path) -> None:
    report = index(
        memory,
        tree,
        {
            "notes/plan.md": "# Plan\n\nBees first.\n\n## Hives\n\n" + "Two hives. " * 50,
            "page.html": "<title>A page</title><h1>Wasps</h1><p>None here.</p>",
            "plain.txt": "Honey in jars.",
            "tool.py": "import os\n\n\ndef smoke():\n    return 1\n",
        },
    )
    assert (report.files, report.new, report.opened) == (4, 4, 4)
    found = items(memory)
    assert len(found) == report.chunks == 5
    assert {name: item.kind for (name, _), item in found.items()} == {
        "plan.md": "markdown",
        "page.html": "html",
        "plain.txt": "text",
        "tool.py": "code",
    }
    hives = found["plan.md", 1]
    assert hives.title == "Plan › Hives"
    assert hives.path == (tree / "notes/plan.md").as_posix()
    assert (hives.metadata["line"], hives.metadata["end_line"]) == (5, 7)
    assert memory.search("honey", only=["keyword"]).results[0].item == found["plain.txt", 0]


def test_a_second_run_opens_no_file(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.md": "bees", "b/c.txt": "wasps", "picture.dat2": b"\0\1\2"})
    report = memory.index_folders([tree])
    assert (report.opened, report.unchanged, report.chunks, report.touched) == (0, 2, 0, False)
    assert report.skipped["no text in a known encoding"].count == 1


def test_one_changed_file_is_the_only_one_read(memory: Memory, tree: Path) -> None:
    index(memory, tree, {f"{number}.txt": f"number {number}" for number in range(20)})
    before = items(memory)
    report = index(memory, tree, {"7.txt": "another number"})
    assert (report.opened, report.changed, report.unchanged, report.chunks) == (1, 1, 19, 1)
    after = items(memory)
    assert after["7.txt", 0].text == "another number"
    assert after["7.txt", 0].id == before["7.txt", 0].id
    assert {key: item for key, item in after.items() if key[0] != "7.txt"} == {
        key: item for key, item in before.items() if key[0] != "7.txt"
    }


def test_deleted_files_are_removed_and_moved_files_keep_their_items(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"old/bees.md": LONG, "wasps.txt": "wasps"})
    before = {number: item.id for (name, number), item in items(memory).items() if name == "bees.md"}
    (tree / "new").mkdir()
    (tree / "old/bees.md").rename(tree / "new/honey bees.md")
    (tree / "wasps.txt").unlink()
    report = memory.index_folders([tree])
    assert (report.moved, report.removed, report.new) == (1, 1, 0)
    after = items(memory)
    assert {number: item.id for (_, number), item in after.items()} == before
    assert names(memory) == {"honey bees.md"}
    assert len(after) > 2


def test_a_copy_is_not_a_move(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.txt": "same"})
    report = index(memory, tree, {"b.txt": "same"})
    assert (report.new, report.moved, report.removed) == (1, 0, 0)
    assert names(memory) == {"a.txt", "b.txt"}


def test_verify_finds_a_change_with_equal_size_and_time(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.txt": "bees", "b.txt": "same"})
    known = (tree / "a.txt").stat()
    write(tree, {"a.txt": "wasp"})
    os.utime(tree / "a.txt", ns=(known.st_atime_ns, known.st_mtime_ns))
    assert memory.index_folders([tree]).opened == 0
    report = memory.index_folders([tree], verify=True)
    assert (report.opened, report.changed, report.unchanged) == (2, 1, 1)
    assert items(memory)["a.txt", 0].text == "wasp"


def test_a_touched_file_is_read_but_not_stored_again(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.txt": "bees"})
    before = items(memory)
    os.utime(tree / "a.txt", (1, 1))
    report = memory.index_folders([tree])
    assert (report.opened, report.unchanged, report.changed) == (1, 1, 0)
    assert items(memory) == before
    assert memory.index_folders([tree]).opened == 0


def test_forgotten_items_are_restored_by_the_next_run(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.txt": "bees", "b.txt": "wasps"})
    memory.forget_matching(Filters(path="**/a.txt"))
    assert memory.index_folders([tree]).new == 1
    assert names(memory) == {"a.txt", "b.txt"}


def test_folders_and_namespaces_are_independent(memory: Memory, tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "tree2"
    write(tree, {"a.txt": "bees"})
    write(other, {"b.txt": "wasps"})
    memory.index_folders([tree, other])
    (other / "b.txt").unlink()
    assert memory.index_folders([tree]).removed == 0
    assert names(memory) == {"a.txt", "b.txt"}
    assert memory.index_folders([other]).removed == 1
    assert memory.within("elsewhere").index_folders([tree]).new == 1


def test_indexing_a_missing_folder_removes_nothing(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.txt": "bees"})
    tree.rename(tree.with_name("away"))
    with pytest.raises(NotFound):
        memory.index_folders([tree])
    tree.with_name("away").rename(tree)
    with pytest.raises(NotFound):
        memory.index_folders([tree / "gone.txt"])
    assert names(memory) == {"a.txt"}


def test_a_single_file_is_indexed_and_its_neighbours_are_left_alone(memory: Memory, tree: Path) -> None:
    write(tree, {"a.md": "bees", "a.md.txt": "wasps", "hidden/.b.md": "ants", ".gitignore": "a.md"})
    report = memory.index_folders([tree / "a.md", tree / "hidden" / ".b.md"])
    assert (report.files, report.new) == (2, 2)
    assert names(memory) == {"a.md", ".b.md"}
    memory.index_folders([tree / "a.md.txt"])
    write(tree, {"a.md": "bees and more"})
    assert memory.index_folders([tree / "a.md"]).changed == 1
    assert names(memory) == {"a.md", "a.md.txt", ".b.md"}


def test_excluded_files_are_skipped_and_removed(memory: Memory, tree: Path) -> None:
    write(tree, {"a.md": "bees", "drafts/b.md": "wasps", "c.log": "ants", ".gitignore": "!c.log"})
    assert memory.index_folders([tree]).new == 3
    report = memory.index_folders([tree], exclude=["drafts/", "*.log"])
    assert report.removed == 2
    assert report.skipped[walking.EXCLUDED].examples == [f"{tree.as_posix()}/{name}" for name in ("c.log", "drafts")]
    assert names(memory) == {"a.md"}
    for glob in ("", "# x", "!a.md"):
        with pytest.raises(InvalidQuery, match="excludes nothing"):
            memory.index_folders([tree], exclude=[glob])


def test_tags_of_a_run_are_added_to_its_files(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"a.md": "bees #hum", "b.txt": "wasps"})
    report = memory.index_folders([tree], tags=["work", "Bees"])
    assert report.changed == 2
    tagged = {name: sorted(item.tags) for (name, _), item in items(memory).items()}
    assert tagged == {"a.md": ["Bees", "hum", "work"], "b.txt": ["Bees", "work"]}
    assert memory.index_folders([tree], tags=["work", "Bees"]).opened == 0
    memory.index_folders([tree])
    assert items(memory)["b.txt", 0].tags == ()


def test_items_of_an_unreadable_folder_are_kept(memory: Memory, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates the refusal of the system, because permissions do not stop root."""
    index(memory, tree, {"in/a.txt": "bees", "b.txt": "wasps"})
    real = walking.Folder.folder

    def refused(self: walking.Folder, name: str) -> walking.Folder:
        if name == "in":
            raise PermissionError(13, "denied")
        return real(self, name)

    monkeypatch.setattr(walking.Folder, "folder", refused)
    report = memory.index_folders([tree])
    assert report.removed == 0
    assert report.skipped[walking.UNREADABLE].examples == [f"{tree.as_posix()}/in/"]
    assert names(memory) == {"a.txt", "b.txt"}


def limit_file_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (walking, formats):
        monkeypatch.setattr(module, "FILE_BYTES", size)


def test_large_empty_and_binary_files_are_skipped_and_named(memory, tree, monkeypatch):
    limit_file_size(monkeypatch, 1000)
    report = index(
        memory,
        tree,
        {"large.txt": "x" * 1001, "fits.txt": "x" * 1000, "none.txt": "", "blank.txt": " \n ", "a.png": "x"},
    )
    assert names(memory) == {"fits.txt"}
    reasons = {reason: few.count for reason, few in report.skipped.items()}
    assert reasons == {walking.LARGE: 1, walking.EMPTY: 1, "only white space": 1, walking.BINARY_NAME: 1}
    assert limits.FILE_BYTES == 10 * 1024 * 1024


def test_a_file_that_grew_too_large_is_removed(memory: Memory, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index(memory, tree, {"a.txt": "bees"})
    limit_file_size(monkeypatch, 3)
    assert memory.index_folders([tree]).removed == 1
    assert names(memory) == set()


def test_progress_ends_with_all_files(memory: Memory, tree: Path) -> None:
    write(tree, {f"{number}.txt": f"number {number}" for number in range(150)})
    steps: list[tuple[int, int]] = []
    memory.index_folders([tree], progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (150, 150)
    assert steps == sorted(steps)
    assert len(steps) >= 3


def test_an_interrupted_run_keeps_its_progress(memory: Memory, tree: Path) -> None:
    write(tree, {f"{number:03}.txt": f"number {number}" for number in range(200)})

    class Stop(Exception): ...

    def stop(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        index_folders(memory.store, memory.namespace, [tree], progress=stop)
    stored = len(items(memory))
    assert 0 < stored < 200
    report = memory.index_folders([tree])
    assert (report.new, report.unchanged) == (200 - stored, stored)


@pytest.mark.spec("B12")
def test_neighbours_of_a_chunk(memory: Memory, tree: Path) -> None:
    index(memory, tree, {"long.txt": LONG})
    third = items(memory)["long.txt", 2]
    assert [item.chunk_index for item in memory.around(third.id)] == [1, 2, 3]
    assert [item.chunk_index for item in memory.around(third.id, 2, 0)] == [0, 1, 2]
    alone = memory.add("no file")
    assert memory.around(alone.id) == [alone]
    with pytest.raises(InvalidQuery):
        memory.around(third.id, 101, 0)


def test_items_have_the_times_of_their_files(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "bees", "odd.txt": "wasps"})
    os.utime(tree / "a.txt", (1_000_000_000, 1_000_000_000))
    os.utime(tree / "odd.txt", (1, -(10**11)))
    memory.index_folders([tree])
    assert items(memory)["a.txt", 0].created_at.year == 2001


def test_a_file_that_grows_while_it_is_read_is_skipped(memory, tree, monkeypatch):
    write(tree, {"a.txt": "bees"})
    limit_file_size(monkeypatch, 4)
    found = walking.walk(walking.Target(tree.resolve()))
    monkeypatch.setattr(walking, "walk", lambda *_: found)
    report = index(memory, tree, {"a.txt": "bees and wasps"})
    assert report.skipped[walking.LARGE].count == 1
    assert names(memory) == set()


def test_items_stored_by_others_during_a_run_are_kept(memory, tmp_path, tree, monkeypatch):
    def elsewhere() -> None:
        with Memory.open(tmp_path / "store", embedder="none", background=False) as other:
            other.index_folders([tree])

    def walk(target: walking.Target, exclude: Rules | None) -> walking.Walk:
        monkeypatch.undo()
        found = walking.walk(target, exclude)
        write(tree, {"b.txt": "wasps"})
        elsewhere()
        return found

    write(tree, {"a.txt": "bees"})
    monkeypatch.setattr(walking, "walk", walk)
    assert memory.index_folders([tree]).removed == 0
    assert names(memory) == {"a.txt", "b.txt"}


def test_the_folder_of_a_store_is_not_indexed(tree: Path) -> None:
    write(tree, {"a.txt": "bees"})
    with Memory.open(tree / "store", embedder="none", background=False) as memory:
        report = memory.index_folders([tree])
        assert report.skipped[walking.STORE].examples == [f"{tree.as_posix()}/store/"]
        assert memory.index_folders([tree]).opened == 0
        assert names(memory) == {"a.txt"}


# ---------------------------------------------------------------- the command line


@pytest.fixture
def named_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    monkeypatch.setenv("FOURFOLD_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def fourfold(named_store: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str | Path, code: int = 0) -> str:
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert left.value.code == code, said.err
        return said.out

    return run


def test_index_reports_changes_and_skipped_files(fourfold: Any, tree: Path) -> None:
    write(tree, {"a.md": "bees", "b.png": "x", "\x1b[31mc.png": "x"})
    said = fourfold("index", tree)
    assert said.splitlines()[0] == "1 file: 1 new, 0 changed, 0 moved, 0 removed, 0 unchanged; 1 chunks stored"
    assert "  skipped 2: binary, by its name (" in said
    assert "\x1b" not in said
    (tree / "a.md").unlink()
    again = json.loads(fourfold("index", tree, "--verify", "--json"))
    assert {name: count for name, count in again.items() if isinstance(count, int) and count} == {"removed": 1}
    assert again["skipped"]["binary, by its name"]["count"] == 2
    assert (again["status"], len(again)) == ("success", 11)


@pytest.mark.spec("B12")
def test_neighbours_on_the_command_line(fourfold: Any, tree: Path) -> None:
    write(tree, {"long.txt": "\n\n".join(f"Part {number}. " + "word " * 200 for number in range(4))})
    fourfold("index", tree)
    found = json.loads(fourfold("search", "Part 2", "--only", "keyword", "--json"))["results"]
    third = next(result["id"] for result in found if result["chunk_index"] == 2)
    around = json.loads(fourfold("get", third, "--around", "1", "--json"))["items"]
    assert [item["chunk_index"] for item in around] == [1, 2, 3]


@pytest.fixture
def watching(named_store: Path, tree: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "fourfold", "index", str(tree), "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        yield process
        process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts are sent differently there")
def test_watch_follows_changes_until_it_is_interrupted(watching: Any, fourfold: Any, tree: Path) -> None:
    assert json.loads(watching.stdout.readline())["new"] == 0
    write(tree, {"a.md": "bees"})
    assert json.loads(watching.stdout.readline())["new"] == 1
    (tree / "a.md").rename(tree / "b.md")
    assert json.loads(watching.stdout.readline())["moved"] == 1
    (tree / "b.md").unlink()
    assert json.loads(watching.stdout.readline())["removed"] == 1
    watching.send_signal(signal.SIGINT)
    assert watching.wait(timeout=30) == 130
    assert json.loads(fourfold("index", tree, "--json"))["files"] == 0


# ---------------------------------------------------------------- kills


KILLS = 50

CHILD = """
import sys
from fourfold.memory import Memory
def main():
    memory = Memory.open(sys.argv[1], embedder="none", background=False)
    print("begins", flush=True)
    memory.index_folders([sys.argv[2]])
    print("ends", flush=True)
    memory.close()
main()
"""


def grow(tree: Path, generator: random.Random) -> None:
    """Notes that name and link to each other, code, and a few files that cannot be read."""
    words = [f"word{number}" for number in range(300)]
    for number in range(300):
        body = "\n\n".join(" ".join(generator.choices(words, k=60)) for _ in range(generator.randrange(1, 12)))
        linked = f"[[Note {generator.randrange(300)}]] and Note {generator.randrange(300)}"
        write(tree, {f"{number % 7}/Note {number}.md": f"# Note {number}\n\n{linked}\n\n## Part {number}\n\n{body}"})
    write(tree, {f"code/m{number}.py": f"def f{number}():\n    return {number}\n" for number in range(40)})
    write(tree, {f"{number}.dat2": b"\0" * 10 for number in range(5)})
    for path in tree.rglob("*"):
        if path.is_file():
            os.utime(path, (1_700_000_000, 1_700_000_000.5))


def run_until(store: Path, tree: Path, seconds: float | None) -> bool:
    """Whether the run finished before it was killed."""
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(store), str(tree)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    if seconds is not None:
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
    said, _ = process.communicate()
    return "ends" in said


def exported(store: Path, target: Path) -> str:
    with Memory.open(store, embedder="none", background=False) as memory:
        memory.index()
        assert memory.check() == []
        memory.export(target)
    return target.read_text("utf-8")


@pytest.mark.soak
@pytest.mark.spec("S3.1")
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_run_can_be_continued_to_the_same_store(tmp_path: Path) -> None:
    generator = random.Random(6)
    tree = tmp_path / "tree"
    grow(tree, generator)
    started = time.monotonic()
    assert run_until(tmp_path / "whole", tree, None)
    length = time.monotonic() - started
    whole = exported(tmp_path / "whole", tmp_path / "whole.jsonl")
    kills, stores, amid = 0, 0, 0
    while kills < KILLS:
        store = tmp_path / f"store-{stores}"
        stores += 1
        for _ in range(5):
            kills += 1
            if run_until(store, tree, generator.uniform(0, length / 2)):
                break
            amid += 1
        assert run_until(store, tree, None)
        assert exported(store, tmp_path / "again.jsonl") == whole
    print(f"{kills} kills, {amid} amid a run, {stores} stores: each as that of a run that nothing disturbed")  # noqa: T201
    assert amid > KILLS / 2

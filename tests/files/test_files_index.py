"""`index`: what a run stores, and that the next one does no more than it has to (S3.1)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from files_support import items, names, write

from fourfold import limits
from fourfold.errors import InvalidQuery, NotFound
from fourfold.ingest import formats
from fourfold.ingest import walk as walking
from fourfold.ingest.ignore import Rules
from fourfold.ingest.sync import index_folders
from fourfold.memory import Memory
from fourfold.model import Filters

pytestmark = pytest.mark.spec("S3.1")

LONG = "\n\n".join(f"Paragraph {number} is about bees. " + "It goes on. " * 20 for number in range(20))


async def test_every_kind_of_text_is_stored_with_its_place(memory: Memory, tree: Path) -> None:
    write(
        tree,
        {
            "notes/plan.md": "# Plan\n\nBees first.\n\n## Hives\n\n" + "Two hives. " * 50,
            "page.html": "<title>A page</title><h1>Wasps</h1><p>None here.</p>",
            "plain.txt": "Honey in jars.",
            "tool.py": "import os\n\n\ndef smoke():\n    return 1\n",
        },
    )
    report = await memory.index_folders([tree])
    assert (report.files, report.new, report.opened) == (4, 4, 4)
    found = await items(memory)
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
    assert (await memory.search("honey", only=["keyword"])).results[0].item == found["plain.txt", 0]


async def test_a_second_run_opens_nothing(memory: Memory, tree: Path) -> None:
    write(tree, {"a.md": "bees", "b/c.txt": "wasps", "picture.dat2": b"\0\1\2"})
    await memory.index_folders([tree])
    report = await memory.index_folders([tree])
    assert (report.opened, report.unchanged, report.chunks, report.touched) == (0, 2, 0, False)
    assert report.skipped["no text in a known encoding"].count == 1


async def test_one_changed_file_costs_one_file(memory: Memory, tree: Path) -> None:
    write(tree, {f"{number}.txt": f"number {number}" for number in range(20)})
    await memory.index_folders([tree])
    before = await items(memory)
    write(tree, {"7.txt": "another number"})
    report = await memory.index_folders([tree])
    assert (report.opened, report.changed, report.unchanged, report.chunks) == (1, 1, 19, 1)
    after = await items(memory)
    assert after["7.txt", 0].text == "another number"
    assert after["7.txt", 0].id == before["7.txt", 0].id
    assert {key: item for key, item in after.items() if key[0] != "7.txt"} == {
        key: item for key, item in before.items() if key[0] != "7.txt"
    }


async def test_a_paragraph_at_the_top_leaves_the_sections_below_what_they_are(memory: Memory, tree: Path) -> None:
    text = "".join(f"## Part {number}\n\n{'word ' * 100}\n\n" for number in range(6))
    write(tree, {"long.md": text})
    await memory.index_folders([tree])
    before = {item.text: item.id for item in (await items(memory)).values()}
    write(tree, {"long.md": "## New\n\n" + "fresh " * 100 + "\n\n" + text})
    await memory.index_folders([tree])
    after = {item.text: (item.id, item.chunk_index) for item in (await items(memory)).values()}
    assert all(after[text][0] == id for text, id in before.items())
    assert sorted(number or 0 for _, number in after.values()) == list(range(7))


async def test_deleted_files_go_and_moved_ones_keep_their_items(memory: Memory, tree: Path) -> None:
    write(tree, {"old/bees.md": LONG, "wasps.txt": "wasps"})
    await memory.index_folders([tree])
    before = {number: item.id for (name, number), item in (await items(memory)).items() if name == "bees.md"}
    (tree / "new").mkdir()
    (tree / "old/bees.md").rename(tree / "new/honey bees.md")
    (tree / "wasps.txt").unlink()
    report = await memory.index_folders([tree])
    assert (report.moved, report.removed, report.new) == (1, 1, 0)
    after = await items(memory)
    assert {number: item.id for (_, number), item in after.items()} == before
    assert await names(memory) == {"honey bees.md"}
    assert len(after) > 2


async def test_a_copy_is_no_move(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "same"})
    await memory.index_folders([tree])
    write(tree, {"b.txt": "same"})
    report = await memory.index_folders([tree])
    assert (report.new, report.moved, report.removed) == (1, 0, 0)
    assert await names(memory) == {"a.txt", "b.txt"}


async def test_verify_finds_a_change_that_size_and_time_hide(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "bees", "b.txt": "same"})
    await memory.index_folders([tree])
    known = (tree / "a.txt").stat()
    write(tree, {"a.txt": "wasp"})
    os.utime(tree / "a.txt", ns=(known.st_atime_ns, known.st_mtime_ns))
    assert (await memory.index_folders([tree])).opened == 0
    report = await memory.index_folders([tree], verify=True)
    assert (report.opened, report.changed, report.unchanged) == (2, 1, 1)
    assert (await items(memory))["a.txt", 0].text == "wasp"


async def test_a_touched_file_is_read_but_not_stored_anew(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "bees"})
    await memory.index_folders([tree])
    before = await items(memory)
    os.utime(tree / "a.txt", (1, 1))
    report = await memory.index_folders([tree])
    assert (report.opened, report.unchanged, report.changed) == (1, 1, 0)
    assert await items(memory) == before
    assert (await memory.index_folders([tree])).opened == 0


async def test_what_was_forgotten_comes_back_with_the_next_run(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "bees", "b.txt": "wasps"})
    await memory.index_folders([tree])
    await memory.forget_matching(Filters(path="**/a.txt"))
    assert (await memory.index_folders([tree])).new == 1
    assert await names(memory) == {"a.txt", "b.txt"}


async def test_folders_and_namespaces_are_apart(memory: Memory, tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "tree2"
    write(tree, {"a.txt": "bees"})
    write(other, {"b.txt": "wasps"})
    await memory.index_folders([tree, other])
    (other / "b.txt").unlink()
    assert (await memory.index_folders([tree])).removed == 0
    assert await names(memory) == {"a.txt", "b.txt"}
    assert (await memory.index_folders([other])).removed == 1
    assert (await memory.within("elsewhere").index_folders([tree])).new == 1


async def test_a_missing_folder_removes_nothing(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "bees"})
    await memory.index_folders([tree])
    tree.rename(tree.with_name("away"))
    with pytest.raises(NotFound):
        await memory.index_folders([tree])
    tree.with_name("away").rename(tree)
    with pytest.raises(NotFound):
        await memory.index_folders([tree / "gone.txt"])
    assert await names(memory) == {"a.txt"}


async def test_a_single_file_is_indexed_and_its_neighbours_are_left_alone(memory: Memory, tree: Path) -> None:
    write(tree, {"a.md": "bees", "a.md.txt": "wasps", "hidden/.b.md": "ants", ".gitignore": "a.md"})
    report = await memory.index_folders([tree / "a.md", tree / "hidden" / ".b.md"])
    assert (report.files, report.new) == (2, 2)
    assert await names(memory) == {"a.md", ".b.md"}
    await memory.index_folders([tree / "a.md.txt"])
    write(tree, {"a.md": "bees and more"})
    assert (await memory.index_folders([tree / "a.md"])).changed == 1
    assert await names(memory) == {"a.md", "a.md.txt", ".b.md"}


async def test_excluded_files_are_left_out_and_go(memory: Memory, tree: Path) -> None:
    write(tree, {"a.md": "bees", "drafts/b.md": "wasps", "c.log": "ants", ".gitignore": "!c.log"})
    assert (await memory.index_folders([tree])).new == 3
    report = await memory.index_folders([tree], exclude=["drafts/", "*.log"])
    assert report.removed == 2
    assert report.skipped[walking.EXCLUDED].examples == [f"{tree.as_posix()}/{name}" for name in ("c.log", "drafts")]
    assert await names(memory) == {"a.md"}
    for glob in ("", "# x", "!a.md"):
        with pytest.raises(InvalidQuery, match="excludes nothing"):
            await memory.index_folders([tree], exclude=[glob])


async def test_tags_of_a_run_are_those_of_its_files(memory: Memory, tree: Path) -> None:
    write(tree, {"a.md": "bees #hum", "b.txt": "wasps"})
    await memory.index_folders([tree])
    report = await memory.index_folders([tree], tags=["work", "Bees"])
    assert report.changed == 2
    tagged = {name: sorted(item.tags) for (name, _), item in (await items(memory)).items()}
    assert tagged == {"a.md": ["Bees", "hum", "work"], "b.txt": ["Bees", "work"]}
    assert (await memory.index_folders([tree], tags=["work", "Bees"])).opened == 0
    await memory.index_folders([tree])
    assert (await items(memory))["b.txt", 0].tags == ()


async def test_an_unreadable_folder_keeps_what_was_known(
    memory: Memory, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not stop root, which tests may run as: the system's refusal is made up."""
    write(tree, {"in/a.txt": "bees", "b.txt": "wasps"})
    await memory.index_folders([tree])
    real = walking.Folder.folder

    def refused(self: walking.Folder, name: str) -> walking.Folder:
        if name == "in":
            raise PermissionError(13, "denied")
        return real(self, name)

    monkeypatch.setattr(walking.Folder, "folder", refused)
    report = await memory.index_folders([tree])
    assert report.removed == 0
    assert report.skipped[walking.UNREADABLE].examples == [f"{tree.as_posix()}/in/"]
    assert await names(memory) == {"a.txt", "b.txt"}


def limit_file_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (walking, formats):
        monkeypatch.setattr(module, "FILE_BYTES", size)


async def test_large_empty_and_binary_files_are_left_out_and_named(
    memory: Memory, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_file_size(monkeypatch, 1000)
    write(tree, {"large.txt": "x" * 1001, "fits.txt": "x" * 1000, "none.txt": "", "blank.txt": " \n ", "a.png": "x"})
    report = await memory.index_folders([tree])
    assert await names(memory) == {"fits.txt"}
    reasons = {reason: few.count for reason, few in report.skipped.items()}
    assert reasons == {walking.LARGE: 1, walking.EMPTY: 1, "nothing but white space": 1, walking.BINARY_NAME: 1}
    assert limits.FILE_BYTES == 10 * 1024 * 1024


async def test_a_file_that_grows_too_large_goes(memory: Memory, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, {"a.txt": "bees"})
    await memory.index_folders([tree])
    limit_file_size(monkeypatch, 3)
    assert (await memory.index_folders([tree])).removed == 1
    assert await names(memory) == set()


async def test_progress_ends_with_all_files(memory: Memory, tree: Path) -> None:
    write(tree, {f"{number}.txt": f"number {number}" for number in range(150)})
    steps: list[tuple[int, int]] = []
    await memory.index_folders([tree], progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (150, 150)
    assert steps == sorted(steps)
    assert len(steps) >= 3


async def test_an_interrupted_run_keeps_what_was_done(memory: Memory, tree: Path) -> None:
    write(tree, {f"{number:03}.txt": f"number {number}" for number in range(200)})

    class Stop(Exception): ...

    def stop(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        await index_folders(memory.store, memory.namespace, [tree], progress=stop)
    stored = len(await items(memory))
    assert 0 < stored < 200
    report = await memory.index_folders([tree])
    assert (report.new, report.unchanged) == (200 - stored, stored)


@pytest.mark.spec("B12")
async def test_neighbours_of_a_chunk(memory: Memory, tree: Path) -> None:
    write(tree, {"long.txt": LONG})
    await memory.index_folders([tree])
    found = await items(memory)
    third = found["long.txt", 2]
    assert [item.chunk_index for item in await memory.around(third.id)] == [1, 2, 3]
    assert [item.chunk_index for item in await memory.around(third.id, 2, 0)] == [0, 1, 2]
    alone = await memory.add("no file")
    assert await memory.around(alone.id) == [alone]
    with pytest.raises(InvalidQuery):
        await memory.around(third.id, 101, 0)


async def test_times_of_files_are_times_of_items(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "bees", "odd.txt": "wasps"})
    os.utime(tree / "a.txt", (1_000_000_000, 1_000_000_000))
    os.utime(tree / "odd.txt", (1, -(10**11)))
    await memory.index_folders([tree])
    assert (await items(memory))["a.txt", 0].created_at.year == 2001


async def test_a_gigabyte_is_not_opened(memory: Memory, tree: Path) -> None:
    write(tree, {"a.txt": "bees", "huge.txt": ""})
    os.truncate(tree / "huge.txt", 1 << 30)
    report = await memory.index_folders([tree])
    assert (report.opened, report.skipped[walking.LARGE].examples) == (1, [(tree / "huge.txt").as_posix()])


async def test_a_file_that_grows_while_it_is_read_is_given_up(
    memory: Memory, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a.txt": "bees"})
    limit_file_size(monkeypatch, 4)
    found = walking.walk(walking.Target(tree.resolve()))
    monkeypatch.setattr(walking, "walk", lambda *_: found)
    write(tree, {"a.txt": "bees and wasps"})
    report = await memory.index_folders([tree])
    assert report.skipped[walking.LARGE].count == 1
    assert await names(memory) == set()


async def test_what_somebody_else_stores_meanwhile_is_not_taken_away(
    memory: Memory, tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def elsewhere() -> None:
        async with await Memory.open(tmp_path / "store", embedder="none", background=False) as other:
            await other.index_folders([tree])

    def walk(target: walking.Target, exclude: Rules | None) -> walking.Walk:
        monkeypatch.undo()
        found = walking.walk(target, exclude)
        write(tree, {"b.txt": "wasps"})
        asyncio.run(elsewhere())
        return found

    write(tree, {"a.txt": "bees"})
    monkeypatch.setattr(walking, "walk", walk)
    assert (await memory.index_folders([tree])).removed == 0
    assert await names(memory) == {"a.txt", "b.txt"}


async def test_a_store_is_no_folder_of_files(tree: Path) -> None:
    write(tree, {"a.txt": "bees"})
    async with await Memory.open(tree / "store", embedder="none", background=False) as memory:
        report = await memory.index_folders([tree])
        assert report.skipped[walking.STORE].examples == [f"{tree.as_posix()}/store/"]
        assert (await memory.index_folders([tree])).opened == 0
        assert await names(memory) == {"a.txt"}

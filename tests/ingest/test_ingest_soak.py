"""Long test: kills at any point of an index run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from files_support import write

from fourfold.memory import Memory

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


def run(store: Path, tree: Path, seconds: float | None) -> bool:
    """Whether the run finished before it was killed."""
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(store), str(tree)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
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
    assert run(tmp_path / "whole", tree, None)
    length = time.monotonic() - started
    whole = exported(tmp_path / "whole", tmp_path / "whole.jsonl")
    kills, stores, amid = 0, 0, 0
    while kills < KILLS:
        store = tmp_path / f"store-{stores}"
        stores += 1
        for _ in range(5):
            kills += 1
            if run(store, tree, generator.uniform(0, length / 2)):
                break
            amid += 1
        assert run(store, tree, None)
        assert exported(store, tmp_path / "again.jsonl") == whole
    print(f"{kills} kills, {amid} amid a run, {stores} stores: each as that of a run that nothing disturbed")  # noqa: T201
    assert amid > KILLS / 2

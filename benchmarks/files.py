"""Indexing real folders: how long a run takes, what the next one costs, and how much memory. No vectors are made.

python benchmarks/files.py [FOLDER...]      this repository, Python's standard library, the machine's package docs
python benchmarks/files.py --many 100000    this many small files
python benchmarks/files.py --first FOLDER   the first run only: seconds of the clock and of the processor
python benchmarks/files.py --crafted        files that are made to hold up a parser, one by one
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from fourfold.ingest.sync import IndexReport, reasons
from fourfold.memory import Memory

REPOSITORY = Path(__file__).parent.parent


def real_folders(folder: Path) -> list[Path]:
    """Copies the standard library without installed packages."""
    library = folder / "library"
    shutil.copytree(sysconfig.get_paths()["stdlib"], library, ignore=shutil.ignore_patterns("site-packages"))
    return [path for path in (REPOSITORY, library, Path("/usr/share/doc")) if path.is_dir()]


def many_files(folder: Path, count: int) -> None:
    for number in range(count):
        place = folder / f"{number // 1000:03}"
        if number % 1000 == 0:
            place.mkdir()
        (place / f"note-{number}.md").write_text(f"# Note {number}\n\nWord{number % 977} beside word{number % 613}.\n")


def bare_walk(folders: Sequence[Path]) -> tuple[float, int]:
    """Names and sizes of all files, and nothing else."""
    started, count = time.perf_counter(), 0
    for top in folders:
        for above, _, names in os.walk(top):
            for name in names:
                try:
                    os.stat(os.path.join(above, name))  # noqa: PTH116, PTH118
                except OSError:
                    continue
                count += 1
    return time.perf_counter() - started, count


def timed(memory: Memory, folders: Sequence[Path]) -> tuple[float, IndexReport]:
    started = time.perf_counter()
    report = memory.index_folders(folders)
    return time.perf_counter() - started, report


def measure(folders: Sequence[Path], changed: Path | None) -> None:
    with tempfile.TemporaryDirectory() as store:
        memory = Memory.open(store, embedder="none", background=False)
        spent, report = timed(memory, folders)
        say(f"first run       {spent:8.2f} s", report)
        for reason, few in reasons(report.skipped):
            print(f"    {few.count:7} skipped: {reason}")
        print(f"peak memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f} MB")
        memory.index()  # waits for background work
        beside_walks(memory, folders)
        if changed is not None:
            changed.write_text(f"changed at {time.time()}\n")
            spent, report = timed(memory, folders)
            say(f"one changed     {spent:8.2f} s", report)
        memory.close()


def beside_walks(memory: Memory, folders: Sequence[Path], rounds: int = 9) -> None:
    """Runs over unchanged files and bare walks in turns: who else uses the machine disturbs both alike."""
    walks, runs = list[Spent](), list[Spent]()
    for _ in range(rounds):
        started = now()
        _, count = bare_walk(folders)
        walks.append(since(started))
        started = now()
        _, report = timed(memory, folders)
        runs.append(since(started))
    print(f"bare walk       {middle(walks)}   {count} files")
    say(f"second run      {middle(runs)}", report)
    ratios = (median(run[kind] / walk[kind] for run, walk in zip(runs, walks, strict=True)) for kind in (0, 1))
    print("second run      {:.2f} times a bare walk, in processor time {:.2f} times".format(*ratios))


Spent = tuple[float, float]
"""Seconds, and seconds of the processor."""


def now() -> Spent:
    return time.perf_counter(), time.process_time()


def since(started: Spent) -> Spent:
    wall, processor = now()
    return wall - started[0], processor - started[1]


def middle(spent: Sequence[Spent]) -> str:
    wall, processor = (median(each[kind] for each in spent) for kind in (0, 1))
    return f"{wall * 1000:8.1f} ms ({processor * 1000:.1f} of the processor)"


def say(title: str, report: IndexReport) -> None:
    print(f"{title}   {report.files} files, {report.opened} opened, {report.chunks} chunks stored")


def measure_first(folders: Sequence[Path]) -> None:
    """Processor time includes the process that reads files."""
    with tempfile.TemporaryDirectory() as store:
        memory = Memory.open(store, embedder="none", background=False)
        before = os.times()
        started = time.perf_counter()
        report = memory.index_folders(folders)
        spent = time.perf_counter() - started
        memory.close()
    after = os.times()
    processor = sum(after[:4]) - sum(before[:4])
    say(f"first run {spent:8.2f} s, {processor:8.2f} s of the processor", report)


def measure_crafted() -> None:
    """Each file alone, in a store of its own; peak memory is that of the largest process so far."""
    sys.path.append(str(REPOSITORY / "tests" / "unit" / "ingest"))
    from crafted import crafted

    for name, data in crafted().items():
        with tempfile.TemporaryDirectory() as folder:
            (tree := Path(folder) / "tree").mkdir()
            (tree / name).write_bytes(data)
            os.utime(tree / name, (1_700_000_000, 1_700_000_000))
            memory = Memory.open(Path(folder) / "store", embedder="none", background=False)
            before = os.times()
            spent, report = timed(memory, [tree])
            memory.close()
            processor = sum(os.times()[:4]) - sum(before[:4])
            outcome = next(iter(report.skipped), f"{report.chunks} chunks")
            print(f"{name:24} {spent:6.2f} s {processor:6.2f} s of the processor   {outcome}", flush=True)
    for who, title in ((resource.RUSAGE_SELF, "index run"), (resource.RUSAGE_CHILDREN, "reader")):
        print(f"peak memory, {title:10} {resource.getrusage(who).ru_maxrss / 1024:6.0f} MB")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--many", type=int, default=0)
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--crafted", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.crafted or asked.first:
        measure_crafted() if asked.crafted else measure_first(asked.folders)
        return
    with tempfile.TemporaryDirectory() as folder:
        (extra := Path(folder) / "many").mkdir()
        many_files(extra, asked.many or 1)
        folders = [extra] if asked.many else [*(asked.folders or real_folders(Path(folder))), extra]
        measure(folders, next(extra.rglob("*.md")))


if __name__ == "__main__":
    main(sys.argv[1:])

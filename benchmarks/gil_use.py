"""Print what the GIL does while 1, 2 and 8 threads search one store: who releases it, and how long it is idle.

    python benchmarks/gil_use.py --items 10000

On Linux, with a C compiler and a Python that is a shared library. The time that a search holds the GIL bounds what any
number of threads can do; each release may hand it over, and it is idle until the other thread has woken up.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from budget import Queries
from setting import options_parser, setting_of

SOURCE = Path(__file__).with_name("gil_use.c")
PRELOADED = "FOURFOLD_GIL_USE"
CLIENTS = (1, 2, 8)
SEARCHES = 2000
ROOM = 1 << 16
LEAST = 0.5
"""Releases per search, below which a library is not listed."""


@dataclass(frozen=True, slots=True)
class Use:
    """Microseconds and counts per search."""

    wall: float
    held: float
    idle: float
    handovers: float
    releases: dict[str, tuple[float, float]]
    """By library, how often and for how many microseconds."""


def measured(library: ctypes.PyDLL, queries: Queries, clients: int) -> Use:
    """Let the clients ask all queries together."""
    totals, lines = (ctypes.c_long * 3)(), ctypes.create_string_buffer(ROOM)
    count = SEARCHES // clients * clients

    def ask(client: int) -> None:
        for number in range(SEARCHES // clients):
            queries.ask((client * queries.count // clients + number) % queries.count)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(time.sleep, [0.01] * clients))  # all threads have started
        begin = time.perf_counter()
        library.gil_begin()
        list(pool.map(ask, range(clients)))
        library.gil_end(totals, lines, ctypes.c_size_t(ROOM))
        wall = (time.perf_counter() - begin) * 1e6
    releases: dict[str, tuple[float, float]] = {}
    for line in lines.value.decode().splitlines():
        path, times, nanoseconds = line.rsplit(" ", 2)
        name = library_name(Path(path))
        before = releases.get(name, (0.0, 0.0))
        releases[name] = before[0] + int(times) / count, before[1] + int(nanoseconds) / count / 1e3
    held, idle, handovers = totals
    return Use(wall / count, held / count / 1e3, idle / count / 1e3, handovers / count, releases)


def library_name(path: Path) -> str:
    """The package, if an extension module is a package itself, or the name of the file."""
    name = path.name.partition(".")[0]
    return path.parent.name if name == "__init__" else name


def main() -> None:
    """Compile the library, or, if it is preloaded, measure."""
    if PRELOADED not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            target = str(Path(folder) / "gil_use.so")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", target, str(SOURCE), "-ldl"], check=True)
            environment = {**os.environ, "LD_PRELOAD": target, PRELOADED: target}
            sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode)
    library = ctypes.PyDLL(os.environ[PRELOADED])
    setting = setting_of(options_parser(__doc__).parse_args())
    queries = Queries(setting.store(), setting.corpus)
    uses = {clients: measured(library, queries, clients) for clients in CLIENTS}
    print("| threads | µs per search | GIL held | GIL idle | hand-overs | times one thread |")
    print("|--:|--:|--:|--:|--:|--:|")
    for clients, use in uses.items():
        times = uses[1].wall / use.wall
        print(f"| {clients} | {use.wall:.0f} | {use.held:.0f} | {use.idle:.0f} | {use.handovers:.1f} | {times:.2f} |")
    print("\n| two threads release the GIL in | times | for µs |\n|---|--:|--:|")
    for name, (count, outside) in sorted(uses[2].releases.items(), key=lambda each: -each[1][0]):
        if count >= LEAST:
            print(f"| {name} | {count:.1f} | {outside:.0f} |")
    queries.close()


if __name__ == "__main__":
    main()

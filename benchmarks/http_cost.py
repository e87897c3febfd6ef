"""What HTTP adds to a search: `python benchmarks/http_cost.py` compares POST /search with Memory.search.

10,000 items, vectors given, ten results. Both sides ask the same questions in turn, against the same store. CPU time
depends less than the other figures on what else the machine does.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

from fourfold import Memory, NewItem

ITEMS, DIMENSION, QUERIES, WARM = 10_000, 384, 500, 50
PATH = "/v1/namespaces/default/search"


def vocabulary(chooser: random.Random) -> list[str]:
    """Made-up words of letters; with common beginnings or digits, every text would match every query."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    return sorted({"".join(chooser.choices(syllables, k=3)) + "n" for _ in range(3000)})


def fill(memory: Memory, words: list[str], chooser: random.Random) -> None:
    for start in range(0, ITEMS, 1000):
        memory.add_many(
            [
                NewItem(
                    " ".join(chooser.choices(words, k=60)),
                    key=str(number),
                    vector=[chooser.gauss(0, 1) for _ in range(DIMENSION)],
                )
                for number in range(start, start + 1000)
            ]
        )
    memory.index()


def cpu_seconds(process: int) -> float:
    """Of all its threads, since it began (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    chooser = random.Random(18)
    with tempfile.TemporaryDirectory() as folder:
        words = vocabulary(chooser)
        with Memory.open(folder, embedder="none") as memory:
            fill(memory, words, chooser)
        command = [sys.executable, "-m", "fourfold", "--store", folder, "serve", "--port", "0"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={"FOURFOLD_EMBEDDER": "none"})
        assert server.stderr is not None
        port = int(server.stderr.readline().split("http://127.0.0.1:")[1].split()[0])
        connection = HTTPConnection("127.0.0.1", port)
        library: list[float] = []
        http: list[float] = []
        making: list[float] = []
        library_cpu = server_before = 0.0
        with Memory.open(folder, embedder="none", background=False) as memory:
            for number in range(QUERIES + WARM):
                text = " ".join(chooser.choices(words, k=4))
                vector = [chooser.gauss(0, 1) for _ in range(DIMENSION)]
                if number == WARM:
                    library_cpu, server_before = 0.0, cpu_seconds(server.pid)
                cpu, started = time.process_time(), time.perf_counter()
                found = memory.search(text, vector=vector)
                middle = time.perf_counter()
                library_cpu += time.process_time() - cpu
                snippets = [result.snippet for result in found.results]
                snippets_ms = (time.perf_counter() - middle) * 1000
                body = json.dumps({"query": text, "vector": vector})
                sending = time.perf_counter()
                connection.request("POST", PATH, body, {"content-type": "application/json"})
                answer = json.loads(connection.getresponse().read())
                ended = time.perf_counter()
                assert [each["id"] for each in answer["results"]] == [result.id for result in found.results]
                assert [each["snippet"] for each in answer["results"]] == snippets
                if number >= WARM:
                    making.append(snippets_ms)
                    library.append((middle - started) * 1000)
                    http.append((ended - sending) * 1000)
        server_cpu = cpu_seconds(server.pid) - server_before
        server.terminate()
        server.wait()
    for name, times, cpu in (("Memory.search", library, library_cpu), ("POST /search", http, server_cpu)):
        p95 = sorted(times)[int(0.95 * len(times))]
        print(
            f"{name:14} p50 {statistics.median(times):6.2f} ms   p95 {p95:6.2f} ms   CPU {cpu * 1000 / QUERIES:5.2f} ms"
        )
    extra = statistics.median(after - before for before, after in zip(library, http, strict=True))
    more = (server_cpu - library_cpu) * 1000 / QUERIES
    print(f"HTTP adds      p50 {extra:6.2f} ms   CPU {more:5.2f} ms")
    print(f"of which       p50 {statistics.median(making):6.2f} ms   for 10 snippets, which Memory makes on first use")


if __name__ == "__main__":
    main()

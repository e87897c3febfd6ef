from pathlib import Path

from fourfold import Filters, Memory, NewItem

Path("log.txt").write_text("09:00 deploy started\n09:04 deploy failed: disk full\n09:30 deploy done\n")

with Memory.open("notes", embedder="none") as memory:
    lines = Path("log.txt").read_text().splitlines()
    memory.add_many([NewItem(line, key=f"log-{number}", tags=("log",)) for number, line in enumerate(lines, 1)])
    best = memory.search("what failed?").results[0]
    print(best.key, best.snippet)  # -> log-2 09:04 deploy **failed**: disk full
    print(memory.forget_matching(Filters(tags=("log",))))  # -> 3

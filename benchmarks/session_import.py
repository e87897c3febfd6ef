"""Import of generated sessions of Claude Code: time and memory, a second import, and one that is killed and resumed.

python benchmarks/session_import.py --megabytes 1000

Most of a session is output of tools, as in real ones. Vectors are not made. The killed import gets a store of its own,
is killed several times, and has to end with the same items and raw records as the other one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fourfold import Memory

MEGABYTE = 1_000_000
KILLS = 5
TEXT = """
the a we they it this that should could must will was is are not only when where which because after before while
service worker queue table index cache token request response client server module test build branch release merge
error timeout retry limit order payment invoice customer report folder file line column schema migration deploy
config setting value default option flag user session login password account mail template page button form field
rename move remove add change keep check compare measure explain decide prefer avoid document review fix break
slow fast small large old new first last wrong right stable simple strict common rare local remote
"""
WORDS = TEXT.split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where files and stores are made and stay")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="fourfold-sessions-"))
    try:
        measure(folder, options.megabytes * MEGABYTE)
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path, size: int) -> None:
    sessions = generate(folder / "projects", size)
    print(f"generated {size / MEGABYTE:,.0f} MB in {sessions} sessions")
    whole, killed = folder / "whole", folder / "killed"
    report(imported(whole, folder / "projects"), "imported")
    report(imported(whole, folder / "projects"), "imported again")
    wanted = summary(whole)
    began, read = time.monotonic(), list[int]()
    for _ in range(KILLS):
        read.append(imported(killed, folder / "projects", kill_at=size // (KILLS + 1))["read"])
    megabytes = ", ".join(f"{each / MEGABYTE:,.0f}" for each in read)
    report(imported(killed, folder / "projects"), f"resumed after kills at {megabytes} MB of what was left")
    print(f"killed and resumed: {time.monotonic() - began:,.1f} s in all")
    found = summary(killed)
    print(f"the same items: {found == wanted}; {found['items']:,} items, {found['turns']:,} turns, "
          f"{found['repeated']} places twice")  # fmt: skip


def report(found: dict[str, Any], title: str) -> None:
    print(
        f"{title}: {found['seconds']:,.1f} s, peak memory {found['peak_mb']:,.0f} MB, {found['new']} new, "
        f"{found['changed']} changed, {found['unchanged']} unchanged sessions, {found['turns']:,} turns, "
        f"{found['items']:,} items"
    )


# ---------------------------------------------------------------- one import, in a process of its own

CHILD = """
import json, resource, sys, time
from fourfold import Memory
began = time.monotonic()
with Memory.open(sys.argv[1], embedder="none", background=False) as memory:
    report = memory.import_sessions("claude-code", sys.argv[2], progress=lambda done, total: print(done, flush=True))
names = "new changed unchanged turns items".split()
peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps({"seconds": time.monotonic() - began, "peak_mb": peak * 1024 / 1e6}
    | {name: getattr(report, name) for name in names}))
"""


def imported(store: Path, place: Path, kill_at: int | None = None) -> dict[str, Any]:
    """What the child reports, or how much it had read when it was killed."""
    command = [sys.executable, "-c", CHILD, str(store), str(place)]
    line, read = "{}", 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            read = int(line) if line.strip().isdigit() else read
            if kill_at is not None and read >= kill_at:
                child.kill()
                return {"read": read}
    return json.loads(line) | {"read": read}


def summary(store: Path) -> dict[str, Any]:
    digest, places, turns = hashlib.blake2b(), Counter[tuple[str, int]](), Counter[str]()
    with Memory.open(store, embedder="none") as memory:
        memory.export(exported := store.with_suffix(".jsonl"))
    rows = list[str]()
    with exported.open(encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            if record["type"] == "item":
                places[record["path"], record["chunk_index"]] += 1
                rows.append(f"{record['path']} {record['chunk_index']} {record['text']}")
            elif record["type"] == "raw":
                turns[f"{record['session_id']} {record['created_at']} {record['content']}"] += 1
    for row in (*sorted(rows), *sorted(f"{turn} {count}" for turn, count in turns.items())):
        digest.update(row.encode())
    repeated = sum(count - 1 for count in places.values())
    return {"items": len(rows), "turns": turns.total(), "repeated": repeated, "digest": digest.hexdigest()}


# ---------------------------------------------------------------- sessions


def generate(folder: Path, size: int) -> int:
    random_ = random.Random(38)
    number = written = 0
    while written < size:
        project = folder / f"-home-ada-src-project{number % 12}"
        project.mkdir(parents=True, exist_ok=True)
        file = project / f"{random_.getrandbits(64):016x}.jsonl"
        most = min(int(random_.lognormvariate(14, 1)), size - written)  # about 1.2 MB, some 10 MB
        at = 0
        with file.open("w", encoding="utf-8") as out:
            for line in events(random_, file.stem, number):
                out.write(line)
                if (at := out.tell()) >= most:
                    break
        written += at
        number += 1
    return number


def events(random_: random.Random, session: str, number: int) -> Iterator[str]:
    time_ = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=7 * number)
    turn = 0

    def event(speaker: str, content: Any) -> str:
        nonlocal time_, turn
        time_ += timedelta(seconds=20)
        turn += 1
        row = {
            "parentUuid": f"{session}-{turn - 1}", "isSidechain": False, "userType": "external",
            "cwd": f"/home/ada/src/project{number % 12}", "sessionId": session, "version": "2.1.230",
            "type": speaker, "message": {"role": speaker, "content": content}, "uuid": f"{session}-{turn}",
            "timestamp": time_.isoformat().replace("+00:00", "Z"),
        }  # fmt: skip
        return json.dumps(row, ensure_ascii=False) + "\n"

    while True:
        yield event("user", said(random_, 30))
        for _ in range(random_.randint(2, 8)):
            yield event("assistant", [{"type": "text", "text": said(random_, 120)}])
            for call in range(random_.randint(1, 3)):
                tool = f"toolu_{turn}_{call}"
                yield event(
                    "assistant", [{"type": "tool_use", "id": tool, "name": "Read", "input": {"file_path": "/a"}}]
                )
                output = "\n".join(said(random_, 12) for _ in range(random_.randint(1, 60)))
                yield event("user", [{"type": "tool_result", "tool_use_id": tool, "content": output}])
        if random_.random() < 0.05:
            image = {"type": "base64", "media_type": "image/png", "data": random_.randbytes(60_000).hex()}
            yield event("user", [{"type": "image", "source": image}])


def said(random_: random.Random, words: int) -> str:
    return " ".join(random_.choices(WORDS, k=random_.randint(words // 2, words * 2))).capitalize() + "."


if __name__ == "__main__":
    main()

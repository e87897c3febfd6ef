"""Code for Windows and macOS, run here: the parts of the system that these platforms lack or refuse are switched off.

This proves that the paths are complete and agree with each other. It does not prove that the systems behave as assumed.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fourfold.ingest import reader_child

pytestmark = pytest.mark.spec("C19")

WINDOWS = """
import fcntl, os, stat, subprocess, sys, sysconfig, tempfile, threading, types
import apsw, numpy
sysconfig.get_config_vars()  # the interpreter's own, which have other names on Windows
import fourfold.native.bindings  # the kernel of this machine

for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_DIRECTORY", "register_at_fork", "nice", "getuid"):
    delattr(os, name)
os.supports_dir_fd, os.supports_fd = set(), set()

def locking(handle, mode, count):
    assert (mode, count) == (2, 1)
    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count)

sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.platform = "win32"
def forbidden(*arguments, **named): raise AssertionError("Windows has no fork and no flock")
os.fork = fcntl.flock = forbidden
"""


def windows(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", WINDOWS + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_store_and_a_folder_of_files_without_the_means_of_posix(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (notes / "deep").mkdir(parents=True)
    (notes / "deep" / "heron.md").write_text("# Heron\n\nThe heron nests behind gate 7\n")
    (notes / "plain.txt").write_text("Otters sleep holding hands\n")
    (tmp_path / "secret.txt").write_text("The canary is outside\n")
    (notes / "link.txt").symlink_to(tmp_path / "secret.txt")
    (notes / "folder").symlink_to(tmp_path)
    said = windows(
        """
from fourfold import Memory
with Memory.open(sys.argv[1], embedder="none") as memory:
    memory.add("Stored by hand")
    memory.index_folders([sys.argv[2]])
    memory.index()
with Memory.open(sys.argv[1], embedder="none") as memory:
    print([result.item.text for result in memory.search("heron gate").results])
    print(sorted(item.path or "" for item in memory.list()))
    print(memory.search("canary").results, memory.check())
""",
        tmp_path / "store",
        notes,
    )
    found, paths, rest = said.strip().splitlines()
    assert "The heron nests behind gate 7" in found
    assert "deep/heron.md" in paths
    assert "link" not in paths
    assert rest == "() []"


def test_one_process_holds_the_lease_by_the_locks_of_windows(tmp_path: Path) -> None:
    said = windows(
        """
from pathlib import Path
from fourfold.index.locks import Lease, ReadLock, unread
path = Path(sys.argv[1])
ask = (
    "import fcntl, sys\\nfile = open(sys.argv[1], 'ab')\\n"
    "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1); print('free')\\nexcept OSError: print('held')"
)
def state(): return subprocess.run([sys.executable, "-c", ask, path], capture_output=True, text=True).stdout.strip()
lease = Lease(path)
with lease.held() as first, lease.held() as second:
    print(first, second, state())
print(state())
ReadLock(path.parent).release()
with unread(path.parent) as free:
    print(free)
""",
        tmp_path / "leases" / "one",
    )
    assert said.split() == ["True", "True", "held", "free", "True"]


def test_a_limit_that_macos_refuses_does_not_end_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(kind: int, limits: tuple[int, int]) -> None:
        asked.append(kind)
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr("sys.platform", "darwin")
    reader_child._limit()  # type: ignore[reportPrivateUsage]
    assert asked == [resource.RLIMIT_AS, resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC]
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ValueError, match="exceeds"):
        reader_child._limit()  # type: ignore[reportPrivateUsage]

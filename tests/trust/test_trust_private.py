"""Files with stored content are readable by their owner only, whatever the umask and the mode of the folder."""

from __future__ import annotations

import os
import re
import stat
import zipfile
from pathlib import Path

import pytest
import trust_child
from engine_support import WordEmbedder, notes

from fourfold import owner_only
from fourfold.evaluation.bench import CachedEmbedder
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.storage.sqlite.database import Tuning
from fourfold.storage.sqlite.store import SqliteStore

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")

OLD = sorted((Path(__file__).parent / "stores").glob("schema-*.zip"))
BEFOREHAND = ("store", "out", "old")


def loose(root: Path) -> dict[str, str]:
    """Files that are not 0600 and folders that are not 0700, except those that existed before."""
    found: dict[str, str] = {}
    for path in root.rglob("*"):
        name, mode = str(path.relative_to(root)), path.lstat().st_mode
        if name not in BEFOREHAND and stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600):
            found[name] = oct(stat.S_IMODE(mode))
    return found


def work_without_umask(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The loose files while a store is open, and after every operation that writes files."""
    os.umask(0)
    embedder = CachedEmbedder(WordEmbedder(), root / "caches" / "vectors")
    with Memory.open(SqliteStore(root / "store", tuning=Tuning(exact_rows=200)), embedder=embedder) as memory:
        memory.add_many(notes(1200), wait=True)
        memory.index()
        memory.forget([item.id for item in memory.list(limit=1)])
        memory.add_many([*notes(300, "later"), NewItem("one more", title="Tower Clock", tags=("t",))], wait=True)
        memory.index()
        assert memory.search("heron").degraded == ()
        while_open = {name: mode for name, mode in loose(root).items() if not name.startswith("old/")}
        memory.export(root / "out" / "store.jsonl")
        memory.backup(root / "out" / "backup.db")
    Memory.restore(root / "out" / "backup.db", root / "made" / "anew")
    with Memory.open(root / "old", embedder=WordEmbedder(), background=False) as memory:
        memory.repair()
    embedder.close()
    return while_open, loose(root)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """World-readable folders, and an older store with world-readable files."""
    root = tmp_path / "root"
    for name in BEFOREHAND:
        (root / name).mkdir(parents=True)
    with zipfile.ZipFile(OLD[0]) as stored:
        stored.extractall(root / "old")
    for path in (root, *root.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    return root


@pytest.mark.spec("B9")
def test_files_of_stores_backups_exports_and_caches_are_owner_only(root: Path) -> None:
    while_open, afterwards = trust_child.run(work_without_umask, root)
    assert while_open == {}
    assert afterwards == {}
    names = {path.name for path in root.rglob("*")}
    assert {"fourfold.db", "lease", "manifest.json", "terms", "faiss", "vectors-3.db"} <= names
    assert {"store.jsonl", "backup.db"} <= names
    assert any(name.startswith("before-schema") for name in names)


CREATING = re.compile(
    r"""\bopen\([^)]*["']r?b?[wax+]b?\+?["']|\.(mkdir|touch|write_text|write_bytes)\(|\bO_CREAT\b|makedirs\(|FileHandler"""
)
# The last two create a member of an archive, and log the change of an item.
HARMLESS = re.compile(r"\bowner_only\.|\bos\.devnull\b|\barchive\.open\(|\.touch\(.*, Change\.")
ELSEWHERE = {
    "owner_only.py": "the one place",
    "mcp/stdio.py": "opens descriptors that exist",
}


def test_files_are_created_in_one_module_only() -> None:
    package = Path(owner_only.__file__).parent
    found = {
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if CREATING.search(line) and not HARMLESS.search(line) and str(path.relative_to(package)) not in ELSEWHERE
    }
    assert found == set()

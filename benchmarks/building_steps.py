"""The budget of a bulk load: processor time per item of each step of storing and of building, in one process each.

python benchmarks/building_steps.py --items 20000

Storing is measured without the process that publishes, and publishing afterwards, in a process of its own. Steps are
timed by the clock of their thread, so other processes do not count.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from building import bare_sqlite, bare_tantivy, spent, write_tokens
from corpus import Corpus
from engine import BATCH, batches
from setting import Setting, in_process, options_parser, setting_of

Steps = dict[str, float]


def main() -> None:
    parser = options_parser(__doc__)
    parser.set_defaults(items=20_000)
    setting = setting_of(parser.parse_args())
    count = setting.corpus.item_count
    for title, steps in measured(setting).items():
        print(f"\n{title}")
        for name, seconds in steps.items():
            print(
                f"  {seconds / count * 1e6:6.1f} us  {name}"
                if not name.startswith("once")
                else f"  {seconds:6.2f} s   {name}"
            )


def measured(setting: Setting) -> dict[str, Steps]:
    corpus = setting.corpus
    with setting.scratch() as folder:
        tokens = in_process(write_tokens, corpus, folder)
        _, rows = in_process(spent, bare_sqlite, corpus, folder)
        _, words = in_process(spent, bare_tantivy, tokens, folder)
        return {
            "bare": {"SQLite, with reading the corpus": rows, "tantivy": words},
            "storing": in_process(storing, corpus, folder / "store"),
            "building": in_process(building, folder / "store", folder / "index"),
        }


class Clock:
    """Adds up the processor time of functions that it wraps."""

    def __init__(self) -> None:
        self.seconds: Steps = defaultdict(float)

    def wrap(self, owner: Any, name: str, step: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[step] += time.thread_time() - begin

        setattr(owner, name, timed)


def storing(corpus: Corpus, folder: Path) -> Steps:
    """Steps of `add_many`. Those that contain others have the time of these subtracted."""
    begin = time.process_time()
    from fourfold import Memory, NewItem, Settings
    from fourfold import validation as rules
    from fourfold.engine import item_methods, secret_policy
    from fourfold.storage.sql.rows import Row
    from fourfold.storage.sqlite import namespaces
    from fourfold.storage.sqlite.database import Tuning
    from fourfold.storage.sqlite.namespaces import SqliteItems
    from fourfold.storage.sqlite.store import SqliteStore
    from fourfold.text import language

    steps: Steps = {"once: imports": time.process_time() - begin}
    begin = time.process_time()
    language._model()
    steps["once: the language model"] = time.process_time() - begin
    clock = Clock()
    clock.wrap(rules, "detect_many", "languages")
    clock.wrap(rules, "check_vectors", "vectors checked")
    clock.wrap(item_methods.rules, "checked_many", "checked")
    clock.wrap(secret_policy.SecretPolicy, "items", "secrets")
    clock.wrap(SqliteItems, "_insert_tags", "rows of tags, three an item")
    clock.wrap(SqliteItems, "_insert_vectors", "rows of vectors")
    clock.wrap(SqliteItems, "_insert", "inserted")
    clock.wrap(namespaces.SourceRows, "log", "rows of the change log")
    clock.wrap(Row, "as_item", "items returned to the caller")
    clock.wrap(item_methods.ItemMethods, "add_many", "added")
    store = SqliteStore(folder, tuning=Tuning(load_at_items=1 << 40))
    begin = time.thread_time()
    with Memory.open(store, embedder="none", settings=Settings(links=False), background=False) as memory:
        for batch in batches(zip(corpus.items(), corpus.vectors(), strict=True), BATCH):
            new = [NewItem(item.text, title=item.title, key=item.key, tags=item.tags, vector=v) for item, v in batch]
            memory.add_many(new)
        whole = time.thread_time() - begin
    took = clock.seconds
    parts = (took["rows of tags, three an item"], took["rows of vectors"])
    known = sum(took[name] for name in ("checked", "secrets", "inserted", "rows of the change log"))
    return steps | {
        "reading the corpus, creating the items": whole - took["added"],
        "types, NFC, limits, names": took["checked"] - took["languages"] - took["vectors checked"],
        "languages": took["languages"],
        "vectors checked": took["vectors checked"],
        "secrets": took["secrets"],
        "rows of items, counters": took["inserted"] - sum(parts),
        "rows of tags, three an item": parts[0],
        "rows of vectors": parts[1],
        "rows of the change log": took["rows of the change log"],
        "items returned to the caller": took["items returned to the caller"],
        "commit, identities and the rest": took["added"] - known - took["items returned to the caller"],
    }


def building(store: Path, folder: Path) -> Steps:
    """Steps of one publication of everything."""
    begin = time.process_time()
    from fourfold.index import publish
    from fourfold.storage.sqlite import namespaces, publishing
    from fourfold.storage.sqlite.database import Database

    steps: Steps = {"once: imports": time.process_time() - begin}
    clock = Clock()
    clock.wrap(namespaces.SourceRows, "texts", "texts read")
    texts = namespaces.SourceRows.texts
    namespaces.SourceRows.texts = lambda self, ids: list(texts(self, ids))  # the wrapped one is lazy
    clock.wrap(namespaces.SourceRows, "texts", "texts read back")
    clock.wrap(publish.postings, "write", "postings")
    clock.wrap(publish, "publish_vectors", "columns of vectors, read back and written")
    job = publishing.PublishJob(str(store / "fourfold.db"), str(folder), 1, "budget", faiss=False)
    database = Database(Path(job.database))
    whole = time.process_time()
    for _ in publishing.publish_here(job, database):
        pass
    whole = time.process_time() - whole
    database.close()
    took = clock.seconds
    took.pop("texts read")
    return steps | took | {"analysis, columns of terms": whole - sum(took.values())}


if __name__ == "__main__":
    main()

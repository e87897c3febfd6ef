from pathlib import Path

from fourfold import Filters, Memory

notes = Path("notes")
notes.mkdir()
(notes / "router.md").write_text("# Router\n\nThe password is in the blue folder.\n\n## Reset\n\nHold the button.\n")
(notes / "shopping.txt").write_text("Bread, and oil for the clock.\n")

with Memory.open("store", embedder="none") as memory:
    report = memory.index_folders([notes])
    print(report.new, "files,", report.chunks, "chunks")  # -> 2 files, 2 chunks
    first = memory.search("router password", filters=Filters(path="notes/*.md")).results[0]
    print(first.item.title, first.item.metadata["line"])  # -> Router 1

    (notes / "shopping.txt").rename(notes / "errands.txt")
    again = memory.index_folders([notes])
    print(again.moved, "moved,", again.opened, "opened")  # -> 1 moved, 1 opened

    named = memory.search("what was in errands.txt?", preset="files").results[0]
    print([line.source for line in named.contributions])  # -> ['keyword', 'file name']

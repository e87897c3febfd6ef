from pathlib import Path

from fourfold import Memory

vault = Path("vault")
vault.mkdir()
(vault / "Garden.md").write_text("---\ntags: [outside]\naliases: [The Plot]\n---\nBeans grow beside [[Tool Shed]].\n")
(vault / "Tool Shed.md").write_text("# Where the tools are\n\nRakes hang on the left.\n")
(vault / "diary.md").write_text("Sat in The Plot all day.\n")

with Memory.open("store", embedder="none") as memory:
    memory.index_folders([vault])
    shed = memory.search('"Tool Shed"', only=["graph"])
    print([result.item.title for result in shed.results])  # -> ['Where the tools are', 'Garden']
    plot = memory.search("what happened in the Plot?", only=["graph"])
    print([result.item.title for result in plot.results])  # -> ['Garden', 'diary']
    print(memory.tags())  # -> [('outside', 1)]

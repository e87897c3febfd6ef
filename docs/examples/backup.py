from fourfold import Memory

with Memory.open("notes", embedder="none") as memory:
    memory.add("The release leaves on Monday")
    memory.backup("monday.backup")
    print(memory.export("notes.jsonl"))  # -> {'namespace': 1, 'item': 1}

Memory.restore("monday.backup", "restored")  # a folder that holds no store yet
with Memory.open("restored", embedder="none") as memory:
    print(memory.list()[0].text)  # -> The release leaves on Monday

with Memory.open("imported", embedder="none") as memory:
    print(memory.import_file("notes.jsonl"))  # -> {'namespace': 1, 'item': 1}

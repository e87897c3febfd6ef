import json
from pathlib import Path

from fourfold import Memory
from fourfold.integrations.importers import import_from

# With mem0: memories = mem0.Memory.from_config(...).get_all(filters={"user_id": "ada"})
memories = {"results": [{"id": "1", "memory": "Ada prefers morning meetings", "user_id": "ada"}]}
Path("memories.json").write_text(json.dumps(memories), "utf-8")

with Memory.open("notes") as memory:
    report = import_from(memory, "mem0", Path("memories.json"))
    print(report.items, report.left_out)  # -> 1 {}
    print(memory.search("When should I meet Ada?").results[0].item.text)  # -> Ada prefers morning meetings

from fourfold import Memory
from fourfold.integrations.claude_memory import FourfoldMemoryTool

with Memory.open("notes") as memory:
    tool = FourfoldMemoryTool(memory)
    # With a client: client.beta.messages.tool_runner(model=..., messages=..., tools=[tool])
    asked = {"command": "create", "path": "/memories/ada.md", "file_text": "Ada prefers morning meetings\n"}
    print(tool.call(asked))  # -> File created successfully at: /memories/ada.md
    print(memory.search("When should I meet Ada?").results[0].key)  # -> /memories/ada.md

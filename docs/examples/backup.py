import asyncio

from fourfold import Memory


async def main() -> None:
    async with await Memory.open("notes", embedder="none") as memory:
        await memory.add("The release leaves on Monday")
        await memory.backup("monday.backup")
        print(await memory.export("notes.jsonl"))  # -> {'namespace': 1, 'item': 1}

    await Memory.restore("monday.backup", "restored")  # a folder that holds no store yet
    async with await Memory.open("restored", embedder="none") as memory:
        print((await memory.list())[0].text)  # -> The release leaves on Monday

    async with await Memory.open("imported", embedder="none") as memory:
        print(await memory.import_file("notes.jsonl"))  # -> {'namespace': 1, 'item': 1}


asyncio.run(main())

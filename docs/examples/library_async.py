import asyncio

from fourfold import Memory, NewItem


async def main() -> None:
    async with await Memory.open("notes") as memory:
        await memory.add(NewItem("The spare key is with Mrs Okafor on the second floor", tags=("home",)), wait=True)
        await memory.add(NewItem("The dentist moved to Harbour Street", tags=("health",)), wait=True)
        response = await memory.search("I am locked out, who can help?", top_k=1)
        for result in response.results:
            print(result.id, result.item.text)  # -> 1 The spare key is with Mrs Okafor on the second floor


asyncio.run(main())

import asyncio

from fourfold import AsyncMemory, NewItem


async def main() -> None:
    async with await AsyncMemory.open("notes") as memory:
        await memory.add(NewItem("The Wi-Fi password is on the back of the router", tags=("home",)), wait=True)
        await memory.add(NewItem("The dentist moved to Harbour Street", tags=("health",)), wait=True)
        response = await memory.search("How do I log in to the wireless network?", top_k=1)
        for result in response.results:
            print(result.id, result.item.text)  # -> 1 The Wi-Fi password is on the back of the router


asyncio.run(main())

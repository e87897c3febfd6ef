import asyncio

from fourfold import HybridSearch, Memory, NewItem, Query, Ranking
from fourfold.model import Hit, Plan
from fourfold.retrievers.keyword import KeywordRetriever


class Newest:
    name = "newest"

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def search(self, query: Query, limit: int) -> Ranking:
        items = await self._memory.list(query.filters, limit=limit)
        return Ranking(tuple(Hit(item.id, 1 / place) for place, item in enumerate(items, 1)))


async def main() -> None:
    plan = Plan("mine", ("keyword", "newest"), "rrf", k=60, top_k=5, weights={"keyword": 0.6, "newest": 0.4})
    async with await Memory.open("notes", embedder="none") as memory:
        await memory.add_many([NewItem("the deploy failed"), NewItem("the deploy failed again"), NewItem("lunch")])
        search = HybridSearch([KeywordRetriever(memory.store), Newest(memory)])
        found = await search.run(Query("default", "deploy failed"), plan)
        print(list(found.fusion.ids))  # -> [2, 1, 3]
        for line in found.fusion.contributions(2):
            print(line.source, line.rank, round(line.value, 5))
            # -> keyword 1 0.00984
            # -> newest 2 0.00645


asyncio.run(main())

from fourfold import HybridSearch, Memory, NewItem, Query, Ranking
from fourfold.engine.retrievers import KeywordRetriever
from fourfold.retrieval import Hit, Plan


class Newest:
    name = "newest"

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def search(self, query: Query, limit: int) -> Ranking:
        items = self._memory.list(query.filters, limit=limit)
        return Ranking(tuple(Hit(item.id, 1 / place) for place, item in enumerate(items, 1)))


plan = Plan("mine", ("keyword", "newest"), "rrf", k=60, top_k=5, weights={"keyword": 0.6, "newest": 0.4})
with Memory.open("notes", embedder="none") as memory:
    memory.add_many([NewItem("the deploy failed"), NewItem("the deploy failed again"), NewItem("lunch")])
    with memory.store.snapshot("default") as snapshot:
        search = HybridSearch([KeywordRetriever(snapshot.words), Newest(memory)])
        found = search.run(Query("default", "deploy failed"), plan)
    print(list(found.fusion.ids))  # -> [2, 1, 3]
    for line in found.fusion.contributions(2):
        print(line.source, line.rank, round(line.value, 5))
        # -> keyword 1 0.00984
        # -> newest 2 0.00645

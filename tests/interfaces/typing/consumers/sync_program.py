"""A script with the blocking memory, as a caller writes it."""

from datetime import UTC, datetime
from pathlib import Path

from fourfold import Edge, Filters, FourfoldError, Item, ItemPatch, Memory, MetadataTest, NewItem, SearchResponse


def report(folder: Path) -> list[str]:
    with Memory.open(folder / "store", embedder="none", namespace="project") as memory:
        first: Item = memory.add(NewItem("The deploy failed", key="d1", tags=("ops",), metadata={"line": 3}))
        memory.add_many([NewItem("The deploy works", created_at=datetime(2026, 1, 1, tzinfo=UTC))])
        changed: Item = memory.update(first.id, ItemPatch(add_tags=("urgent",)), wait=True)
        response: SearchResponse = memory.search(
            "deploy", top_k=5, filters={"line": {"gte": 2}}, weights={"keyword": 1.0}, explain=True
        )
        by_text = memory.search("deploy", filters="tag = ops and not kind = code")
        strict = Filters(kind="note", metadata=(MetadataTest("line", "in", [1, 2]),), where={"or": [{"line": 1}]})
        lines = [f"{result.id} {result.score:.3f} {result.snippet}" for result in response.results]
        edge: Edge = memory.add_edge("Deploy", "breaks", "Shop", 0.5)
        neighbours = [neighbor.node.name for neighbor in memory.neighbors("Deploy", depth=2)]
        counts: list[tuple[str, int]] = memory.tags()
        other: Memory = memory.within("personal")
        page: list[Item] = other.list(strict, limit=10)
        try:
            memory.get([changed.id, "key:d1"])
        except FourfoldError as error:
            lines.append(f"{error.message}: {error.remedy}")
        return [*lines, *neighbours, edge.relation, str(counts), str(len(page) + len(by_text.results))]

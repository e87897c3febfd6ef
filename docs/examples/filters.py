from datetime import UTC, datetime

from fourfold import Filters, MetadataTest, NewItem, SyncMemory

with SyncMemory.open("notes", embedder="none") as memory:
    memory.add(NewItem("Invoice 17 is paid", tags=("money",), kind="note", metadata={"amount": 120}))
    memory.add(NewItem("Invoice 18 is open", tags=("money", "open"), kind="note", metadata={"amount": 900}))
    memory.add(NewItem("Die Rechnung 19 ist offen", tags=("money", "open"), metadata={"amount": 40}))

    def found(filters: Filters, query: str = "invoice Rechnung") -> list[int]:
        return [result.id for result in memory.search(query, filters=filters).results]

    print(found(Filters(tags=("money", "open"))))  # -> [3, 2]
    print(found(Filters(tags=("open", "late"), any_tag=True)))  # -> [3, 2]
    print(found(Filters(kind="note", language="en")))  # -> [1, 2]
    print(found(Filters(metadata=(MetadataTest("amount", "gte", 100), MetadataTest("amount", "lt", 500)))))  # -> [1]
    print(found(Filters(created_to=datetime(2020, 1, 1, tzinfo=UTC))))  # -> []

from datetime import UTC, datetime
from typing import Any

from fourfold import Filters, Memory, NewItem

with Memory.open("notes", embedder="none") as memory:
    memory.add(NewItem("Invoice 17 is paid", tags=("money",), kind="note", metadata={"amount": 120}))
    memory.add(NewItem("Invoice 18 is open", tags=("money", "open"), kind="note", metadata={"amount": 900}))
    memory.add(NewItem("Die Rechnung 19 ist offen", tags=("money", "open"), metadata={"amount": 40}))

    def found(filters: Filters | dict[str, Any] | str) -> list[int]:
        return [result.id for result in memory.search("invoice Rechnung", filters=filters).results]

    print(found("amount >= 100 and amount < 500"))  # -> [1]
    print(found("tag = open and not (kind = note or lang = en)"))  # -> [3]
    print(found({"amount": {"gte": 100}, "tag": {"in": ["open", "late"]}}))  # -> [2]
    print(found({"or": [{"kind": {"exists": False}}, {"amount": {"ne": 120}}]}))  # -> [3, 2]
    print(found(Filters(tags=("money", "open"))))  # -> [3, 2]
    print(found(Filters(kind="note", where="amount > 500")))  # -> [2]
    print(found(Filters(created_to=datetime(2020, 1, 1, tzinfo=UTC))))  # -> []

    print(memory.search("invoice", filters="kind = nota").notes[0])  # -> no item has the kind 'nota'; kinds: note

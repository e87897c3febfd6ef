from fourfold import Memory, NewItem

with Memory.open("sources", embedder="none") as memory:
    memory.add(NewItem("The office opens at nine, says a web page about the office", source="import"))
    memory.add("The office opens at ten")
    for weights in ({}, {"import": 0.3}):
        best = memory.search("When does the office open?", source_weights=weights).results[0]
        print(best.item.source, best.source_weight)
        # -> import 1.0
        # -> user 1.0

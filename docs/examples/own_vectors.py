from fourfold import Memory, NewItem

with Memory.open("notes", embedder="none") as memory:
    memory.add(NewItem("a red apple", vector=[0.9, 0.1, 0.0]))
    memory.add(NewItem("a blue whale", vector=[0.0, 0.2, 0.9]))
    response = memory.search("fruit", vector=[1.0, 0.0, 0.0], only=["semantic"])
    print(response.results[0].item.text)  # -> a red apple

from fourfold import ItemPatch, Memory, NewItem

with Memory.open("versions", embedder="none") as memory:
    item = memory.add(NewItem("The router is in room 4"))
    memory.update(item.id, ItemPatch(text="The router is in room 5"))
    print([each.text for each in memory.history(item.id)])  # -> ['The router is in room 5', 'The router is in room 4']
    memory.undo(item.id)
    print([result.item.text for result in memory.search("router").results])  # -> ['The router is in room 4']

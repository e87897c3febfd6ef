from fourfold import Memory, NewItem

with Memory.open("duplicates", embedder="none") as memory:
    first = memory.add("The key of the archive is in the blue box")
    second = memory.add(NewItem("The key of the archive is in the blue box.", key="archive", tags=("office",)))
    print(second.similar)  # -> (1,)
    print(memory.merge(first.id, [second.id]).tags)  # -> ('office',)
    print(memory.count())  # -> 1
    memory.undo(first.id)
    print([item.key for item in memory.list()])  # -> ['archive', None]

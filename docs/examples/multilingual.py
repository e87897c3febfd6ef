from fourfold import Memory

with Memory.open("notes") as memory:
    memory.add("La clé de rechange est chez Mme Okafor.", wait=True)
    memory.add("Le déjeuner est à midi.", wait=True)
    print(memory.search("Who has the spare key?").results[0].item.text)  # -> La clé de rechange est chez Mme Okafor.

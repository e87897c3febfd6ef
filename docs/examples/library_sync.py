from fourfold import SyncMemory

with SyncMemory.open("notes") as memory:
    memory.add("The spare key is with Mrs Okafor on the second floor", wait=True)
    memory.add("The dentist moved to Harbour Street", wait=True)
    best = memory.search("I am locked out, who can help?").results[0]
    print(best.item.text)  # -> The spare key is with Mrs Okafor on the second floor

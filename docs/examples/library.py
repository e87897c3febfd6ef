from fourfold import Memory

with Memory.open("my-memory") as memory:
    memory.add("The Wi-Fi password is on the back of the router", wait=True)
    memory.add("The dentist moved to Harbour Street", wait=True)
    best = memory.search("How do I log in to the wireless network?").results[0]
    print(best.item.text)  # -> The Wi-Fi password is on the back of the router

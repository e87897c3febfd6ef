from fourfold import ItemPatch, Memory

with Memory.open("here", embedder="none") as here, Memory.open("there", embedder="none") as there:
    here.add("The router is in room 4", key="router")
    here.sync(there)
    here.update("key:router", ItemPatch(text="The router is in room 5"))
    there.update("key:router", ItemPatch(text="The router is in the hall"))
    report = here.sync(there)
    print(report.conflicts, here.get(["key:router"])[0].text)  # -> 1 The router is in the hall
    print([item.text for item in here.history("key:router")][1])  # -> The router is in room 5

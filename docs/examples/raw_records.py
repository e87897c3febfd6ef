from fourfold import Memory, NewItem

with Memory.open("notes", embedder="none") as memory:
    turn = memory.add_raw("Well, so, let's say we ship on Mondays then?", speaker="Mira", session_id="2026-11-15")
    memory.add(NewItem("Releases leave on Mondays", source_ids=(turn.id,), kind="decision"))
    result = memory.search("when do we release?").results[0]
    print(result.item.source_ids)  # -> (1,)

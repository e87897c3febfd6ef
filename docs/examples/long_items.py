from fourfold import Memory, NewItem

points = " ".join(f"Point {number} of the agenda was postponed to the next meeting." for number in range(100))
with Memory.open("notes") as memory:
    memory.add(NewItem(f"{points} The harbour will be dredged in spring. {points}", title="Minutes"), wait=True)
    result = memory.search("spring work on the port", only=["semantic"]).results[0]
    print(result.part.number, "of", result.part.count)  # -> 6 of 11
    print("dredged" in result.snippet)  # -> True

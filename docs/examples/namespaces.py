from fourfold import Memory

with Memory.open("notes", namespace="project", embedder="none") as memory:
    memory.add("The release leaves on Monday")
with Memory.open("notes", namespace="personal", embedder="none") as memory:
    memory.add("On Monday I have the dentist")
    here = memory.search("monday")
    both = memory.search("monday", namespaces=["project", "personal"])
    print([result.item.namespace for result in here.results])  # -> ['personal']
    print(sorted(result.item.namespace for result in both.results))  # -> ['personal', 'project']
    print(memory.namespaces())  # -> [('personal', 1), ('project', 1)]

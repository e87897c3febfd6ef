from fourfold import Memory
from fourfold.integrations.langgraph import FourfoldStore

with Memory.open("notes") as memory:
    store = FourfoldStore(memory, fields=["text"])  # for a graph: builder.compile(store=store)
    store.put(("users", "ada"), "food", {"text": "Ada likes lentil soup", "stars": 5})
    store.put(("users", "ada"), "music", {"text": "Ada plays the cello", "stars": 4})
    print(store.search(("users",), query="What should I cook for her?", limit=1)[0].key)  # -> food
    print([item.key for item in store.search(("users", "ada"), filter={"stars": {"$lt": 5}})])  # -> ['music']
    print(store.list_namespaces())  # -> [('users', 'ada')]

import chromadb
from fourfold.embed.builtin import built_in_model
from fourfold.integrations.chroma import ChromaSearch

model = built_in_model()  # the encoder with which a collection is opened by default
texts = ["A clockmaker repairs the tower clock in spring.", "Bees keep the hive warm by shivering."]
client = chromadb.PersistentClient("chroma", chromadb.Settings(anonymized_telemetry=False))
collection = client.create_collection("articles", embedding_function=None)
collection.add(
    ids=["clock-0", "bees-0"],
    documents=texts,
    metadatas=[{"title": "Tower clock"}, {"title": "Bees"}],
    embeddings=model.embed(texts),
)

with ChromaSearch.open(collection, "store") as wiki:
    response = wiki.search("who mends the clock?")
    print([result.item.title for result in response.results])  # -> ['Tower clock', 'Bees']
    collection.delete(ids=["bees-0"])
    print(wiki.search("bees").counts)  # -> {'semantic': 1, 'keyword': 0}

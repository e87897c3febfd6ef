from fourfold import Memory
from fourfold.integrations.langchain import FourfoldRetriever, FourfoldVectorStore
from langchain_core.documents import Document

with Memory.open("notes") as memory:
    store = FourfoldVectorStore(memory)
    store.add_documents(
        [
            Document("The boiler is serviced every May", metadata={"room": "cellar", "tags": ["heating"]}),
            Document("Mrs Okafor has a spare key", metadata={"room": "hall"}),
        ],
        ids=["boiler", "key"],
    )
    print(store.similarity_search("When is the heating checked?", k=1)[0].id)  # -> boiler
    print([found.id for found in store.similarity_search("service", filter={"room": "hall"})])  # -> ['key']

    retriever = FourfoldRetriever(memory=memory, k=1, options={"only": ["keyword"]})
    best = retriever.invoke("spare key")[0]
    print(best.page_content)  # -> Mrs Okafor has a spare key
    print(list(best.metadata["fourfold"]["contributions"]))  # -> ['keyword']

from fourfold import Memory
from fourfold.integrations.llama_index import FourfoldRetriever, FourfoldVectorStore
from llama_index.core.schema import TextNode

with Memory.open("notes") as memory:
    store = FourfoldVectorStore(memory)
    store.add(
        [
            TextNode(id_="boiler", text="The boiler is serviced every May", metadata={"room": "cellar"}),
            TextNode(id_="key", text="Mrs Okafor has a spare key", metadata={"room": "hall"}),
        ]
    )
    retriever = FourfoldRetriever(memory, top_k=1)
    (best,) = retriever.retrieve("When is the heating checked?")
    print(best.node.node_id, best.score == best.node.metadata["fourfold"]["score"])  # -> boiler True
    print([found.node_id for found in store.get_nodes(["key"])])  # -> ['key']

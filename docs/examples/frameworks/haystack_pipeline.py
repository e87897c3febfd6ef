from fourfold.integrations.haystack import FourfoldDocumentStore, FourfoldRetriever
from haystack import Document, Pipeline

store = FourfoldDocumentStore("notes")
store.write_documents(
    [
        Document(content="The boiler is serviced every May", meta={"room": "cellar", "tags": ["heating"]}),
        Document(content="Mrs Okafor has a spare key", meta={"room": "hall"}),
    ]
)
pipeline = Pipeline()
pipeline.add_component("retriever", FourfoldRetriever(store, top_k=1))

hall = {"field": "meta.room", "operator": "==", "value": "hall"}
for asked in ({"query": "When is the heating checked?"}, {"query": "heating", "filters": hall}):
    found = pipeline.run({"retriever": asked})["retriever"]["documents"]
    print(found[0].content)
# -> The boiler is serviced every May
# -> Mrs Okafor has a spare key
store.close()

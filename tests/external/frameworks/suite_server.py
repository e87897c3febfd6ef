"""The adapters over a store on a server, which offers all that they need."""

from collections.abc import Iterator

import pytest
from anthropic.lib.tools import ToolError
from haystack import Document as HaystackDocument
from http_server import serving
from langchain_core.documents import Document
from llama_index.core.schema import TextNode

import fourfold
from fourfold import RemoteMemory
from fourfold.integrations import claude_memory, haystack, langchain, langgraph, llama_index


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served"), FOURFOLD_EMBEDDER="none") as server:
        yield server.url


@pytest.fixture
def remote(url: str, request: pytest.FixtureRequest) -> Iterator[RemoteMemory]:
    with fourfold.connect(url, namespace=request.node.name) as memory:
        yield memory


def test_langchain(remote: RemoteMemory) -> None:
    store = langchain.FourfoldVectorStore(remote)
    store.add_documents([Document("The boiler is serviced in May", metadata={"n": 1})], ids=["boiler"])
    assert [found.id for found in store.similarity_search("boiler", filter={"n": 1})] == ["boiler"]
    assert langchain.FourfoldRetriever(memory=remote).invoke("boiler")[0].id == "boiler"
    store.delete(["boiler", "missing"])
    assert store.get_by_ids(["boiler"]) == []


def test_haystack(remote: RemoteMemory) -> None:
    store = haystack.FourfoldDocumentStore.of(remote)
    document = HaystackDocument(content="The boiler is serviced in May", meta={"n": 1}, embedding=[0.6, 0.8])
    store.write_documents([document])
    assert store.filter_documents({"field": "meta.n", "operator": "<", "value": 2}) == [document]
    (found,) = haystack.FourfoldRetriever(store).run("boiler", query_embedding=[0.6, 0.8])["documents"]
    assert found.id == document.id


def test_claude_memory(remote: RemoteMemory) -> None:
    tool = claude_memory.FourfoldMemoryTool(remote)
    tool.call({"command": "create", "path": "/memories/a.txt", "file_text": "one"})
    tool.call({"command": "str_replace", "path": "/memories/a.txt", "old_str": "one", "new_str": "two"})
    tool.call({"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/b.txt"})
    assert str(tool.call({"command": "view", "path": "/memories/b.txt"})).endswith("\ttwo")
    with pytest.raises(ToolError, match="does not exist"):
        tool.call({"command": "delete", "path": "/memories/a.txt"})


def test_langgraph(remote: RemoteMemory) -> None:
    store = langgraph.FourfoldStore(remote)
    store.put(("users", "ada"), "food", {"text": "lentil soup", "stars": 5})
    assert [item.key for item in store.search(("users",), query="soup", filter={"stars": {"$gt": 4}})] == ["food"]
    assert store.list_namespaces() == [("users", "ada")]
    store.delete(("users", "ada"), "food")
    assert store.get(("users", "ada"), "food") is None


def test_llama_index(remote: RemoteMemory) -> None:
    store = llama_index.FourfoldVectorStore(remote)
    store.add([TextNode(id_="boiler", text="The boiler is serviced in May", embedding=[0.6, 0.8])])
    assert [found.node_id for found in store.get_nodes(["boiler"])] == ["boiler"]
    assert llama_index.FourfoldRetriever(remote).retrieve("boiler")[0].node.node_id == "boiler"
    store.clear()
    assert remote.count() == 0

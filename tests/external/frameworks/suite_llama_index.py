"""The vector store and the retriever of LlamaIndex, with real indexes of LlamaIndex on top."""

from typing import Any

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from fourfold import Memory, NewItem
from fourfold.errors import InvalidQuery
from fourfold.integrations.llama_index import FourfoldRetriever, FourfoldVectorStore

NODES = [
    TextNode(
        id_=name,
        text=text,
        metadata=metadata,
        embedding=vector,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{name[0]}")},
    )
    for name, text, metadata, vector in (
        ("a1", "The boiler is serviced in May", {"floor": -1, "tags": ["heating", "yearly"]}, [1.0, 0.0, 0.0]),
        ("a2", "The boiler makes a noise", {"floor": -1, "title": "Noise"}, [0.9, 0.1, 0.0]),
        ("b1", "The roof was repaired", {"floor": 2, "tags": ["repairs"], "by": "Bob"}, [0.0, 1.0, 0.0]),
    )
]


@pytest.fixture
def store(bare: Memory) -> FourfoldVectorStore:
    made = FourfoldVectorStore(bare)
    assert made.add(NODES) == ["a1", "a2", "b1"]
    return made


def ids(store: FourfoldVectorStore, **query: Any) -> list[str]:
    return store.query(VectorStoreQuery(similarity_top_k=10, **query)).ids or []


def test_nodes_come_back_with_relationships_and_metadata(store: FourfoldVectorStore) -> None:
    found = store.get_nodes(["b1", "a1", "missing"])
    assert [(node.node_id, node.ref_doc_id) for node in found] == [("a1", "doc-a"), ("b1", "doc-b")]
    for node, given in zip(found, (NODES[0], NODES[2]), strict=True):
        assert node.get_content() == given.get_content()
        assert node.metadata == given.metadata
        assert node.relationships == given.relationships


def test_vectors_rank_like_the_simple_store(store: FourfoldVectorStore) -> None:
    simple = SimpleVectorStore()
    simple.add(NODES)
    query = VectorStoreQuery(query_embedding=[0.5, 0.5, 0.0], similarity_top_k=3)
    assert store.query(query).ids == simple.query(query).ids
    assert store.query(query).similarities is not None


def test_each_mode_uses_its_retrievers(store: FourfoldVectorStore) -> None:
    vector = [0.0, 1.0, 0.0]
    text = VectorStoreQueryMode.TEXT_SEARCH
    assert ids(store, query_str="noise", query_embedding=vector, mode=text) == ["a2"]
    hybrid = VectorStoreQueryMode.HYBRID
    assert ids(store, query_str="noise", query_embedding=vector, mode=hybrid, alpha=0.9)[0] == "b1"
    assert ids(store, query_str="noise", query_embedding=vector, mode=hybrid, alpha=0.1)[0] == "a2"
    with pytest.raises(InvalidQuery, match="'svm' is not supported"):
        ids(store, query_str="noise", mode=VectorStoreQueryMode.SVM)


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("floor", "==", 2, {"b1"}), ("floor", "!=", 2, {"a1", "a2"}), ("floor", ">", -1, {"b1"}),
        ("floor", "<=", -1, {"a1", "a2"}), ("floor", "in", [2, 3], {"b1"}), ("floor", "nin", [2, 3], {"a1", "a2"}),
        ("tags", "any", ["repairs", "yearly"], {"a1", "b1"}), ("tags", "all", ["heating", "yearly"], {"a1"}),
        ("tags", "contains", "repairs", {"b1"}), ("by", "is_empty", None, {"a1", "a2"}),
    ],
)  # fmt: skip
def test_each_operator_of_filters(
    store: FourfoldVectorStore, key: str, operator: str, value: Any, expected: set[str]
) -> None:
    test = MetadataFilter(key=key, operator=FilterOperator(operator), value=value)
    filters = MetadataFilters(filters=[test])
    assert set(ids(store, query_embedding=[1.0, 1.0, 1.0], filters=filters)) == expected
    assert {node.node_id for node in store.get_nodes(filters=filters)} == expected


def test_filters_are_combined(store: FourfoldVectorStore) -> None:
    low = MetadataFilter(key="floor", value=-1)
    bob = MetadataFilter(key="by", value="Bob")
    combined = {
        condition: {
            node.node_id for node in store.get_nodes(filters=MetadataFilters(filters=[low, bob], condition=condition))
        }
        for condition in FilterCondition
    }
    assert combined == {FilterCondition.AND: set(), FilterCondition.OR: {"a1", "a2", "b1"}, FilterCondition.NOT: set()}
    assert ids(store, query_embedding=[1.0, 1.0, 1.0], doc_ids=["doc-b"]) == ["b1"]
    assert ids(store, query_embedding=[1.0, 1.0, 1.0], node_ids=["a2"]) == ["a2"]
    with pytest.raises(InvalidQuery, match="text_match"):
        store.get_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="by", operator="text_match", value="b")]))


async def test_nodes_are_removed_by_document_id_and_filter(store: FourfoldVectorStore) -> None:
    await store.adelete("doc-a")
    assert [node.node_id for node in await store.aget_nodes()] == ["b1"]
    await store.async_add(NODES)
    await store.adelete_nodes(["a1", "missing"])
    await store.adelete_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="floor", value=2)]))
    await store.adelete_nodes()
    result = await store.aquery(VectorStoreQuery(query_embedding=[1.0, 0.0, 0.0], similarity_top_k=5))
    assert result.ids == ["a2"]
    await store.aclear()
    assert store.client.count() == 0


def test_an_index_of_llamaindex_stores_and_finds_documents(bare: Memory) -> None:
    context = StorageContext.from_defaults(vector_store=FourfoldVectorStore(bare))
    texts = [Document(id_="d1", text="The cello is in tune"), Document(id_="d2", text="Soup is on the stove")]
    model = MockEmbedding(embed_dim=4)
    index = VectorStoreIndex.from_documents(texts, storage_context=context, embed_model=model)
    (best,) = index.as_retriever(similarity_top_k=1, vector_store_query_mode="text_search").retrieve("soup")
    assert (best.node.ref_doc_id, best.text) == ("d2", "Soup is on the stove")
    index.delete_ref_doc("d2")
    assert [item.text for item in bare.list()] == ["The cello is in tune"]


def test_a_memory_that_makes_vectors_ignores_those_of_nodes(memory: Memory) -> None:
    store = FourfoldVectorStore(memory)
    assert not store.is_embedding_query
    store.add(NODES)
    assert ids(store, query_str="noise", query_embedding=[1.0])[0] == "a2"
    assert memory.pending([item.id for item in memory.list()]) == []


async def test_the_retriever_finds_items_of_any_origin_and_explains(store: FourfoldVectorStore) -> None:
    store.client.add(NewItem("The noise comes from the pump", tags=("pump",), metadata={"floor": -2}))
    retriever = FourfoldRetriever(store.client, top_k=2, filters="floor < 0", options={"only": ["keyword"]})
    found = await retriever.aretrieve("noise pump")
    assert [node.node.node_id for node in found][1:] == ["a2"]
    assert found == retriever.retrieve("noise pump")
    first = found[0].node
    assert (first.get_content(), first.metadata["tags"]) == ("The noise comes from the pump", ["pump"])
    assert first.metadata["fourfold"]["score"] == found[0].score
    assert "fourfold" not in first.get_content("llm")

"""The standard tests of LangChain for vector stores and retrievers, unmodified; and what they do not cover."""

from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from fourfold import Memory, NewItem
from fourfold.errors import InvalidItem, RequestError
from fourfold.integrations.langchain import FourfoldRetriever, FourfoldVectorStore

HOUSE = [
    Document("The boiler is serviced every May", metadata={"room": "cellar", "floor": -1, "tags": ["heating"]}),
    Document("The roof was repaired last autumn", metadata={"room": "attic", "floor": 2, "tags": ["repairs"]}),
    Document("The boiler makes a noise at night", metadata={"room": "cellar", "floor": -1, "title": "Noise"}),
]


class TestVectorsOfLangChain(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, bare: Memory) -> FourfoldVectorStore:
        return FourfoldVectorStore(bare, self.get_embeddings())


class TestVectorsOfFourfold(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, memory: Memory) -> FourfoldVectorStore:
        return FourfoldVectorStore(memory)


class TestRetriever(RetrieversIntegrationTests):
    memory: Memory

    @pytest.fixture(autouse=True)
    def _stored(self, memory: Memory) -> None:
        FourfoldVectorStore(memory).add_documents(HOUSE)
        self.memory = memory

    @property
    def retriever_constructor(self) -> type[FourfoldRetriever]:
        return FourfoldRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return "boiler"


@pytest.fixture
def house(memory: Memory) -> FourfoldVectorStore:
    store = FourfoldVectorStore(memory)
    store.add_documents(HOUSE, ids=["service", "roof", "noise"])
    return store


def test_words_and_tags_find_documents_too(house: FourfoldVectorStore) -> None:
    by_word = house.similarity_search("noise", k=1, only=["keyword"])
    by_tag = house.similarity_search("repairs", k=1, only=["tags"])
    assert [document.id for document in (*by_word, *by_tag)] == ["noise", "roof"]
    assert by_tag[0] == HOUSE[1].model_copy(update={"id": "roof"})


def test_filters_restrict_a_search_by_metadata_and_columns(house: FourfoldVectorStore) -> None:
    low = house.similarity_search("boiler", filter={"floor": {"lt": 0}})
    assert {document.id for document in low} == {"service", "noise"}
    named = house.similarity_search("boiler", filter="floor < 0 and title exists and title = Noise")
    assert [document.id for document in named] == ["noise"]


def test_relevance_is_the_confidence(house: FourfoldVectorStore) -> None:
    scored = house.similarity_search_with_relevance_scores("noise at night", k=3)
    ranked = house.memory.search("noise at night", top_k=3).results
    assert [(document.id, score) for document, score in scored] == [(each.key, each.confidence) for each in ranked]
    sure = house.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.5})
    assert [document.id for document in sure.invoke("noise at night")] == [
        each.key for each in ranked if each.confidence >= 0.5
    ]


async def test_relevance_is_the_confidence_in_asyncio(house: FourfoldVectorStore) -> None:
    assert await house.asimilarity_search_with_relevance_scores("noise", k=2) == (
        house.similarity_search_with_relevance_scores("noise", k=2)
    )


def test_diverse_results_need_a_model(house: FourfoldVectorStore, bare: Memory) -> None:
    with pytest.raises(RequestError, match="Give this vector store an `embedding`"):
        house.max_marginal_relevance_search("boiler")
    model = VectorStoreIntegrationTests.get_embeddings()
    texts = ["a boiler", "a boiler", "the roof"]
    diverse = FourfoldVectorStore.from_texts(texts, model, ids=["1", "2", "3"], memory=bare)
    found = diverse.max_marginal_relevance_search("a boiler", k=2, fetch_k=3, lambda_mult=0.1)
    assert {document.page_content for document in found} == {"a boiler", "the roof"}
    assert [document.id for document in diverse.similarity_search_by_vector(model.embed_query("the roof"), k=1)] == [
        "3"
    ]


def test_models_of_both_sides_are_not_mixed(memory: Memory) -> None:
    with pytest.raises(RequestError, match="makes its own vectors"):
        FourfoldVectorStore(memory, VectorStoreIntegrationTests.get_embeddings())


def test_items_stored_otherwise_are_documents(memory: Memory) -> None:
    item = memory.add(NewItem("The key is under the mat", title="Key", tags=("door",), kind="note", metadata={"n": 1}))
    store = FourfoldVectorStore(memory)
    (found,) = store.similarity_search("key", k=1)
    assert found == Document(
        "The key is under the mat",
        metadata={"title": "Key", "tags": ["door"], "kind": "note", "n": 1},
        id=f"item:{item.id}",
    )
    assert store.get_by_ids([f"item:{item.id}"]) == [found]
    store.delete([f"item:{item.id}"])
    assert memory.count() == 0


def test_documents_come_back_in_the_order_of_their_ids(house: FourfoldVectorStore) -> None:
    assert [document.id for document in house.get_by_ids(["noise", "missing", "service"])] == ["noise", "service"]


def test_documents_are_found_and_deleted_by_any_spelling_of_their_ids(memory: Memory) -> None:
    store = FourfoldVectorStore(memory)
    ids = ["cafe\u0301.md", " plan.md"]  # names of files as macOS spells them, or with a space
    store.add_documents([Document("coffee"), Document("a plan")], ids=ids)
    for spelled in (ids, ["caf\u00e9.md", "plan.md"]):
        assert [document.page_content for document in store.get_by_ids(spelled)] == ["coffee", "a plan"]
    store.delete(ids)
    assert memory.count() == 0


def test_a_document_without_text_comes_back_unchanged(memory: Memory) -> None:
    store = FourfoldVectorStore(memory)
    store.add_documents([Document("", metadata={"page": 1})], ids=["blank"])
    assert store.get_by_ids(["blank"]) == [Document("", metadata={"page": 1}, id="blank")]


def test_nothing_is_stored_if_one_document_is_invalid(memory: Memory) -> None:
    store = FourfoldVectorStore(memory)
    with pytest.raises(InvalidItem, match="not JSON"):
        store.add_documents([Document("fine"), Document("wrong", metadata={"when": object()})])
    with pytest.raises(ValueError, match="2 texts and 1 ids"):
        store.add_texts(["a", "b"], ids=["1"])
    assert memory.count() == 0


def test_deleting_without_ids_empties_the_namespace_only(memory: Memory) -> None:
    memory.within("other").add("stays")
    store = FourfoldVectorStore(memory)
    store.add_texts(["goes", "goes too"])
    store.delete()
    assert (memory.count(), memory.within("other").count()) == (0, 1)


def test_the_retriever_explains_its_scores(house: FourfoldVectorStore) -> None:
    retriever = FourfoldRetriever(memory=house.memory, k=3, filter={"room": "cellar"}, options={"only": ["keyword"]})
    documents = retriever.invoke("noise")
    assert [document.id for document in documents] == ["noise"]
    reasons = documents[0].metadata["fourfold"]
    assert reasons["score"] == sum(reasons["contributions"].values())
    assert list(reasons["contributions"]) == ["keyword"]
    assert [document.id for document in retriever.invoke("boiler", filter={"room": "attic"}, only=["semantic"])] == [
        "roof"
    ]

"""Haystack's tests for document stores, unmodified; and what they do not cover."""

from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing import document_store as sync_suites
from haystack.testing import document_store_async as async_suites

from fourfold import Memory, NewItem
from fourfold.errors import RequestError
from fourfold.integrations.haystack import FourfoldDocumentStore, FourfoldRetriever


def _write_without_a_policy(document_store: FourfoldDocumentStore) -> None:
    """The suites let each store define this case."""
    document = Document(content="test doc")
    assert document_store.write_documents([document]) == 1
    with pytest.raises(DuplicateDocumentError):
        document_store.write_documents([document])


class TestStore(
    sync_suites.DocumentStoreBaseTests,
    sync_suites.DeleteByFilterTest,
    sync_suites.UpdateByFilterTest,
    sync_suites.CountDocumentsByFilterTest,
):
    @pytest.fixture
    def document_store(self, bare: Memory) -> FourfoldDocumentStore:
        return FourfoldDocumentStore.of(bare)

    def test_write_documents(self, document_store: Any) -> None:
        _write_without_a_policy(document_store)


class TestStoreInAsyncio(
    async_suites.CountDocumentsAsyncTest,
    async_suites.CountDocumentsByFilterAsyncTest,
    async_suites.DeleteByFilterAsyncTest,
    async_suites.DeleteDocumentsAsyncTest,
    async_suites.FilterDocumentsAsyncTest,
    async_suites.UpdateByFilterAsyncTest,
    async_suites.WriteDocumentsAsyncTest,
):
    @pytest.fixture
    def document_store(self, bare: Memory) -> FourfoldDocumentStore:
        return FourfoldDocumentStore.of(bare)

    async def test_write_documents_async(self, document_store: Any) -> None:
        _write_without_a_policy(document_store)


class TestStoreThatMakesVectors(TestStore):
    @pytest.fixture
    def document_store(self, memory: Memory) -> FourfoldDocumentStore:
        return FourfoldDocumentStore.of(memory)


@pytest.fixture
def store(memory: Memory) -> FourfoldDocumentStore:
    return FourfoldDocumentStore.of(memory)


def test_every_field_of_a_document_comes_back(store: FourfoldDocumentStore) -> None:
    full = Document(
        content="all of it",
        blob=ByteStream(b"\x00\xff", meta={"name": "x"}, mime_type="image/png"),
        meta={"tags": ["a"], "title": "Everything", "deep": {"er": [1, None]}},
        embedding=[0.1, 1 / 3, -2e300],
        sparse_embedding=SparseEmbedding([1, 5], [0.5, 0.25]),
    )
    blank = Document(content=None, meta={"n": 1})
    store.write_documents([full, blank])
    assert store.filter_documents() == [full, blank]


def test_duplicates_in_one_call_follow_the_policy(store: FourfoldDocumentStore) -> None:
    first, second = Document(id="1", content="first"), Document(id="1", content="second")
    with pytest.raises(DuplicateDocumentError, match="'1'"):
        store.write_documents([first, second])
    assert store.count_documents() == 0
    assert store.write_documents([first, second], DuplicatePolicy.SKIP) == 1
    assert store.filter_documents() == [first]


def test_another_spelling_of_an_id_is_a_duplicate(store: FourfoldDocumentStore) -> None:
    store.write_documents([Document(id="caf\u00e9", content="kept")])
    spelled = [Document(id="cafe\u0301", content="lost"), Document(id="caf\u00e9 ", content="lost")]
    with pytest.raises(DuplicateDocumentError):
        store.write_documents(spelled)
    assert store.write_documents(spelled, DuplicatePolicy.SKIP) == 0
    assert [document.content for document in store.filter_documents()] == ["kept"]
    assert (
        store.write_documents(
            [Document(id="a", content="first"), Document(id="a ", content="second")], DuplicatePolicy.SKIP
        )
        == 1
    )


def test_deleting_everything_leaves_a_store_that_works(store: FourfoldDocumentStore) -> None:
    store.write_documents([Document(content="a"), Document(content="b")])
    store.delete_all_documents()
    assert store.count_documents() == 0
    store.write_documents([Document(content="c")])
    assert [document.content for document in store.filter_documents()] == ["c"]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"field": "content", "operator": "==", "value": "x"}, "cannot be filtered"),
        ({"field": "meta.n", "operator": "~", "value": 1}, "unknown comparison operator"),
        ({"operator": "XOR", "conditions": []}, "unknown logical operator"),
        ({"operator": "AND", "conditions": []}, "empty part"),
    ],
)
def test_a_filter_that_cannot_be_evaluated_is_an_error(
    store: FourfoldDocumentStore, filters: dict[str, Any], message: str
) -> None:
    with pytest.raises(FilterError, match=message):
        store.filter_documents(filters)


def test_filters_by_id_and_with_none_in_a_list(store: FourfoldDocumentStore) -> None:
    store.write_documents([Document(id="a", content="a", meta={"n": 1}), Document(id="b", content="b")])
    assert [each.id for each in store.filter_documents({"field": "id", "operator": "in", "value": ["b", "c"]})] == ["b"]
    with_none = {"field": "n", "operator": "in", "value": [None, 2]}
    assert [each.id for each in store.filter_documents(with_none)] == ["b"]
    assert store.filter_documents({"field": "n", "operator": "in", "value": []}) == []


def test_the_retriever_ranks_by_words_tags_and_vectors(store: FourfoldDocumentStore) -> None:
    store.write_documents(
        [
            Document(
                id="boiler", content="The boiler is serviced in May", meta={"room": "cellar", "tags": ["heating"]}
            ),
            Document(id="roof", content="The roof was repaired", meta={"room": "attic"}),
        ]
    )
    retriever = FourfoldRetriever(store, top_k=1)
    (best,) = retriever.run("boiler service")["documents"]
    assert (best.id, best.meta["room"]) == ("boiler", "cellar")
    assert best.score is not None
    by_tag = FourfoldRetriever(store, options={"only": ["tags"]}).run("heating")["documents"]
    assert [each.id for each in by_tag] == ["boiler"]
    attic = {"field": "meta.room", "operator": "==", "value": "attic"}
    assert [each.id for each in retriever.run("boiler", filters=attic)["documents"]] == ["roof"]


async def test_embeddings_of_documents_are_searched_if_the_store_makes_none(bare: Memory) -> None:
    store = FourfoldDocumentStore.of(bare)
    store.write_documents(
        [Document(id="x", content="one", embedding=[1.0, 0.0]), Document(id="y", content="two", embedding=[0.0, 1.0])]
    )
    retriever = FourfoldRetriever(store, options={"only": ["semantic"]})
    found = await retriever.run_async("anything", query_embedding=[0.1, 0.9], top_k=2)
    assert [each.id for each in found["documents"]] == ["y", "x"]


def test_a_pipeline_with_the_retriever_survives_serialisation(tmp_path: Path) -> None:
    place = str(tmp_path / "notes")
    with Memory.open(place, embedder="none", namespace="house") as memory:
        memory.add(NewItem("The key is under the mat", tags=("door",)))
    pipeline = Pipeline()
    store = FourfoldDocumentStore(place, namespace="house", embedder="none")
    pipeline.add_component("find", FourfoldRetriever(store, top_k=3, options={"only": ["keyword"]}))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["fourfold.integrations.haystack"])
    (found,) = again.run({"find": {"query": "key"}})["find"]["documents"]
    assert (found.id, found.content, found.meta) == ("item:1", "The key is under the mat", {"tags": ["door"]})
    again.get_component("find").document_store.close()


def test_a_store_of_an_open_memory_cannot_be_serialised(store: FourfoldDocumentStore) -> None:
    with pytest.raises(RequestError, match="Give it a folder"):
        store.to_dict()

"""Hybrid search over an existing Chroma collection, embedded and on a real server."""

import gc
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from engine_support import WordEmbedder

from fourfold.cli.main import main
from fourfold.config import Settings
from fourfold.errors import InvalidQuery, NotFound, SearchFailed, StoreUnavailable
from fourfold.integrations import chroma as mirrors
from fourfold.integrations.chroma import ChromaSearch, is_cosine, open_collection
from fourfold.model import Filters, MetadataTest
from fourfold.storage.sqlite.store import SqliteWords
from fourfold.text.secrets import SecretMode
from fourfold.wire import response_json

pytestmark = pytest.mark.spec("S2.2")

ARTICLES = {
    "clock-0": (
        "The tower clock stops every winter because its oil gets thick.",
        {"title": "Tower clock", "year": 1990},
    ),
    "clock-1": (
        "A clockmaker repairs the tower clock in spring.",
        {"title": "Tower clock", "year": 1995, "chunk_index": 1},
    ),
    "bees-0": ("Bees keep the hive warm by shivering.", {"title": "Bees", "year": 2001, "tags": "insects, honey"}),
    "oil-0": ("Mineral oil gets thick when it is cold.", {"title": "Oil", "year": 2010, "source": "oil.md"}),
}


def vectors(texts: list[str]) -> Any:
    return WordEmbedder().embed(texts)


def add(collection: Any, articles: dict[str, Any]) -> None:
    documents = [text for text, _ in articles.values()]
    collection.add(
        ids=list(articles),
        documents=documents,
        metadatas=[data for _, data in articles.values()],
        embeddings=vectors(documents),
    )


@pytest.fixture
def collection(client: Any, request: pytest.FixtureRequest) -> Any:
    """A collection with cosine distance on the server, and with another distance in the embedded client."""
    space = {"hnsw": {"space": "cosine" if "server" in request.node.name else "l2"}}
    made = client.create_collection(f"articles-{uuid4().hex[:8]}", embedding_function=None, configuration=space)
    add(made, ARTICLES)
    return made


@pytest.fixture
def wiki(collection: Any, tmp_path: Path) -> Iterator[ChromaSearch]:
    opened = ChromaSearch.open(collection, tmp_path / "store", embedder=WordEmbedder())
    yield opened
    opened.close()


def keys(response: Any) -> list[str | None]:
    return [result.key for result in response.results]


def test_a_collection_is_searched_by_vectors_and_words(wiki: ChromaSearch, collection: Any) -> None:
    response = wiki.search("who repairs the tower clock?")
    said = response_json(response)
    assert keys(response)[0] == "clock-1"
    assert said["preset"] == "wiki"
    assert said["applied_weights"]["semantic"] == said["applied_weights"]["keyword"] == 0.5
    first = said["results"][0]
    assert (first["title"], first["chunk_index"], first["metadata"]["year"]) == ("Tower clock", 1, 1995)
    assert "**tower** **clock**" in first["snippet"]
    (asked, stored) = vectors(["who repairs the tower clock?", ARTICLES["clock-1"][0]])
    assert first["semantic_similarity"] == pytest.approx(float(asked @ stored), abs=1e-4)
    assert first["semantic_rank"] == 1
    assert first["fts_rank"] == 1
    assert {"semantic", "keyword", "fusion", "total"} <= said["timings_ms"].keys()


def test_weights_decide_between_the_lists(wiki: ChromaSearch) -> None:
    by_words = wiki.search("thick oil", weights={"keyword": 1.0})
    assert set(keys(by_words)) == {"oil-0", "clock-0"}
    by_vectors = wiki.search("thick oil", weights={"semantic": 1.0})
    assert len(keys(by_vectors)) == len(ARTICLES)
    fused = wiki.search("thick oil", fusion="auto", top_k=2)
    assert set(keys(fused)) == {"oil-0", "clock-0"}


@pytest.mark.parametrize(
    ("filters", "passing"),
    [
        (Filters(metadata=(MetadataTest("year", "gte", 1995),)), {"clock-1", "bees-0", "oil-0"}),
        (Filters(metadata=(MetadataTest("title", "eq", "Tower clock"),)), {"clock-0", "clock-1"}),
        (Filters(tags=("insects",)), {"bees-0"}),
        (Filters(path="*.md"), {"oil-0"}),
        (Filters(kind="none"), set()),
    ],
)
def test_filters_act_in_both(wiki: ChromaSearch, filters: Filters, passing: set[str]) -> None:
    response = wiki.search("oil of the tower clock and bees", filters=filters)
    assert set(keys(response)) == passing


def test_changes_made_directly_in_the_collection_are_seen(wiki: ChromaSearch, collection: Any) -> None:
    wiki.search("clock")
    add(collection, {"moon-0": ("The moon pulls the tide.", {"title": "Moon"})})
    assert keys(wiki.search("tide moon", weights={"keyword": 1.0})) == ["moon-0"]
    collection.delete(ids=["clock-1", "bees-0"])
    assert keys(wiki.search("shivering bees hive", weights={"keyword": 1.0})) == []
    assert "clock-1" not in keys(wiki.search("who repairs the tower clock?"))
    text = "The moon has no tide of its own, only craters."
    collection.update(ids=["moon-0"], documents=[text], embeddings=vectors([text]))
    touched = wiki.search("craters")
    assert next(result.item.text for result in touched.results if result.key == "moon-0") == text
    collection.update(ids=["oil-0"], documents=["Olive oil, quite another thing."], embeddings=vectors(["x y z"]))
    assert wiki.follow(verify=True) >= 1
    assert keys(wiki.search("olive", weights={"keyword": 1.0})) == ["oil-0"]
    assert wiki.follow(verify=True) == 0


def test_changes_that_keep_the_number_of_chunks_are_seen(wiki, collection, monkeypatch):
    wiki.search("clock")
    collection.delete(ids=["bees-0"])
    add(collection, {"moon-0": ("The moon pulls the tide.", {"title": "Moon"})})
    monkeypatch.setattr(mirrors, "SECONDS", 0.0)
    assert keys(wiki.search("tide moon bees", weights={"keyword": 1.0})) == ["moon-0"]


def test_a_later_process_reuses_the_store(wiki: ChromaSearch, collection: Any, tmp_path: Path) -> None:
    before = keys(wiki.search("who repairs the tower clock?"))
    ids = {item.id for item in wiki.memory.list()}
    again = ChromaSearch.open(collection, tmp_path / "store", embedder=WordEmbedder())
    with again:
        assert keys(again.search("who repairs the tower clock?")) == before
        assert {item.id for item in again.memory.list()} == ids
        assert again.follow() == 0


@pytest.mark.spec("S2.6")
def test_keyword_search_answers_when_the_collection_fails(wiki: ChromaSearch, collection: Any, client: Any) -> None:
    wiki.search("clock")
    client.delete_collection(collection.name)
    response = wiki.search("who repairs the tower clock?")
    assert keys(response)[0] == "clock-1"
    assert [failure.retriever for failure in response.degraded] == ["semantic"]
    assert any("cannot follow" in note for note in response.notes)
    with pytest.raises(SearchFailed):
        wiki.search("clock", weights={"semantic": 1.0})


@pytest.mark.spec("S2.6")
def test_an_embedder_of_another_dimension_is_named(collection: Any, tmp_path: Path) -> None:
    opened = ChromaSearch.open(collection, tmp_path / "other", embedder="none")
    with opened as wiki:
        short = wiki.search("clock", vector=[1.0, 2.0])
        assert [failure.retriever for failure in short.degraded] == ["semantic"]
        assert "dimension" in short.degraded[0].reason
        assert set(keys(short)) == {"clock-0", "clock-1"}


@pytest.mark.spec("S2.6")
def test_vector_search_answers_when_the_keyword_index_fails(wiki, monkeypatch):
    def broken(*_: Any) -> None:
        raise StoreUnavailable("the index is unavailable", "Wait")

    monkeypatch.setattr(SqliteWords, "match", broken)
    response = wiki.search("tower clock")
    assert [failure.retriever for failure in response.degraded] == ["keyword"]
    assert len(response.results) == len(ARTICLES)


# ---------------------------------------------------------------- odd content, opening, the command line


def test_chunks_with_missing_or_invalid_fields_are_stored_as_far_as_possible(embedded: Any, tmp_path: Path) -> None:
    made = embedded.create_collection("odd", embedding_function=None)
    made.add(ids=["only-vector", "long", "tags"], embeddings=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
             documents=["", "x" * 2_000_000, "text"],
             metadatas=[{"n": 1}, {"title": "t" * 2000}, {"tags": ",".join(["y" * 2000] * 3)}])  # fmt: skip
    with ChromaSearch.open(made, tmp_path / "store", embedder="none") as wiki:
        response = wiki.search("x", vector=[1.0, 0.1])
        assert set(keys(response)) == {"only-vector", "long", "tags"}


def test_an_odd_id_or_text_hides_no_other_chunk(embedded: Any, tmp_path: Path) -> None:
    made = embedded.create_collection("hostile", embedding_function=None)
    ids = ["clock", " clock", "\u00e9", "e\u0301", "x" * 2000, "a\0b", "  ", "\ufeff", "sha256:", "expanding"]
    texts = [*["a clock"] * 6, "\0", " ", "a clock", "clock " + "\U0001d160" * 200_000]
    made.add(ids=ids, documents=texts, embeddings=[[1.0, float(number)] for number in range(len(ids))])
    for _ in range(2):  # the second time from the store
        with ChromaSearch.open(made, tmp_path / "store", embedder="none") as wiki:
            assert wiki.search("clock", vector=[1.0, 0.1]).counts == {"semantic": 10, "keyword": 8}
            assert wiki.search("clock", vector=[1.0, 0.1], filters="not key = clock").counts["semantic"] == 9
            assert wiki.follow() == 0
    made.delete(ids=["e\u0301"])
    with ChromaSearch.open(made, tmp_path / "store", embedder="none") as wiki:
        found = wiki.search("clock", vector=[1.0, 0.1])
        assert found.counts == {"semantic": 9, "keyword": 7}
        assert "\u00e9" in keys(found)


@pytest.mark.parametrize("mode", ["mask", "refuse"])
def test_secrets_of_a_collection_are_not_stored(embedded: Any, tmp_path: Path, mode: SecretMode) -> None:
    made = embedded.create_collection("secrets", embedding_function=None)
    secret = "-".join(["kranich", "4711", "blau"])
    text = f"The database is at postgres://app:{secret}@db.internal/orders"
    made.add(ids=["one"], documents=[text], metadatas=[{"password": secret}], embeddings=[[1.0, 0.0]])
    with ChromaSearch.open(made, tmp_path / "store", settings=Settings(embedder="none", secrets=mode)) as wiki:
        (result,) = wiki.search("database", vector=[1.0, 0.1]).results
        assert "[secret: password in an address]" in result.item.text
        assert wiki.follow() == 0
    assert not [
        file
        for file in tmp_path.joinpath("store").rglob("*")
        if file.is_file() and secret.encode() in file.read_bytes()
    ]


def test_the_vector_space_of_a_collection_is_recorded(embedded: Any) -> None:
    old = embedded.create_collection("old-style", embedding_function=None, metadata={"hnsw:space": "cosine"})
    assert is_cosine(old)
    assert not is_cosine(embedded.create_collection("plain", embedding_function=None))


def test_opening_names_what_is_missing(embedded: Any, tmp_path: Path, address: str) -> None:
    embedded.create_collection("there", embedding_function=None)
    assert open_collection(tmp_path / "chroma", "there").name == "there"
    for place in (tmp_path / "chroma", address):
        with pytest.raises(NotFound):
            open_collection(place, "not-there")
    with pytest.raises(NotFound):
        open_collection(tmp_path, "there")
    assert not (tmp_path / "chroma.sqlite3").exists()
    with pytest.raises(InvalidQuery):
        open_collection("ftp://example", "there")


def test_a_server_that_never_answered_is_an_error(tmp_path: Path) -> None:
    collection = open_collection("http://127.0.0.1:1", "there")
    with (
        ChromaSearch.open(collection, tmp_path / "store", embedder=WordEmbedder()) as wiki,
        pytest.raises(StoreUnavailable, match="Chroma cannot be reached"),
    ):
        wiki.search("clock")


@pytest.mark.spec("S2.6")
@pytest.mark.parametrize("fate", ["killed", pytest.param("stopped", marks=pytest.mark.soak)])
def test_while_chroma_is_down_keyword_search_answers(own_server: Any, fate: str, tmp_path: Path) -> None:
    """Holds in a process that has the collection open, and in one that starts while Chroma is down."""
    import chromadb

    address, start = own_server
    server = start()
    host, _, port = address.removeprefix("http://").partition(":")
    client = chromadb.HttpClient(host, int(port), settings=chromadb.Settings(anonymized_telemetry=False))
    add(client.create_collection("articles", embedding_function=None), ARTICLES)
    store = tmp_path / "store"
    with ChromaSearch.open(open_collection(address, "articles"), store, embedder=WordEmbedder()) as wiki:
        assert not wiki.search("who repairs the tower clock?").degraded
        server.send_signal(signal.SIGKILL if fate == "killed" else signal.SIGSTOP)
        if fate == "killed":
            server.wait()
        late = ChromaSearch.open(open_collection(address, "articles"), store, embedder=WordEmbedder())
        with late:
            for each in (wiki, late):
                response = each.search("who repairs the tower clock?")
                assert keys(response)[0] == "clock-1"
                assert [failure.retriever for failure in response.degraded] == ["semantic"]
                assert any("cannot follow" in note for note in response.notes)
        if fate == "stopped":
            server.send_signal(signal.SIGCONT)
        else:
            start()
        assert not wiki.search("who repairs the tower clock?").degraded


@pytest.mark.spec("S2.5")
def test_retrieve_on_the_command_line(embedded, tmp_path, monkeypatch, capsys):
    made = embedded.create_collection("articles", embedding_function=None)
    add(made, ARTICLES)
    del made
    gc.collect()
    monkeypatch.setenv("FOURFOLD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    monkeypatch.setenv("RETRIEVAL_TOP_K", "1")
    chroma = ["--chroma", str(tmp_path / "chroma"), "--collection", "articles"]
    with pytest.raises(SystemExit) as left:
        main(["retrieve", "who repairs the tower clock?", *chroma])
    said = capsys.readouterr()
    assert left.value.code == 0, said.err
    assert said.out.split("\t")[0::2] == ["1", "clock-1"]
    assert said.out.endswith("Tower clock\n")
    assert "degraded: semantic: no embedder is set" in said.err
    with pytest.raises(SystemExit):
        main(["retrieve", "oil", "-k", "2", *chroma, "--json"])
    assert [result["key"] for result in json.loads(capsys.readouterr().out)["results"]] == ["oil-0", "clock-0"]
    with pytest.raises(SystemExit) as left:
        main(["retrieve", "oil", "--chroma", "x"])
    assert left.value.code == 1

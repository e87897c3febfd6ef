"""Memory.search: its arguments, filters, negations, and the response field by field."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from engine_support import DIMENSION, Opener, WordEmbedder, ids, notes, row_counts, scored, texts

from fourfold import Filters, Item, Memory, MetadataTest, NewItem, Query, limits, wire
from fourfold.engine.retrievers import TagRetriever
from fourfold.errors import InvalidArgument, InvalidQuery, InvalidVector, InvalidWeights, RequestError

FUSIONS = ("auto", "rrf", "weighted")
PRESETS = ("auto", "insights-basic", "insights", "wiki", "files", "memories")

# ---------------------------------------------------------------- semantic and keyword search


@pytest.mark.spec("S1.1")
def test_semantic_results_come_nearest_first_with_exact_cosines_and_without_embeddings(office: Memory) -> None:
    query, embedder = "router settings backups", WordEmbedder()
    response = office.search(query, only=["semantic"], top_k=100)
    cosines = [result.contributions[0].raw for result in response.results]
    assert cosines == sorted(cosines, reverse=True)
    exact = [float(embedder.vector(query) @ embedder.vector(text)) for text in texts(response)]
    assert cosines == pytest.approx(exact, abs=2e-6)
    assert texts(response)[0].startswith("Backups of the router settings")
    answer = wire.dumps(wire.response_json(response))
    assert "vector" not in answer
    assert "embedding" not in answer
    assert len(answer) < 20_000


@pytest.mark.spec("S1.2", "S3.7")
@pytest.mark.parametrize("fusion", FUSIONS)
def test_keyword_results_come_best_first_with_positive_scores(office: Memory, fusion: str) -> None:
    """Some engines return negative BM25 scores; here higher is better, also in `weighted`."""
    response = office.search("cellar key kitchen", only=["keyword"], fusion=fusion)
    scores = [line.raw or 0.0 for result in response.results for line in result.contributions]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0
    assert texts(response)[0] == "The cellar key hangs behind the kitchen door"
    assert all({"cellar", "key", "kitchen"} & set(text.lower().split()) for text in texts(response))


@pytest.mark.spec("S1.4")
@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_found_is_an_empty_list(memory: Memory, preset: str) -> None:
    response = memory.search("anything at all", preset=preset)
    assert response.results == ()
    assert response.confidence == 0
    assert wire.response_json(response)["results"] == []


ONES = [1.0] * (DIMENSION - 1)
WRONG: list[tuple[type[RequestError], list[dict[str, Any]]]] = [
    (InvalidWeights, [{"weights": {"semantic": 0.7, "keyword": 0.3001}}, {"weights": {"vector": 1.0}}]),
    (InvalidVector, [{"vector": vector} for vector in (
        [1.0] * (DIMENSION + 1), [1.0] * (DIMENSION - 1), [float("nan")] * DIMENSION, [0.0] * DIMENSION, [],
        [*ONES, float("inf")], [*ONES, float("-inf")], ["a"] * DIMENSION, [1e38] * DIMENSION, [1.0, 2.0],
    )]),
    (InvalidQuery, [
        *({"top_k": top_k} for top_k in (0, -5, 200, 101)),
        *({"text": text} for text in ("", " \t\n")),
        {"preset": "best"}, {"fusion": "sum"}, {"alpha": 0.5}, {"only": ["words"]}, {"only": []}, {"per_source": 0},
        {"min_confidence": 1.5}, {"min_confidence": float("nan")}, {"filters": Filters(tags="office")}, {"cut": "some"},
    ]),
    (InvalidArgument, [{"top_k": 1.5}, {"text": None}, {"namespaces": "default"}]),
]  # fmt: skip


@pytest.mark.spec("S1.5", "S1.8", "B8")
@pytest.mark.parametrize(("error", "request_"), [(error, each) for error, requests in WRONG for each in requests])
def test_a_wrong_request_is_refused_and_changes_nothing(office, tmp_path, error, request_):
    before = row_counts(tmp_path / "store")
    with pytest.raises(error) as raised:
        office.search(**{"text": "router", **request_})
    message, remedy = raised.value.message, raised.value.remedy
    assert message
    assert remedy
    form = {"status": "error", "error": message, "details": remedy, "tool": "hybrid_search"}
    assert wire.error_json(raised.value, "hybrid_search") == form
    assert row_counts(tmp_path / "store") == before
    assert office.search("router").results


# ---------------------------------------------------------------- fusion and the response


@pytest.mark.spec("S3.2")
def test_full_text_search_has_snippets_and_semantic_search_has_similarities(office: Memory) -> None:
    words = wire.response_json(office.search("printer", only=["keyword"]))
    assert words["method"] == "keyword"
    assert "**printer**" in words["results"][0]["snippet"]
    assert words["results"][0]["semantic_similarity"] is None
    meaning = wire.response_json(office.search("printer", only=["semantic"]))
    assert meaning["method"] == "semantic"
    assert 0 < meaning["results"][0]["semantic_similarity"] <= 1
    assert wire.response_json(office.search("printer"))["method"] == "hybrid"


@pytest.mark.spec("S3.3")
def test_fusion_is_chosen_per_call(office: Memory) -> None:
    answers = {fusion: office.search("router backups friday", fusion=fusion) for fusion in FUSIONS}
    assert [wire.response_json(answers[fusion])["fusion_strategy"] for fusion in FUSIONS] == list(FUSIONS)
    assert len({answers[fusion].results[0].score for fusion in FUSIONS}) == 3
    assert {texts(answers[fusion])[0] for fusion in FUSIONS} == {"Backups of the router settings are made every Friday"}


@pytest.mark.spec("S3.4")
@pytest.mark.parametrize("fusion", FUSIONS)
def test_an_item_found_by_both_retrievers_is_one_result(office: Memory, fusion: str) -> None:
    response = office.search("printer paper", fusion=fusion)
    assert len(set(ids(response))) == len(ids(response))
    first = wire.response_json(response)["results"][0]
    assert "**printer**" in first["snippet"]
    assert first["semantic_similarity"] > 0
    assert first["fts_score"] > 0
    assert first["semantic_rank"] >= 1
    assert first["fts_rank"] == 1
    assert response.overlap >= 1


EXAMPLE = """status query method preset fusion_strategy k query_type matched_keywords applied_weights applied_filters
 confidence semantic_results_count keyword_results_count graph_results_count tags_results_count hints degraded notes
 timings_ms results"""
RESULT = """id key namespace title content snippet score hybrid_score confidence source_ids tags kind language metadata
 created_at updated_at file_path chunk_index location semantic_rank semantic_similarity fts_rank fts_score graph_rank
 graph_score graph_distance tags_rank source"""


@pytest.mark.spec("S3.5")
@pytest.mark.parametrize("explain", [False, True])
def test_the_response_has_the_fields_of_the_specification(office: Memory, explain: bool) -> None:
    response = office.search("office printer", explain=explain, filters=Filters(tags=("office",)))
    answer = wire.response_json(response)
    assert set(answer) == set(EXAMPLE.split())
    assert set(answer["hints"]) == {"fts_matches", "semantic_matches", "overlap"}
    assert set(answer["applied_weights"]) == {"semantic", "keyword", "graph", "tags"}
    assert {"embed", "semantic", "keyword", "graph", "tags", "fusion", "total"} <= set(answer["timings_ms"])
    assert answer["applied_filters"] == {"tags": ["office"]}
    assert answer["results"]
    for result in answer["results"]:
        assert set(result) == {*RESULT.split(), *(["explanation"] if explain else [])}
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer


@pytest.mark.spec("S2.4")
def test_the_log_carries_the_times_and_no_stored_or_asked_text(office, caplog):
    caplog.set_level("INFO", "fourfold")
    response = office.search("where is the printer", filters=Filters(tags=("office",)))
    (record,) = [record for record in caplog.records if record.name == "fourfold" and record.message == "search"]
    fields = json.dumps(record.fourfold, allow_nan=False)  # type: ignore[attr-defined]
    assert record.fourfold.items() >= {f"{name}_ms": spent for name, spent in response.timings_ms.items()}.items()  # type: ignore[attr-defined]
    assert {"semantic_ms", "keyword_ms", "graph_ms", "tags_ms", "fusion_ms", "total_ms"} <= set(record.fourfold)  # type: ignore[attr-defined]
    for text in ("printer", "paper", "office"):
        assert text not in fields


# ---------------------------------------------------------------- graph


@pytest.mark.spec("S4.2")
def test_a_named_node_leads_to_its_items_and_its_neighbours(memory: Memory) -> None:
    jurgen = memory.add("Speaks on Thursdays about bridges")
    clock = memory.add("A movement of brass from 1910")
    memory.add("Rain is expected in the afternoon")
    memory.add_node("Jürgen Müller", aliases=["Jogi"], item=jurgen.id)
    memory.add_node("Tower Clock", item=clock.id)
    memory.add_edge("Jürgen Müller", "repaired", "Tower Clock", 0.5)
    for query in ("juergen mueller", "what did JÜRGEN MÜLLER do", 'who is "Jogi"', "jogi"):
        response = memory.search(query, only=["graph"])
        assert ids(response) == [jurgen.id, clock.id]  # the node's own item, then that of its neighbour
        assert response.results[0].score > response.results[1].score
        own, near = wire.response_json(response)["results"]
        assert (own["graph_rank"], own["graph_distance"]) == (1, 0)
        assert (near["graph_rank"], near["graph_distance"]) == (2, 1)
        assert own["graph_score"] > near["graph_score"] > 0
    assert ids(memory.search("nobody we know", only=["graph"])) == []
    by_words = wire.response_json(memory.search("movement of brass"))["results"][0]
    assert (by_words["id"], by_words["graph_distance"], by_words["graph_score"]) == (clock.id, None, None)


@pytest.mark.spec("S4.5")
def test_the_response_says_how_the_query_was_understood(office: Memory) -> None:
    office.add_edge("Maria", "waters", "Ficus")
    relational = wire.response_json(office.search("Welche Pflanze gehört zu Maria?", preset="insights"))
    assert relational["query_type"] == "relational"
    assert relational["matched_keywords"]
    assert relational["applied_weights"] == {"semantic": 0.4, "keyword": 0.2, "graph": 0.4, "tags": 0.0}
    standard = wire.response_json(office.search("where is the printer", preset="insights"))
    assert standard["query_type"] == "standard"
    assert standard["matched_keywords"] == []
    assert standard["applied_weights"] == {"semantic": 0.6, "keyword": 0.2, "graph": 0.2, "tags": 0.0}
    assert standard["semantic_results_count"] == 8
    assert standard["keyword_results_count"] == 1
    assert standard["graph_results_count"] == 0


# ---------------------------------------------------------------- queries, order and determinism


@pytest.mark.spec("B4")
def test_a_query_of_32_kilobytes_is_accepted_and_one_byte_more_is_not(office: Memory) -> None:
    longest = ("printer " * 10_000)[: limits.QUERY_BYTES - 1] + "x"
    assert len(longest.encode()) == 32 * 1024
    assert office.search(longest).results
    with pytest.raises(InvalidQuery, match="32769 bytes"):
        office.search(longest + "x")
    with pytest.raises(InvalidQuery):
        office.search("ä" * (16 * 1024) + "x")


SAFE = [
    "???", "- + \" ' ( ) * : ^ ~ / \\ [ ] { } ! && || <> =", 'printer" OR 1=1; DROP TABLE items; --',
    "body:printer AND row:[0 TO *]", "NOT printer", "printer*", "NEAR(printer paper, 2)", "\x00printer\x00",
    "\ud800 printer \udfff", "\u202eretnirp\u202c printer", "👩‍👩‍👧‍👦 printer", "e" + "\u0301" * 500,
    "\x01\x02\x03\x1b[31m", "%s %d {0} {printer}", "${jndi:ldap://x}", "\ufeffprinter", "🦦 🦡", "...", "—",
]  # fmt: skip


@pytest.mark.spec("B4")
@pytest.mark.parametrize("query", SAFE, ids=range(len(SAFE)))
def test_any_text_is_a_safe_query(office: Memory, query: str) -> None:
    for preset in ("auto", "memories"):
        response = office.search(query, preset=preset)
        assert response.degraded == ()
        assert response.counts.get("keyword", 0) == 0 or any(map(str.isalnum, query))
        if "printer" in query and preset == "auto":
            assert "The printer jams when the paper is damp" in texts(response)


@pytest.mark.spec("B4")
@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_query_on_the_same_store_gives_the_same_answer(opened: Opener, preset: str) -> None:
    memory = opened()
    memory.add_many(notes(150), wait=True)
    first, again = [scored(memory.search("otter and lynx at gate 7", preset=preset)) for _ in range(2)]
    reopened = scored(opened().search("otter and lynx at gate 7", preset=preset))
    assert [item for item, _ in first] == [item for item, _ in again] == [item for item, _ in reopened]
    assert [score for _, score in first] == pytest.approx([score for _, score in reopened], abs=1e-6)


@pytest.mark.spec("B4")
@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("options", [{}, {"per_source": 1}, {"min_confidence": 0.05}])
def test_results_for_k_are_a_prefix_of_those_for_more(memory: Memory, fusion: str, options: dict[str, Any]) -> None:
    from dataclasses import replace

    items = [replace(item, path=f"file{number % 40}", chunk_index=number) for number, item in enumerate(notes(230))]
    memory.add_many(items, wait=True)
    longest = scored(memory.search("the raven met the viper at gate 3", fusion=fusion, top_k=100, **options))
    for top_k in (1, 2, 5, 17, 60):
        part = memory.search("the raven met the viper at gate 3", fusion=fusion, top_k=top_k, **options)
        assert scored(part) == longest[:top_k]


@pytest.mark.spec("B4", "B12")
def test_copies_of_chunks_cut_by_per_source_are_hidden_for_every_top_k(memory: Memory) -> None:
    """A copy of a chunk that `per_source` leaves out is not returned either, even if it is read in a later step."""
    texts_of_one = ["raven raven raven", "raven raven gate", "raven gate hut"]
    chunks = [NewItem(text, path="one", chunk_index=number) for number, text in enumerate(texts_of_one)]
    copy = NewItem("raven gate hut", path="two", chunk_index=0)
    others = [NewItem(f"raven {'moor ' * n}", path=f"far{n}", chunk_index=0) for n in range(3, 9)]
    memory.add_many([*chunks, copy, *others], wait=True)
    options: dict[str, Any] = {"only": ["keyword"], "per_source": 1}
    longest = scored(memory.search("raven", top_k=100, **options))
    for top_k in range(1, len(longest)):
        assert scored(memory.search("raven", top_k=top_k, **options)) == longest[:top_k]


@pytest.mark.spec("S5.2")
@pytest.mark.parametrize(
    ("query", "expected"),
    [("insurance cargo bike", 1.0), ("the cargo bike", 1.0), ("cargo bike and rain", 2 / 3), ("rain on a bike", None)],
)
def test_tag_evidence_is_the_share_of_query_words_that_are_tags(memory, query, expected):
    item = memory.add(NewItem("Rad weg", tags=("cargo-bike", "Insurance")))
    with memory.store.snapshot("default") as snapshot:
        found = TagRetriever(snapshot.tags).search(Query("default", query, None), 10)
    assert found.evidence == ({item.id: pytest.approx(expected)} if expected else {})


def test_recent_queries_are_embedded_once(opened: Opener) -> None:
    embedder = WordEmbedder()
    memory = opened(embedder=embedder)
    memory.add("a heron in the river", wait=True)
    first = [memory.search("heron", recency=share).results for share in (0.0, 0.5, 1.0)]
    assert embedder.texts.count("heron") == 1
    assert [results[0].item.text for results in first] == ["a heron in the river"] * 3
    for number in range(20):
        memory.search(f"query {number}")
    memory.search("heron")
    assert embedder.texts.count("heron") == 2, "the oldest are forgotten"


# ---------------------------------------------------------------- filters


DAY = datetime(2025, 3, 1, tzinfo=UTC)
PAGES = 600


@pytest.fixture
def library(memory: Memory) -> Memory:
    """Items that all match the query equally; every 30th passes the filters."""
    memory.add_many(
        [
            NewItem(
                f"The heron stands in the river, page {number}",
                title=f"Heron {number}" if number % 30 == 0 else "",
                key=str(number),
                tags=("heron", *(("rare", "marked") if number % 30 == 0 else ("plain",))),
                kind="fact" if number % 30 == 0 else "note",
                created_at=DAY + timedelta(days=number),
                path=f"{'rare' if number % 30 == 0 else 'common'}/{number}.md",
                metadata={"n": number},
            )
            for number in range(PAGES)
        ],
        wait=True,
    )
    memory.add_node("Heron", item=1)
    return memory


Passes = Callable[[Item], bool]
FILTERS: dict[str, tuple[Filters, Passes]] = {
    "tag": (Filters(tags=("RARE",)), lambda item: "rare" in item.tags),
    "naive": (
        Filters(created_to=(DAY + timedelta(days=5)).replace(tzinfo=None)),
        lambda item: item.created_at <= DAY + timedelta(days=5),
    ),
    "huge": (Filters(metadata=(MetadataTest("n", "lt", 2**80),)), lambda item: True),
    "everything": (
        Filters(tags=("marked",), kind="fact", path="**/*0.md", metadata=(MetadataTest("n", "gte", 300),)),
        lambda item: "marked" in item.tags and item.metadata["n"] >= 300,
    ),
    "nothing": (Filters(tags=("unheard of",)), lambda item: False),
}
"""Every filter in every retriever is in tests/conformance; these pass few, very many, all and no items."""


@pytest.mark.spec("B5")
@pytest.mark.parametrize("name", FILTERS)
def test_a_filtered_search_finds_all_that_pass_and_nothing_else(library: Memory, name: str) -> None:
    filters, passes = FILTERS[name]
    everything = [item for offset in (0, 1000) for item in library.list(limit=1000, offset=offset)]
    expected = {item.id for item in everything if passes(item)}
    assert library.count(filters) == len(expected)
    for only in (["semantic"], ["keyword"], ["tags"]):
        response = library.search("heron river", only=only, filters=filters, top_k=100)
        assert set(ids(response)) <= expected
        assert len(response.results) == min(100, len(expected))
        assert response.counts[only[0]] == min(200, len(expected))
    for fusion in ("auto", "rrf"):
        response = library.search("Heron river", filters=filters, top_k=100, per_source=100, fusion=fusion)
        assert set(ids(response)) <= expected
        assert len(response.results) == min(100, len(expected))
        wire.dumps(wire.response_json(response))
    for result in library.search("Heron 30", only=["graph"], filters=filters, top_k=100).results:
        assert result.id in expected


PATHS = (
    "docs/a.md", "docs/x/y/a.md", "a.md", "axbyc/d1", "q/abc/r/s/d2", "a/x1/z", "b/q/xyz/z", "aa", "x/aXa", "docs/",
)  # fmt: skip
EXPECTED = {
    "docs/*.md": "docs/a.md",
    "docs/**/*.md": "docs/a.md docs/x/y/a.md",
    "**/*.md": "docs/a.md docs/x/y/a.md a.md",
    "**/a*b*c*/**/d?": "axbyc/d1 q/abc/r/s/d2",
    "[ab]*/**/x[!y]*/*": "a/x1/z",
    "**/**/**/*a*a*": "aa x/aXa",
    "*": "a.md aa",
    "**": " ".join(PATHS),
}


@pytest.mark.spec("B5")
def test_globs(memory: Memory) -> None:
    memory.add_many([NewItem(path, path=path) for path in PATHS])
    for glob, expected in EXPECTED.items():
        found = {item.path for item in memory.list(Filters(path=glob))}
        assert found == set(expected.split()), glob


@pytest.mark.spec("B5", "B4")
def test_a_glob_with_many_wildcards_is_matched_quickly(memory: Memory) -> None:
    """A regular expression would backtrack exponentially and block every other thread."""
    memory.add_many([NewItem("heron", path="a" * 200), NewItem("otter", path="a/" * 100 + "y")])
    for glob in ("*a" * 30 + "b", "**/" * 40 + "x", "**a" * 30 + "b", "a*" * 200 + "/b"):
        assert memory.count(Filters(path=glob)) == 0
    assert memory.count(Filters(path="*a" * 30)) == 1


# ---------------------------------------------------------------- negations and corrections


EXCLUDED = "not searched for, because it is negated: fish Harbour Grill"


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", embedder="none") as opened:
        opened.add(NewItem("A place for fresh fish", title="Harbour Grill", tags=("fish",)))
        opened.add(NewItem("A restaurant with lentils and salads", title="Green Fork"))
        yield opened


def test_negated_words_names_and_tags_find_nothing(places: Memory):
    found = places.search("restaurant without fish or Harbour Grill")
    assert [result.item.title for result in found.results] == ["Green Fork"]
    assert found.query == "restaurant without fish or Harbour Grill"
    assert EXCLUDED in found.notes
    assert found.counts["graph"] == found.counts["tags"] == 0


def test_the_same_words_find_their_item_if_they_are_wanted(places: Memory):
    found = places.search("restaurant with fish")
    assert {result.item.title for result in found.results} == {"Green Fork", "Harbour Grill"}
    assert found.notes == ()


def test_analyze_and_why_name_the_excluded_words(places: Memory):
    found = places.analyze("restaurant without fish or Harbour Grill")
    (phrase,) = found.negated
    assert phrase.text == "without fish or Harbour Grill"
    assert [word.surface for word in found.words] == ["restaurant"]
    assert (found.names, found.tags, found.notes) == ((), (), (EXCLUDED,))
    (item,) = places.search("lentils").results
    assert EXCLUDED in places.why(item.id, "restaurant without fish or Harbour Grill").reasons


def test_a_note_names_a_correction(places: Memory):
    found = places.search("lentlis")
    assert [result.item.title for result in found.results] == ["Green Fork"]
    (word,) = places.analyze("lentlis").words
    assert word.corrections[0] == "lentils"
    assert found.notes == places.analyze("lentlis").notes != ()

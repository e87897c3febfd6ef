"""Searches with a reranker: its line in the score, its notes, and what happens without it."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine_support import WordEmbedder
from fault_server import Server
from hypothesis import given
from hypothesis import strategies as st

from fourfold import Hit, Memory, NewItem, SearchResponse, Settings
from fourfold.errors import InvalidQuery
from fourfold.ranking.fusion import RERANK, RERANK_SHARE, rrf, weighted, with_file_names, with_rerank
from fourfold.ranking.plan import checked_rerank
from fourfold.ranking.questions import is_question

# ---------------------------------------------------------------- searches


QUERY = "Where is the password of the router?"
NOTES = (
    "The password of the router is in the blue folder, which Anna keeps in the kitchen.",
    "The router is slow.",
    "A password has twelve characters or more.",
    "The folder of the router was moved to the kitchen and nobody knows why, but Anna asked for it.",
)
GERMAN = "Das Passwort liegt bei Anna in der blauen Mappe neben dem Router in der Küche."


@contextmanager
def office(*texts: str, **settings: object) -> Iterator[Memory]:
    made = Settings(**{"rerank_seconds": 600.0, **settings})  # type: ignore[arg-type]
    with Memory.open(":memory:", embedder=WordEmbedder(), settings=made, background=False) as memory:
        memory.add_many([NewItem(text) for text in texts or NOTES])
        memory.embed_pending()
        yield memory


def told(response: SearchResponse) -> list[str]:
    """What the notes say of reranking."""
    return [note.removeprefix("rerank: ") for note in response.notes if note.startswith("rerank")]


@pytest.mark.spec("C12")
def test_the_reranker_adds_a_line_and_the_lines_make_the_score(reranker: Server) -> None:
    with office(rerank_base_url=reranker.url("ok")) as memory:
        plain = memory.search(QUERY)
        found = memory.search(QUERY, rerank="endpoint", explain=True)
        why = memory.why(found.results[-1].id, QUERY, rerank="endpoint")
    assert (plain.plan.rerank, found.plan.rerank, found.degraded, told(found)) == (None, "endpoint", (), [])
    assert found.timings_ms["rerank"] > 0
    assert found.applied_weights == plain.applied_weights
    before = {result.id: result for result in plain.results}
    by_length = sorted(found.results, key=lambda result: -len(result.item.text))
    for rank, result in enumerate(by_length, 1):
        *lines, line = result.contributions
        assert (line.source, line.rank, line.raw) == ("rerank", rank, len(result.item.text) / 1000)
        assert [each.source for each in lines] == [each.source for each in before[result.id].contributions]
        assert sum(each.value for each in result.contributions) == result.score
        assert result.explanation is not None
        assert f"rerank: rank {rank}, score" in str(result.explanation)
    assert why.reasons[-1].startswith("rerank: rank ")
    assert why.result.score == found.results[-1].score


def test_the_whole_reading_is_sent_once_with_passages_of_long_texts(reranker: Server) -> None:
    long = "Nothing of interest. " * 100 + "The password of the router is swordfish. " + "More of nothing. " * 100
    with office(*NOTES, long, NOTES[1], rerank_base_url=reranker.url("ok")) as memory:
        memory.search(QUERY, rerank="endpoint", top_k=1)
    ((_, _, body),) = reranker.seen
    assert body["query"] == QUERY
    assert len(body["documents"]) == len(set(body["documents"])) == 5  # equal texts are read once, whatever top_k is
    passage = next(text for text in body["documents"] if "swordfish" in text)
    assert len(passage) < 500


def test_a_failing_model_is_named_and_the_ranking_stays(reranker: Server) -> None:
    with office(rerank_base_url=reranker.url("too-few"), rerank="endpoint") as memory:
        plain, found = memory.search(QUERY, rerank="off"), memory.search(QUERY)
        why = memory.why(found.results[0].id, QUERY)
    assert [(each.id, each.score) for each in found.results] == [(each.id, each.score) for each in plain.results]
    ((name, reason),) = [(part.retriever, part.reason) for part in found.degraded]
    assert name == "rerank"
    assert "sent 3 scores for 4 texts" in reason
    assert "sent 3 scores for 4 texts" in why.reasons[-1]


def test_a_folder_without_a_model_is_named_however_little_time_there_is(tmp_path: Path) -> None:
    with office(rerank_seconds=0.001) as memory:
        found = memory.search(QUERY, rerank=f"onnx:{tmp_path / 'nowhere'}")
    assert found.results
    ((name, reason),) = [(part.retriever, part.reason) for part in found.degraded]
    assert name == "rerank"
    assert "nowhere" in reason


def test_a_query_in_a_language_that_the_model_does_not_know_is_not_reranked(reranker: Server) -> None:
    with office(rerank_base_url=reranker.url("ok"), rerank_languages=("en",)) as memory:
        found = memory.search("Wo liegt das Passwort für den Router?", rerank="endpoint")
    assert told(found) == ["the model does not know the language of the query (de)"]
    assert not reranker.seen
    assert not found.degraded


def test_texts_in_a_language_that_the_model_does_not_know_are_not_read(reranker: Server) -> None:
    with office(*NOTES, GERMAN, rerank_base_url=reranker.url("ok"), rerank_languages=("en",)) as memory:
        memory.search(QUERY, rerank="endpoint")
        german = next(item.id for item in memory.list() if item.language == "de")
        why = memory.why(german, QUERY, rerank="endpoint")
    assert all(GERMAN not in body["documents"] for _, _, body in reranker.seen)
    assert why.reasons[-1].startswith("rerank: not read")


def test_auto_reranks_english_questions_with_the_built_in_model() -> None:
    with office(rerank="auto") as memory:
        asked, named = memory.search(QUERY), memory.search("router password folder")
        german = memory.search("Wo ist das Passwort?")
    assert {line.source for line in asked.results[0].contributions} >= {"keyword", "rerank"}
    assert told(named) == ["auto reorders the results of questions only"]
    assert told(german) == ["the model does not know the language of the query (de)"]
    assert not any(line.source == "rerank" for line in named.results[0].contributions)
    assert asked.results[0].item.text == NOTES[0]


@pytest.mark.spec("B14")
def test_the_confidence_of_what_the_built_in_model_read_counts_its_score() -> None:
    answered, unanswered = "Who leads the billing team?", "When is Mira Hoffmann's birthday?"
    note = NewItem("Mira Hoffmann leads the billing team and lives in Kiel.", title="Mira Hoffmann")
    others = [NewItem("The billing team meets on Mondays."), NewItem("Jonas Ebel keeps the office plants alive.")]
    with Memory.open(":memory:", settings=Settings(rerank_seconds=600.0), background=False) as memory:
        memory.add_many([note, *others])
        memory.embed_pending()
        plain = {text: memory.search(text).confidence for text in (answered, unanswered)}
        read = {text: memory.search(text, rerank="ms-marco").confidence for text in (answered, unanswered)}
    assert read[unanswered] < plain[unanswered] - 0.1
    assert read[answered] > plain[answered] + 0.1


def test_auto_leaves_questions_about_names_of_the_graph_to_the_graph(reranker: Server) -> None:
    with office(rerank="auto", rerank_base_url=reranker.url("ok")) as memory:
        memory.add_many([NewItem("Anna's blue folder has the plans.", title="Blue Folder")])
        memory.embed_pending()
        auto, model = (memory.search("Where is the Blue Folder kept?", rerank=name) for name in ("auto", "endpoint"))
    assert told(auto) == ["auto leaves questions about names of the graph to the graph"]
    assert any(line.source == "rerank" for line in model.results[0].contributions)


def test_auto_without_the_package_searches_as_without_reranking(monkeypatch: pytest.MonkeyPatch) -> None:
    from fourfold import rerank as ms_marco

    monkeypatch.setattr(ms_marco, "PACKAGE", "no_such_package")
    with office(rerank="auto") as memory:
        auto, named = memory.search(QUERY), memory.search(QUERY, rerank="ms-marco")
    assert (auto.degraded, told(auto)) == ((), [])
    assert "pip install 'fourfold[rerank]'" in named.degraded[0].reason


def test_an_unknown_reranker_is_refused_by_every_search() -> None:
    with office() as memory:
        for call in (memory.search, memory.analyze):
            with pytest.raises(InvalidQuery, match="rerank is 'best'"):
                call(QUERY, rerank="best")
        with pytest.raises(InvalidQuery, match="rerank is 'best'"):
            memory.why(1, QUERY, rerank="best")


def test_a_store_with_fewer_than_two_candidates_is_not_reranked(reranker: Server) -> None:
    with office(NOTES[0], rerank_base_url=reranker.url("ok")) as memory:
        found = memory.search(QUERY, rerank="endpoint")
    assert len(found.results) == 1
    assert not reranker.seen


# ---------------------------------------------------------------- the order of a reranker in a score


WEIGHTS = {"semantic": 0.6, "keyword": 0.4}
LISTS = {
    "semantic": [Hit(1, 0.9), Hit(2, 0.8), Hit(3, 0.7), Hit(4, 0.1)],
    "keyword": [Hit(3, 5.0), Hit(2, 4.0), Hit(5, 1.0)],
}


def test_the_candidate_at_rank_r_gets_a_share_of_the_best_score_over_r() -> None:
    plain = weighted(LISTS, WEIGHTS)
    found = with_rerank(plain, {3: -7.0, 1: 2.5, 2: 1.0})
    best = max(plain.scores.values())
    for rank, item in enumerate((1, 2, 3), 1):
        line = found.contributions(item)[-1]
        assert (line.source, line.rank) == (RERANK, rank)
        assert line.value == pytest.approx(RERANK_SHARE * best / rank)
        assert found.scores[item] == pytest.approx(plain.scores[item] + line.value)
    assert found.scores[4] == plain.scores[4]
    assert found.weights == plain.weights


def test_equal_scores_of_the_model_share_a_rank() -> None:
    found = with_rerank(weighted(LISTS, WEIGHTS), {1: 2.0, 2: 2.0, 3: 1.0})
    assert [found.contributions(item)[-1].rank for item in (1, 2, 3)] == [1, 1, 3]


def test_fewer_than_two_scores_change_nothing() -> None:
    plain = weighted(LISTS, WEIGHTS)
    assert with_rerank(plain, {}) is plain
    assert with_rerank(plain, {1: 3.0}) is plain


@given(
    st.dictionaries(st.integers(1, 60), st.floats(0.001, 40), min_size=3),
    st.dictionaries(st.integers(1, 60), st.floats(-12, 12), min_size=2, max_size=20),
    st.floats(0.01, 0.99),
    st.booleans(),
)
def test_a_score_is_exactly_the_sum_of_its_lines(words, model, share, by_rank):
    hits = [Hit(*pair) for pair in sorted(words.items(), key=lambda pair: (-pair[1], pair[0]))]
    lists = {"semantic": [Hit(hit.id, 1 / place) for place, hit in enumerate(hits, 1)][::2], "keyword": hits}
    weights = {"semantic": share, "keyword": 1 - share}
    fusion = rrf(lists, weights) if by_rank else weighted(lists, weights)
    read = {item: score for item, score in model.items() if item in fusion.scores}
    found = with_file_names(with_rerank(fusion, read), {"notes.md": [hits[-1].id]})
    for hit in found.ranked:
        values = [line.value for line in found.contributions(hit.id)]
        assert sum(values) == sum(reversed(values)) == math.fsum(values) == hit.score


def test_candidates_that_the_model_read_stay_above_those_that_it_did_not_read() -> None:
    plain = rrf({"semantic": [Hit(item, 1 / item) for item in range(1, 40)]}, {"semantic": 1.0})
    found = with_rerank(plain, {item: float(-item % 7) for item in range(1, 21)})
    assert set(found.ids[:20]) == set(plain.ids[:20])
    assert found.ids[20:] == plain.ids[20:]


@pytest.mark.parametrize(("text", "asks"), [
    ("Who has the spare key?", True), ("the spare key?", True), ("how do i sort a list in python", True),
    ("Is the router in room 4", True), ("I want to plan a trip to Rome", False),
    ("Aspirin lowers the risk of strokes.", False), ("router password", False), ("", False),
])  # fmt: skip
def test_auto_recognizes_questions(text: str, asks: bool) -> None:
    assert is_question(text) is asks


def test_an_unknown_reranker_is_refused_with_the_choices() -> None:
    checked = [checked_rerank(name) for name in ("off", "auto", "endpoint", "onnx:m")]
    assert checked == [None, "auto", "endpoint", "onnx:m"]
    for wrong in ("", "on", "onnx:", "cohere", 1, None, True):
        with pytest.raises(InvalidQuery, match="Choose off, auto, ms-marco, endpoint or onnx:FOLDER"):
            checked_rerank(wrong)

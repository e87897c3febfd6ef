"""The JSON forms, compared with the response that the specification shows."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from fourfold.model import NO_FILTERS, Filters, Item, MetadataTest
from fourfold.retrieval import Contribution, Degraded, Explanation, Plan, Result, SearchResponse
from fourfold.wire import dumps, filters_json, response_json, time_json

NOON = datetime(2026, 11, 15, 10, tzinfo=UTC)

ITEM = Item(17, "default", None, "T", "a word of text", (), None, {"a": 1}, "en", NOON, NOON, (4, 5), None, None)

RESULT = Result(
    ITEM,
    score=0.71,
    confidence=0.8,
    query="word",
    contributions=(
        Contribution("semantic", 1, 0.72, 1 / 61, 0.41, 0.3),
        Contribution("keyword", 2, 11.3, 1 / 62, 0.5, 0.4),
        Contribution("walk", 3, 0.5, 0.1, 0.09, 0.01),
    ),
)

RESPONSE = SearchResponse(
    query="...",
    plan=Plan("auto", ("semantic", "keyword", "graph", "tags"), "auto", 60, 10, None),
    applied_weights={"semantic": 0.41, "keyword": 0.5, "graph": 0.09},
    filters=NO_FILTERS,
    confidence=0.83,
    counts={"semantic": 200, "keyword": 37, "graph": 4},
    overlap=21,
    degraded=(Degraded("semantic", "12 items wait for their vectors", 12),),
    notes=(),
    timings_ms={"embed": 6.9, "fusion": 0.20049, "total": 9.0},
    results=(RESULT,),
)

SPECIFIED = json.loads("""
{"status": "success", "query": "...", "method": "hybrid", "preset": "auto", "fusion_strategy": "auto", "k": 60,
 "query_type": "standard", "matched_keywords": [],
 "applied_weights": {"semantic": 0.41, "keyword": 0.5, "graph": 0.09, "tags": 0.0},
 "applied_filters": {}, "confidence": 0.83,
 "semantic_results_count": 200, "keyword_results_count": 37, "graph_results_count": 4, "tags_results_count": 0,
 "hints": {"fts_matches": 37, "semantic_matches": 200, "overlap": 21},
 "degraded": [{"retriever": "semantic", "reason": "12 items wait for their vectors", "pending": 12}], "notes": [],
 "timings_ms": {"embed": 6.9, "fusion": 0.2, "total": 9.0},
 "results": [{"id": 17, "key": null, "namespace": "default", "title": "T", "content": "a word of text",
   "snippet": "a **word** of text", "score": 0.71, "hybrid_score": 0.71, "confidence": 0.8,
   "source_ids": [4, 5], "tags": [], "kind": null, "language": "en", "metadata": {"a": 1},
   "created_at": "2026-11-15T10:00:00Z", "updated_at": "2026-11-15T10:00:00Z",
   "file_path": null, "chunk_index": null, "location": null, "semantic_rank": 1, "semantic_similarity": 0.72,
   "fts_rank": 2, "fts_score": 11.3, "graph_rank": null, "graph_score": null, "graph_distance": null,
   "tags_rank": null}]}
""")


@pytest.mark.spec("S3.5")
@pytest.mark.spec("S4.5")
@pytest.mark.spec("B3")
def test_the_response_of_the_specification() -> None:
    assert response_json(RESPONSE) == SPECIFIED


@pytest.mark.spec("S3.2")
@pytest.mark.parametrize("name", ["semantic", "keyword", "graph", "tags"])
def test_a_single_retriever_is_reported_as_the_method(name: str) -> None:
    plan = replace(RESPONSE.plan, retrievers=(name,))
    assert response_json(replace(RESPONSE, plan=plan))["method"] == name


@pytest.mark.spec("B2")
def test_the_explanation_is_included_only_on_request() -> None:
    tree = Explanation(0.71, "score: the sum of", (Explanation(0.71, "semantic: rank 1"),))
    (plain,) = response_json(RESPONSE)["results"]
    (explained,) = response_json(replace(RESPONSE, results=(replace(RESULT, explanation=tree),)))["results"]
    assert "explanation" not in plain
    assert explained["explanation"] == {
        "value": 0.71,
        "description": "score: the sum of",
        "details": [{"value": 0.71, "description": "semantic: rank 1", "details": []}],
    }


def test_a_score_of_a_retriever_that_did_not_list_the_item_has_no_rank() -> None:
    result = replace(RESULT, contributions=(Contribution("semantic", None, 0.3, 0.1, 0.4, 0.04),))
    (form,) = response_json(replace(RESPONSE, results=(result,)))["results"]
    assert (form["semantic_rank"], form["semantic_similarity"]) == (None, 0.3)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_number_of_a_response_is_nan(number: float) -> None:
    wrong = (Contribution("semantic", 1, number, number, number, number),)
    result = replace(RESULT, score=number, confidence=number, contributions=wrong, explanation=Explanation(number, "?"))
    text = dumps(response_json(replace(RESPONSE, confidence=number, results=(result,))))
    assert json.loads(text)["results"][0]["semantic_similarity"] is None


def test_dumps_is_strict_and_readable() -> None:
    assert dumps({"a": "ä"}) == '{"a": "ä"}'
    with pytest.raises(ValueError, match="JSON compliant"):
        dumps({"a": math.nan})


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOON, "2026-11-15T10:00:00Z"),
        (NOON.replace(microsecond=120), "2026-11-15T10:00:00.000120Z"),
        (NOON.astimezone(timezone(timedelta(hours=5, minutes=30))), "2026-11-15T10:00:00Z"),
    ],
)
def test_times_are_utc(moment: datetime, text: str) -> None:
    assert time_json(moment) == text


@pytest.mark.spec("B5")
def test_filters_show_what_was_asked_for() -> None:
    filters = Filters(("a",), True, NOON, NOON, "note", "de", "docs/**", (MetadataTest("year", "gte", 0),))
    assert filters_json(NO_FILTERS) == {}
    assert filters_json(Filters(kind="note")) == {"kind": "note"}
    assert filters_json(filters) == {
        "tags": ["a"],
        "any_tag": True,
        "created_from": "2026-11-15T10:00:00Z",
        "created_to": "2026-11-15T10:00:00Z",
        "kind": "note",
        "language": "de",
        "path": "docs/**",
        "metadata": [{"key": "year", "op": "gte", "value": 0}],
    }
    assert filters_json(Filters(where="line >= 10 and kind != code")) == {
        "where": {"and": [{"metadata.line": {"gte": 10}}, {"kind": {"ne": "code"}}]}
    }

"""Answers of the tools: small JSON within a token budget, sent once, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mcp_types import CallToolResult, TextContent

from fourfold import wire
from fourfold.errors import FourfoldError
from fourfold.limits import ANSWER_ROWS
from fourfold.serve.budget import Form, fitting, serialised, shortened, tokens

if TYPE_CHECKING:
    from fourfold.engine.search import Why
    from fourfold.model import Item, Json, Neighbor, Node, RawRecord
    from fourfold.retrieval import Result, SearchResponse

SEARCH_TOKENS: Final = 4_000
READ_TOKENS: Final = 10_000
"""Default budgets: of lists, and of full texts."""
_ECHO_TOKENS: Final = 1_000
"""The budget for an item that a tool has just stored."""
_ID_TOKENS: Final = 10
_TITLE_CHARACTERS: Final = 200
_SHORT_SNIPPET: Final = 80
_BEGINNING_CHARACTERS: Final = 240
_DIGITS: Final = 3
_MOST_DIGITS: Final = 9
"""Of a score."""
_COPIES: Final = 3
"""Other files with the same text that are named."""
_ECHOED: Final = (
    *("masked", "key", "namespace", "tags", "kind", "language", "source_ids"),
    *("subject", "attribute", "supersedes"),
)


# ---------------------------------------------------------------- sending


def answer(form: Mapping[str, Json]) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=serialised(form))])


def refusal(error: FourfoldError, tool: str) -> CallToolResult:
    """The error with its remedy."""
    form = {**wire.error_json(error, tool), "details": remedy_for_agents(error.remedy)}
    return CallToolResult(content=[TextContent(type="text", text=wire.compact(form))], is_error=True)


_TOOLS_FOR_COMMANDS: Final = {
    "fourfold list": "list_memories",
    "fourfold graph nodes --like TEXT": "hybrid_search",
    "fourfold graph node NAME": "graph_add_node or link",
    "fourfold raw list": "read_raw_dialogue without ids",
    "fourfold tags": "list_memories with counts",
    "--preset ": "preset ",
}


def remedy_for_agents(remedy: str) -> str:
    """A remedy in terms of tools; one that needs the command line is addressed to the user."""
    for command, tool in _TOOLS_FOR_COMMANDS.items():
        remedy = remedy.replace(command, tool)
    return f"Ask the user to do this: {remedy}" if "fourfold " in remedy or "--" in remedy else remedy


# ---------------------------------------------------------------- searches


def search_answer(
    response: SearchResponse, results: Sequence[Result], budget: int, *, explain: bool, page: Mapping[str, Json]
) -> dict[str, Json]:
    """The results within the budget: the best in full, the others as snippets."""
    whole = wire.response_facts(response)
    several = len({result.item.namespace for result in response.results}) > 1
    frame: dict[str, Json] = {**(whole if explain else _brief(response, whole)), **page}
    for echo in ("applied_filters", "query"):
        if echo in frame and tokens(wire.compact(frame)) > budget // 2:
            del frame[echo]
    digits = _digits([result.score for result in results])
    forms = [
        _explained_forms(result) if explain else _result_forms(result, digits, several=several) for result in results
    ]
    said = frame.pop("notes", [])
    kept = within({**frame, "notes": [*said, *_cut_notes(len(forms), len(forms))]}, "results", forms, budget)
    shorter = sum(form != each[-1] for form, each in zip(kept, forms, strict=False))
    notes = [*said, *_cut_notes(len(forms) - len(kept), shorter)]
    return {**frame, **({"notes": notes} if notes or explain else {}), "results": kept}


def _cut_notes(dropped: int, shorter: int) -> list[str]:
    counts = {"more results did not fit into": dropped, "results were shortened to fit into": shorter}
    return [f"{count} {what} max_tokens" for what, count in counts.items() if count]


def _brief(response: SearchResponse, whole: Mapping[str, Json]) -> dict[str, Json]:
    """The fields of a response that every answer has, without those that are empty or 0."""
    weights = {name: _rounded(weight) for name, weight in response.applied_weights.items() if weight}
    counts = {name: whole[name] for name in whole if name.endswith("_results_count") and whole[name]}
    said = {name: whole[name] for name in ("matched_keywords", "degraded", "notes", "time_window") if whole.get(name)}
    facts = {"status": "success", "query_type": response.plan.query_type, "applied_weights": weights, **counts}
    return {**facts, "confidence": _rounded(response.confidence), **said}


def _digits(scores: Sequence[float]) -> int:
    """The digits by which different scores differ, as far as they differ at all."""
    distinct = len({round(score, _MOST_DIGITS) for score in scores})
    tried = range(_DIGITS, _MOST_DIGITS)
    return next((digits for digits in tried if len({round(each, digits) for each in scores}) == distinct), _MOST_DIGITS)


def _result_forms(result: Result, digits: int, *, several: bool) -> list[Form]:
    item = result.item
    bare = {
        "id": item.id,
        **({"namespace": item.namespace} if several else {}),
        **_name(item),
        "score": round(result.score, digits),
        "confidence": _rounded(result.confidence),
        **_dates(item),
        **({"outside_window": True} if result.outside_window else {}),
        **({"also_in": list(result.also_in[:_COPIES])} if result.also_in else {}),
    }
    fact = {"subject": item.subject, "attribute": item.attribute, "source_ids": list(item.source_ids)}
    more = {**bare, **_filled(fact)}
    full = {**more, "content": item.text} if item.text else more
    if len(item.text) <= len(result.snippet):
        return [bare, full]
    return [
        bare,
        {**more, "snippet": result.excerpt(_SHORT_SNIPPET)},
        {**more, "snippet": result.snippet},
        full,
    ]


def _dates(item: Item) -> Form:
    """The day of an item, and the days that say more about it than that."""
    times = {
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "occurred_at": item.occurred_at,
        "superseded_at": item.superseded_at,
    }
    days = {name: time.date().isoformat() for name, time in times.items() if time is not None}
    return {
        name: day for name, day in days.items() if name in ("created_at", "superseded_at") or day != days["created_at"]
    }


def _explained_forms(result: Result) -> list[Form]:
    full = wire.result_json(result)
    bare = {"id": result.id, "score": full["score"], "confidence": full["confidence"]}
    return [bare, {name: value for name, value in full.items() if name not in ("content", "metadata")}, full]


def why_answer(why: Why, query: str) -> dict[str, Json]:
    """A result without its text, which get_memory returns."""
    form = wire.why_json(why, query)
    result = form["result"]
    if result is not None:
        result = {name: value for name, value in result.items() if name not in form["item"]}
    sources: list[Form] = raw_answer(why.sources[:ANSWER_ROWS], 0, _ECHO_TOKENS)["raw"]
    facts = {"query": shortened(query, _ECHO_TOKENS), "item": stored_form(why.item), "result": result}
    return {**form, **facts, "sources": sources}


# ---------------------------------------------------------------- items


def stored_form(item: Item) -> Form:
    """The fields of an item just written that the store may have changed."""
    bare = {"id": item.id, **_name(item)}
    facts = {name: value for name, value in wire.encode(item).items() if name in _ECHOED}
    return fitting([[bare, _filled({**bare, **facts})]], _ECHO_TOKENS)[0]


def listed_forms(item: Item) -> list[Form]:
    bare = {"id": item.id, **_name(item)}
    created = wire.time_json(item.created_at.replace(microsecond=0))
    fact = {"subject": item.subject, "attribute": item.attribute}
    labels = {"key": item.key, "kind": item.kind, "tags": list(item.tags)}
    short = _filled({**bare, **labels, **fact, "created_at": created})
    full = _filled({**short, "content": item.text})
    beginning = item.text[:_BEGINNING_CHARACTERS]
    return [bare, short, full] if beginning == item.text else [bare, short, {**short, "snippet": beginning + "…"}, full]


def item_forms(item: Item, offset: int, share: int) -> list[Form]:
    """The fields of an item, and its text from `offset` on, as far as its share of the budget allows."""
    facts = _filled({name: value for name, value in wire.encode(item).items() if name != "content"})
    return _text_forms({"id": item.id, **_name(item)}, facts, item.text, offset, share)


def _text_forms(bare: Form, facts: Form, text: str, offset: int, share: int) -> list[Form]:
    """The forms of something with a long text; `next_offset` is present while text remains."""
    rest = text[offset:]
    if not rest:
        return [bare, facts]
    sizes = ((form, tokens(wire.compact(form))) for form in (facts, bare))
    shown, size = next(((form, size) for form, size in sizes if size < share / 2), ({"id": bare["id"]}, _ID_TOKENS))
    part = shortened(rest, max(0, share - size - len('"next_offset":1000000')))
    left = {"next_offset": offset + len(part)} if len(part) < len(rest) else {}
    return [{**bare, "next_offset": offset}, {**shown, "content": part, **left}, {**facts, "content": rest}]


def within(form: Mapping[str, Json], name: str, entries: Sequence[Sequence[Form]], budget: int) -> list[Form]:
    """The forms of entries that fit into the list `name` of an answer of this form."""
    return fitting(entries, budget - tokens(wire.compact({**form, name: []})))


def page_answer(name: str, entries: Sequence[Sequence[Form]], total: int, offset: int, budget: int) -> dict[str, Json]:
    """One page of a list; `next_offset` says where the next one begins."""
    form = {"status": "success", "total": total, "has_more": True, "next_offset": offset + len(entries)}
    kept = within(form, name, entries, budget)
    end = offset + len(kept)
    more = {"has_more": True, "next_offset": end} if end < total else {"has_more": False}
    return {"status": "success", "total": total, **more, name: kept}


def counts_answer(
    form: Mapping[str, Json], counts: Mapping[str, Sequence[tuple[str, int]]], budget: int
) -> dict[str, Json]:
    """Names with the number of their uses, most frequent first, as many as fit."""
    share = budget // len(counts)
    kept = {name: fitting([[{tag: uses}] for tag, uses in pairs], share) for name, pairs in counts.items()}
    merged = {name: {tag: uses for form in forms for tag, uses in form.items()} for name, forms in kept.items()}
    cut = [name for name, pairs in counts.items() if len(merged[name]) < len(pairs)]
    notes = {"notes": [f"only the commonest {name} are shown" for name in cut]} if cut else {}
    return {"status": "success", **form, **merged, **notes}


def status_form(status: Mapping[str, Json]) -> dict[str, Json]:
    """The status of a store, with at most as many namespaces as an answer has rows."""
    namespaces = status["namespaces"]
    shown = dict(list(namespaces.items())[:ANSWER_ROWS])
    rest = {} if len(shown) == len(namespaces) else {"namespaces_total": len(namespaces)}
    return {**status, "namespaces": shown, **rest}


def _name(item: Item) -> Form:
    title = item.title if len(item.title) <= _TITLE_CHARACTERS else item.title[:_TITLE_CHARACTERS] + "…"
    place = {name: item.metadata.get(name) for name in ("line", "page") if item.path is not None}
    return _filled({"title": title, "file_path": item.path, **place})


def _filled(form: Mapping[str, Json]) -> Form:
    """Drops empty fields."""
    return {name: value for name, value in form.items() if value not in (None, "", [], {})}


def _rounded(number: float) -> float:
    return round(number, _DIGITS)


# ---------------------------------------------------------------- the graph and raw records


def node_form(node: Node) -> Form:
    bare = {"id": node.id, "name": node.name, "label": node.label}
    return fitting([[bare, _filled(wire.encode(node))]], _ECHO_TOKENS)[0]


def neighbor_forms(neighbor: Neighbor) -> list[Form]:
    full = _filled(wire.encode(neighbor))
    short = {name: value for name, value in full.items() if name not in ("aliases", "properties")}
    return [short, full]


def raw_forms(record: RawRecord, offset: int, share: int) -> list[Form]:
    """A raw record, with as much of its text as its share of the budget allows."""
    facts = _filled({name: value for name, value in wire.encode(record).items() if name != "content"})
    bare = {name: facts[name] for name in ("id", "speaker", "session_id", "created_at") if name in facts}
    return _text_forms(bare, facts, record.content, offset, share)


def raw_answer(records: Sequence[RawRecord], offset: int, budget: int) -> dict[str, Json]:
    form = {"status": "success"}
    share = budget // max(len(records), 1) - 10
    kept = within(form, "raw", [raw_forms(record, offset, share) for record in records], budget)
    return {**form, "raw": kept, **left_out({"raw records": len(records) - len(kept)})}


def left_out(missing: Mapping[str, int]) -> dict[str, Json]:
    """A note for each part of an answer that is incomplete."""
    notes = [f"{count} more {what} did not fit into max_tokens" for what, count in missing.items() if count]
    return {"notes": notes} if notes else {}

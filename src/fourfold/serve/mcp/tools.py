"""The tools: adapters of operations of `AsyncMemory`, with their parameters and descriptions for a model."""

# No `from __future__ import annotations`: the SDK reads the annotations of every tool when the server starts.

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast, get_args

from mcp_types import CallToolResult, ToolAnnotations
from pydantic import Field, WithJsonSchema

from fourfold import limits
from fourfold.engine.maintenance import in_future
from fourfold.errors import InvalidQuery
from fourfold.fields import DETAILS, Column, FilterOption, advised_fields, filter_options
from fourfold.limits import ANSWER_ROWS, TOP_K
from fourfold.model import Edge, Filters, Item, ItemPatch, Json, Neighbor, Node, Page, RawRecord
from fourfold.operations import OPERATIONS, Operation
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.ranking.plan import AUTO
from fourfold.retrieval import SearchResponse
from fourfold.serve import inputs
from fourfold.serve.access import Sessions
from fourfold.serve.budget import SMALLEST_TOKENS, Form, check_budget
from fourfold.serve.mcp import answers
from fourfold.wire import encode, json_of, parameters_of, result_of

if TYPE_CHECKING:
    from fourfold.aio import AsyncMemory

# ---------------------------------------------------------------- parameters

HIDDEN = "hidden"


def _bounds(least: float | None, most: float | None) -> dict[str, Any]:
    """Bounds that a model reads. The engine enforces them, with a better message than pydantic's."""
    return {name: bound for name, bound in (("minimum", least), ("maximum", most)) if bound is not None}


def accepted(description: str = "") -> Any:
    """A parameter that is accepted and documented (docs/mcp.md), but not part of the definitions."""
    return Field(description=description, json_schema_extra={HIDDEN: True})


Query = Annotated[str, Field(description="A question, keywords or names, in the user's words and language.")]
MaxTokens = Annotated[
    inputs.Integer | None,
    Field(
        description="Budget of the answer; texts that do not fit become snippets. Default: 4000.",
        json_schema_extra=_bounds(SMALLEST_TOKENS, limits.ANSWER_TOKENS),
    ),
]
Namespace = Annotated[str | None, Field(description="Leave out unless told.")]
Namespaces = Annotated[str | None, Field(description="Leave out unless told. Several: separated by commas.")]
ItemId = Annotated[inputs.Id, Field(description='An id, or "key:K".')]
ItemIds = Annotated[
    list[inputs.Id], Field(description='Ids, or "key:K".', json_schema_extra={"maxItems": limits.ANSWER_ROWS})
]
Sources = Annotated[list[inputs.RawId] | None, Field(description="Ids of raw records that it is drawn from.")]
Limit = Annotated[inputs.Integer, Field(description="Rows.", json_schema_extra=_bounds(1, limits.ANSWER_ROWS))]
Offset = Annotated[inputs.Integer, Field(description="Rows to skip.", json_schema_extra={"minimum": 0})]


def check_rows(limit: int, offset: int) -> None:
    if not 1 <= limit <= limits.ANSWER_ROWS or offset < 0:
        raise InvalidQuery(f"limit {limit}, offset {offset}", f"limit is 1 to {limits.ANSWER_ROWS}; offset from 0")


# ---------------------------------------------------------------- parameters that derive from descriptions


class Options(dict[str, Any]):
    """Options of a search by the name of the parameter of `Memory.search`."""


_NAMESPACE = inspect.Parameter("namespace", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Namespace)


def with_derived(
    tool: Callable[..., Awaitable[Any]], operation: Operation, sessions: Sessions
) -> Callable[..., Awaitable[Any]]:
    """The tool with its parameters `details`, `filters` and `options` replaced by those of the descriptions.

    `options: Annotated[Options, "top_k", ...]` names the options of the search that the tool has. A tool with the
    parameter `memory` gets that of the namespace which a call names. One with the parameter `result` has the parameters
    of its operation, and gets what the method returns.
    """
    own = inspect.signature(tool).parameters
    groups = {name: _GROUPS[name](parameter) for name, parameter in own.items() if name in _GROUPS}

    @wraps(tool)
    async def calling(**arguments: Any) -> Any:
        for name, (parameters, read) in groups.items():
            arguments[name] = read({each: arguments.pop(each) for each in parameters if each in arguments})
        if "memory" in own:
            arguments["memory"] = await sessions.memory(arguments.pop("namespace", None))
        if "result" in own:
            method = getattr(await sessions.memory(arguments.pop("namespace", None)), operation.name)
            arguments = {"result": await method(**_arguments(operation, arguments))}
        return await tool(**arguments)

    derived: dict[str, list[inspect.Parameter]] = {name: [*group[0].values()] for name, group in groups.items()}
    derived["memory"] = [_NAMESPACE]
    if "result" in own:
        derived["result"] = [*_operation_parameters(operation), _NAMESPACE]
    merged = [new for name, parameter in own.items() for new in derived.get(name, [parameter])]
    cast("Any", calling).__signature__ = inspect.Signature(
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in merged]
    )
    return calling


_Group = tuple[Mapping[str, inspect.Parameter], Callable[[dict[str, Any]], Any]]
"""Parameters that stand for one of a tool, and what makes its value of theirs."""


def _options(parameter: inspect.Parameter) -> _Group:
    options = {str(OPTIONS[name].argument): OPTIONS[name] for name in get_args(parameter.annotation)[1:]}
    return {name: _search_parameter(option) for name, option in options.items()}, lambda values: Options(
        {options[name].name: value for name, value in values.items()}
    )


_GROUPS: Mapping[str, Callable[[inspect.Parameter], _Group]] = {
    "details": lambda _: (
        {name: _detail_parameter(column) for name, column in DETAILS.items() if column.given},
        dict,
    ),
    "filters": lambda _: (
        {name: _filter_parameter(option) for name, option in filter_options().items()},
        inputs.read_filters,
    ),
    "options": _options,
}


def _operation_parameters(operation: Operation) -> Iterator[inspect.Parameter]:
    """The parameters of the method; the id of an item is named `item_id`."""
    for each in parameters_of(operation.name):
        field = Field(description=each.help or None, json_schema_extra=_bounds(*each.bounds))
        default = None if each.default == () else each.default
        kind = inputs.strict_type(each.hint, {(int,): inputs.RawId} if each.name == "ids" else None)
        kind = kind | None if default is None else kind
        name = "item_id" if each.name == "item" else each.name
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, field]
        )
    if operation.paged:
        yield inspect.Parameter("limit", inspect.Parameter.KEYWORD_ONLY, default=20, annotation=Limit)
        yield inspect.Parameter("offset", inspect.Parameter.KEYWORD_ONLY, default=0, annotation=Offset)


def _arguments(operation: Operation, values: Mapping[str, Any]) -> dict[str, Any]:
    if operation.paged:
        check_rows(values["limit"], values["offset"])
    names = {"item_id": "item"}
    arguments = {names.get(name, name): value for name, value in values.items() if value is not None}
    return arguments | dict.fromkeys(operation.stamped, "agent")


def _search_parameter(option: SearchOption) -> inspect.Parameter:
    extra = _bounds(option.least, option.most)
    if option.choices:
        extra["enum"] = [*option.choices]
    field = Field(description=option.advised, json_schema_extra=extra) if option.listed else accepted(option.advised)
    return _parameter(str(option.argument), option.holds, field)


def _detail_parameter(column: Column) -> inspect.Parameter:
    field = Field(description=column.help) if column.listed else accepted(column.help)
    return _parameter(column.name, "whole" if column.holds == "number" else column.holds, field)


def _filter_parameter(option: FilterOption) -> inspect.Parameter:
    if option.holds == "condition":
        described = option.advice.format(fields=advised_fields())
        form = Annotated[str | dict[str, Any] | None, WithJsonSchema({"type": "string", "description": described})]
        return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=form)
    field = Field(description=option.advice) if option.listed else accepted(option.advice)
    return _parameter(option.name, str(option.holds), field)


def _parameter(name: str, holds: str, field: Any) -> inspect.Parameter:
    form = Annotated[inputs.TYPES.get(holds, str | None), field]
    default = False if holds == "flag" else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=form)


_AROUND_CHUNKS = 10
_READ_ITEMS = 10
"""Maximum number of items per call, since a text may have a megabyte."""
Embedding = Annotated[list[inputs.Number] | None, accepted("The vector, instead of one made from the text.")]
Weight = Annotated[inputs.Number, Field(json_schema_extra={"exclusiveMinimum": 0, "maximum": 1})]

# ---------------------------------------------------------------- what is offered

Tool = TypeVar("Tool", bound=Callable[..., Awaitable[CallToolResult]])
Level = Literal["core", "graph", "all"]
"""Which tools a server has; each level includes those before it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """How a tool is presented to a model."""

    name: str
    level: Level
    operation: Operation
    title: str
    description: str
    destroys: bool = False
    repeats: bool = False
    """Whether repeating the call changes something again."""

    @property
    def writes(self) -> bool:
        return self.operation.scope != "read"

    @property
    def annotations(self) -> ToolAnnotations:
        return ToolAnnotations(
            read_only_hint=not self.writes,
            destructive_hint=self.destroys,
            idempotent_hint=not self.repeats,
            open_world_hint=False,
        )


OFFERS: Final[list[Offer]] = []
"""Every tool, in the order in which they are listed."""


def offers(level: Level) -> list[Offer]:
    levels = get_args(Level)
    return [offer for offer in OFFERS if levels.index(offer.level) <= levels.index(level)]


def offer(
    level: Level, operation: str, title: str, *, destroys: bool = False, repeats: bool = False
) -> Callable[[Tool], Tool]:
    """Offers a method of `Tools` as the tool of its name for an operation. Its docstring is what a model reads."""

    def offered(tool: Tool) -> Tool:
        description = " ".join((tool.__doc__ or "").split())
        OFFERS.append(Offer(tool.__name__, level, OPERATIONS[operation], title, description, destroys, repeats))
        return tool

    return offered


# ---------------------------------------------------------------- the tools


class Tools:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @offer("core", "search", "Search the memory")
    async def hybrid_search(
        self,
        query_text: Query,
        filters: Filters,
        options: Annotated[
            Options,
            *("vector", "top_k", "weights", "fusion", "preset", "alpha", "rrf_k", "rerank", "time", "min_confidence"),
            *("cut", "explain", "history", "as_of", "source_weights"),
        ],
        max_tokens: Annotated[inputs.Integer | None, accepted("Budget of the answer. Default: 4000.")] = None,
        namespace: Annotated[str | None, accepted("Several: separated by commas.")] = None,
    ) -> CallToolResult:
        """Search memories and indexed documents by meaning, words, relations and tags at once. Use it before answering
        anything that may depend on earlier conversations, decisions, preferences or the user's documents.
        `confidence`, from 0 to 1, says how well the store answers: if it is low and no result answers, say that
        nothing is known. A `snippet` is part of a text; get_memory has the rest. `degraded` names what could not
        answer. Also accepted: as_of (what was believed on an ISO date), min_confidence, max_tokens (default 4000),
        namespace, preset, fusion, explain.
        """
        return await self._answered(namespace, query_text, filters, options, max_tokens)

    @offer("core", "add", "Remember")
    async def store_memory(
        self,
        content: Annotated[str, Field(description="Complete in itself: names instead of pronouns, dates.")],
        title: Annotated[str, Field(description="A short name. Memories that mention it become linked.")] = "",
        tags: Annotated[list[str] | None, Field(description="A few words to filter by.")] = None,
        kind: Annotated[str | None, Field(description="Such as fact, decision, preference, procedure.")] = None,
        key: Annotated[str | None, Field(description="Your own id. Storing under it again replaces the text.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else.")] = None,
        source_ids: Sources = None,
        *,
        details: dict[str, Any],
        created_at: Annotated[str | None, accepted("ISO date or time; now if left out.")] = None,
        language: Annotated[str | None, accepted("ISO 639-1; detected if left out.")] = None,
        embedding: Embedding = None,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """Store one fact, decision, preference or procedure that will matter later. A new value with the same subject
        and attribute supersedes the old one, which history shows. The same text again gives the same memory. Do not
        store secrets or what is only needed now.
        """
        fields = {"text": content, "title": title, "tags": tags, "kind": kind, "key": key, "metadata": metadata}
        fields |= {"source_ids": source_ids, "created_at": created_at, "language": language, "vector": embedding}
        new = inputs.read_item({**fields, **details}, "agent")
        in_future(new.expires_at)
        # The agent may search for it at once in other words, so it waits for the vector.
        return _stored(await memory.add(new, wait=True))

    @offer("core", "get", "Read memories")
    async def get_memory(
        self,
        ids: ItemIds,
        around: Annotated[
            inputs.Integer,
            Field(description="Chunks of the file on each side.", json_schema_extra={"maximum": _AROUND_CHUNKS}),
        ] = 0,
        offset: Annotated[
            inputs.Integer,
            Field(description="Characters of the text to skip: next_offset.", json_schema_extra={"minimum": 0}),
        ] = 0,
        sources: Annotated[inputs.Flag, Field(description="With the raw records that they are drawn from.")] = False,
        history: Annotated[inputs.Flag, Field(description="With earlier versions and values.")] = False,
        max_tokens: Annotated[inputs.Integer | None, accepted("Budget of the answer. Default: 10000.")] = None,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """The full text and all fields of memories, by id."""
        budget = check_budget(answers.READ_TOKENS if max_tokens is None else max_tokens)
        wanted = list(dict.fromkeys(ids))
        if len(wanted) > ANSWER_ROWS or offset < 0 or not 0 <= around <= _AROUND_CHUNKS:
            remedy = f"At most {ANSWER_ROWS} ids and {_AROUND_CHUNKS} neighbours on each side; offset from 0"
            raise InvalidQuery(f"{len(wanted)} ids, around {around}, offset {offset}", remedy)
        room = budget // 2 if sources else budget
        share = max(room // max(len(wanted), 1) - 10, 1)
        forms: dict[int, Sequence[Form]] = {}
        drawn_from: dict[int, None] = {}
        unread = wanted
        while unread and len(forms) <= 2 * ANSWER_ROWS:
            for item in await _read(memory, unread[:_READ_ITEMS], around, history=history):
                forms.setdefault(item.id, answers.item_forms(item, offset, share))
                drawn_from |= dict.fromkeys(item.source_ids)
            unread = unread[_READ_ITEMS:]
        form: Form = {"status": "success"}
        form["items"] = answers.within(form, "items", list(forms.values()), room)
        missing = {"items": len(forms) - len(form["items"]) + len(unread)}
        if sources:
            records = await memory.get_raw(list(drawn_from)[:ANSWER_ROWS])
            form["sources"] = answers.raw_answer(records, 0, budget - room)["raw"]
            missing["sources"] = len(drawn_from) - len(form["sources"])
        return answers.answer({**form, **answers.left_out(missing)})

    @offer("core", "list", "Browse")
    async def list_memories(
        self,
        filters: Filters,
        limit: Limit = 20,
        offset: Offset = 0,
        counts: Annotated[inputs.Flag, Field(description="Instead of memories: the tags and kinds in use.")] = False,
        max_tokens: Annotated[inputs.Integer | None, accepted("Budget of the answer. Default: 4000.")] = None,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """Memories without a query, newest first, in pages; or, with `counts`, which tags and kinds exist."""
        check_rows(limit, offset)
        budget = check_budget(answers.SEARCH_TOKENS if max_tokens is None else max_tokens)
        total = await memory.count(filters)
        if counts:
            used = {"tags": await memory.tags(), "kinds": await memory.kinds()}
            return answers.answer(answers.counts_answer({"total": total}, used, budget))
        forms: list[Sequence[Form]] = []
        for start in range(offset, offset + limit, _READ_ITEMS):
            size = min(_READ_ITEMS, offset + limit - start)
            items = await memory.list(filters, limit=size, offset=start)
            forms += [answers.listed_forms(item) for item in items]
            if len(items) < size:
                break
        return answers.answer(answers.page_answer("items", forms, total, offset, budget))

    @offer("core", "update", "Change a memory", destroys=True)
    async def update_memory(
        self,
        id: ItemId,
        content: Annotated[str | None, Field(description="The whole new text.")] = None,
        title: str | None = None,
        add_tags: list[str] | None = None,
        remove_tags: list[str] | None = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Merged; null removes a key.")] = None,
        undo: Annotated[inputs.Flag, Field(description="Instead: bring back what was stored before.")] = False,
        merge: Annotated[
            list[inputs.Id] | None, Field(description="Instead: ids of copies of it to merge into it.")
        ] = None,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """Correct one memory that was stored wrongly. If a fact has changed, store its new value instead."""
        patch = ItemPatch(content, title, tuple(add_tags or ()), tuple(remove_tags or ()), metadata)
        if (undo or merge) and (patch != ItemPatch() or (undo and merge)):
            raise InvalidQuery("undo, merge and changes need separate calls", "Undo or merge first, then change it")
        if merge:
            return answers.answer({"status": "success", "item": answers.stored_form(await memory.merge(id, merge))})
        if undo:
            return answers.answer({"status": "success", "item": answers.stored_form(await memory.undo(id, wait=True))})
        return _stored(await memory.update(id, replace(patch, source="agent"), wait=True))

    @offer("core", "forget", "Forget", destroys=True)
    async def delete_memory(self, ids: ItemIds, *, memory: "AsyncMemory") -> CallToolResult:
        """Delete memories for good, all of them or none. Only when the user asks for it; correct what is stored wrongly
        with update_memory.
        """
        deleted = await memory.forget(list(dict.fromkeys(ids)))
        return answers.answer({"status": "success", "deleted": deleted})

    @offer("core", "add_edges", "Relate two names")
    async def link(
        self,
        source: Annotated[str, Field(description="A person, a project, the title of a memory.")],
        relation: Annotated[str, Field(description="Such as works on.")],
        target: Annotated[str, Field(description="Another name.")],
        weight: Weight = 1.0,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """Say that two names are related, such as Maria / works on / Project Eagle. Searches that mention one then
        find what is known about the other.
        """
        edge = await memory.add_edge(source, relation, target, weight)
        form = {"source": edge.source, "relation": edge.relation, "target": edge.target, "weight": edge.weight}
        return answers.answer({"status": "success", **form})

    @offer("graph", "add_node", "Add a node")
    async def graph_add_node(self, result: Node) -> CallToolResult:
        """Add a node to the graph, or what is new about one that exists: aliases, properties, the memory about it."""
        return answers.answer({"status": "success", "node": answers.node_form(result)})

    @offer("graph", "add_edges", "Add an edge")
    async def graph_add_edge(
        self,
        source: Annotated[str, Field(description="A node's name; made if it does not exist.")],
        relation: Annotated[str, Field(description="The type of the edge.")],
        target: Annotated[str, Field(description="A node's name; made if it does not exist.")],
        weight: Weight = 1.0,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """Add a typed, weighted edge; again sets the weight."""
        return await self.link(source, relation, target, weight, memory=memory)

    @offer("graph", "neighbors", "Neighbours")
    async def graph_query_neighbors(self, result: Page[Neighbor]) -> CallToolResult:
        """Nodes around a node with relation, distance and weight, nearest first, in pages."""
        forms = [answers.neighbor_forms(neighbor) for neighbor in result]
        return answers.answer(
            answers.page_answer("neighbors", forms, result.total, result.offset, answers.SEARCH_TOKENS)
        )

    @offer("graph", "path", "Path")
    async def graph_find_path(self, result: list[Edge]) -> CallToolResult:
        """A shortest path between two nodes."""
        return answers.answer({"status": "success", "found": bool(result), "edges": [encode(edge) for edge in result]})

    @offer("all", "search", "Search by meaning")
    async def semantic_search(
        self,
        query_text: Query,
        filters: Filters,
        options: Annotated[Options, "vector", "top_k", "min_confidence", "cut", "explain"],
        max_tokens: MaxTokens = None,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        """Search by meaning only (vectors). Prefer hybrid_search; this one is for wording that shares no words with
        what is stored.
        """
        return await self._answered(namespace, query_text, filters, {**options, "only": ["semantic"]}, max_tokens)

    @offer("all", "search", "Search by words")
    async def full_text_search(
        self,
        query_text: Query,
        filters: Filters,
        options: Annotated[Options, "top_k", "min_confidence", "cut", "explain"],
        max_tokens: MaxTokens = None,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        """Search by words only (BM25), in the language of each text. Prefer hybrid_search; this one is for exact
        names, codes and quotations.
        """
        return await self._answered(namespace, query_text, filters, {**options, "only": ["keyword"]}, max_tokens)

    @offer("all", "search", "Retrieve memories")
    async def retrieve_memory(
        self,
        query: Query,
        filters: Filters,
        options: Annotated[Options, "min_confidence", "cut", "explain"],
        page: Annotated[inputs.Integer, Field(json_schema_extra={"minimum": 1})] = 1,
        page_size: Annotated[
            inputs.Integer, Field(description="100 results in all.", json_schema_extra={"minimum": 1, "maximum": TOP_K})
        ] = 10,
        alpha: Annotated[
            inputs.Number | None,
            Field(
                description="1 is vectors only (no hybrid search), 0 is tags only. Leave out.",
                json_schema_extra={"minimum": 0, "maximum": 1},
            ),
        ] = None,
        max_tokens: MaxTokens = None,
        namespace: Namespaces = None,
    ) -> CallToolResult:
        """Hybrid search with recency between near-ties, in pages. alpha=1 opts out of hybrid search: vectors only."""
        if page < 1 or not 1 <= page_size <= TOP_K or page * page_size > TOP_K:
            raise InvalidQuery(f"page {page} of {page_size}", f"Pages start at 1; there are {TOP_K} results at most")
        budget = _budget(max_tokens)
        response = await self._searched(
            namespace,
            query,
            preset="memories",
            alpha=alpha,
            top_k=TOP_K,
            filters=filters,
            **options,
        )
        total, start = len(response.results), (page - 1) * page_size
        facts: Mapping[str, Json] = {
            "page": page,
            "page_size": page_size,
            "total": total,
            "has_more": start + page_size < total,
        }
        shown = response.results[start : start + page_size]
        explain = options.get("explain", False)
        return answers.answer(answers.search_answer(response, shown, budget, explain=explain, page=facts))

    @offer("all", "add_raw", "Keep an original", repeats=True)
    async def store_raw_dialogue(self, result: RawRecord) -> CallToolResult:
        """Keep what was said, word by word. It is not searched; memories drawn from it point back to it."""
        return answers.answer({"status": "success", "raw": {"id": result.id}})

    @offer("all", "list_raw", "Read originals")
    async def read_raw_dialogue(
        self,
        ids: Annotated[
            list[inputs.RawId] | None, Field(description="These records, in full. Leave out to list.")
        ] = None,
        session_id: Annotated[str | None, Field(description="Of this conversation.")] = None,
        speaker: Annotated[str | None, Field(description="Said by this speaker.")] = None,
        limit: Limit = 20,
        offset: Annotated[
            inputs.Integer,
            Field(description="Rows to skip; with ids, characters of each.", json_schema_extra={"minimum": 0}),
        ] = 0,
        max_tokens: Annotated[inputs.Integer | None, accepted("Budget of the answer. Default: 10000.")] = None,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """Raw records by id in full, or a list of them, newest first, in pages."""
        check_rows(limit, offset)
        budget = check_budget(answers.READ_TOKENS if max_tokens is None else max_tokens)
        if ids is not None:
            if session_id is not None or speaker is not None or len(set(ids)) > ANSWER_ROWS:
                raise InvalidQuery(f"{len(ids)} ids", f"At most {ANSWER_ROWS}, and no session_id or speaker with them")
            records = await memory.get_raw(list(dict.fromkeys(ids)))
            return answers.answer(answers.raw_answer(records, offset, budget))
        page = await memory.list_raw(session_id=session_id, speaker=speaker, limit=limit, offset=offset)
        share = budget // max(len(page), 1)
        return answers.answer(
            answers.page_answer(
                "raw", [answers.raw_forms(record, 0, share) for record in page], page.total, offset, budget
            )
        )

    @offer("all", "forget_raw", "Forget originals", destroys=True)
    async def delete_raw_dialogue(self, result: int) -> CallToolResult:
        """Delete raw records for good. One that memories are drawn from is refused without `force`."""
        return answers.answer({"status": "success", "deleted": result})

    @offer("all", "accept_proposals", "Review proposals", destroys=True)
    async def review_proposals(
        self,
        accept: Annotated[list[inputs.RawId] | None, Field(description="Store these.")] = None,
        drop: Annotated[
            list[inputs.RawId] | None, Field(description="These are not stored, and not proposed again.")
        ] = None,
        text: Annotated[str | None, Field(description="What to store instead, of one that is accepted.")] = None,
        limit: Limit = 20,
        offset: Offset = 0,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """List what earlier sessions may have left to remember, and store or drop what the user decides on. Ask before:
        show the list, and accept only what the user wants to keep.
        """
        check_rows(limit, offset)
        stored = await memory.accept_proposals(accept, text=text, source="agent", wait=True) if accept else []
        dropped = await memory.drop_proposals(drop) if drop else 0
        page = await memory.proposals(limit=limit, offset=offset)
        waiting = answers.page_answer(
            "proposals", [[encode(each)] for each in page], page.total, offset, answers.SEARCH_TOKENS
        )
        return answers.answer({**waiting, "stored": [answers.stored_form(item) for item in stored], "dropped": dropped})

    @offer("all", "add", "Store an insight")
    async def compress_to_l2_insight(
        self,
        content: Annotated[str, Field(description="The insight, complete in itself.")],
        source_ids: Annotated[list[inputs.RawId], Field(description="Ids of the raw records that it is drawn from.")],
        tags: Annotated[list[str] | None, Field(description="A few words to filter by.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else.")] = None,
        embedding: Embedding = None,
        *,
        memory: "AsyncMemory",
    ) -> CallToolResult:
        """Store an insight drawn from raw records. Unknown source_ids are refused."""
        fields = {"text": content, "tags": tags, "metadata": metadata, "source_ids": source_ids, "vector": embedding}
        return _stored(await memory.add(inputs.read_item(fields, "agent"), wait=True))

    @offer("all", "why", "Explain")
    async def explain_result(self, id: ItemId, query_text: Query, *, memory: "AsyncMemory") -> CallToolResult:
        """Why a memory is where it is in the answer to a query, or is not there."""
        why = await memory.why(id, query_text)
        return answers.answer(answers.why_answer(why, query_text))

    @offer("all", "status", "Status")
    async def memory_status(self) -> CallToolResult:
        """What the store holds, by namespace, and what still waits for vectors."""
        return answers.answer({"status": "success", "store": answers.status_form(await self._sessions.status())})

    # ------------------------------------------------------------ what several tools do

    async def _answered(
        self, namespace: str | None, text: str, filters: Filters, options: Mapping[str, Any], max_tokens: int | None
    ) -> CallToolResult:
        budget = _budget(max_tokens)
        response = await self._searched(namespace, text, filters=filters, **options)
        explain = options.get("explain", False)
        return answers.answer(answers.search_answer(response, response.results, budget, explain=explain, page={}))

    async def _searched(self, namespace: str | None, text: str, **options: Any) -> SearchResponse:
        """Searches one or more namespaces, each of which the caller must be allowed to use."""
        inputs.refuse_folders(options.get("rerank"))
        names = [name.strip() for name in (namespace or "").split(",") if name.strip()]
        memories = [await self._sessions.memory(name) for name in names] or [await self._sessions.memory()]
        options = {"cut": AUTO, **options, "namespaces": [memory.namespace for memory in memories]}
        response = await memories[0].search(text, **options)
        memories[0].note_search(response, "mcp", options["namespaces"])
        return response


def _budget(max_tokens: int | None) -> int:
    return check_budget(answers.SEARCH_TOKENS if max_tokens is None else max_tokens)


def _stored(item: Item) -> CallToolResult:
    return answers.answer({"status": "success", "item": {**answers.stored_form(item), **encode(item, ("similar",))}})


async def _read(memory: "AsyncMemory", ids: Sequence[int | str], around: int, *, history: bool) -> list[Item]:
    items = await memory.get(ids)
    if history:
        return [each for item in items for each in await memory.history(item.id)]
    if not around:
        return items
    return [near for item in items for near in await memory.around(item.id, around, around)]


# ---------------------------------------------------------------- operations whose result is answered as it is


def _plain(operation: Operation) -> Callable[[Tools, Any], Awaitable[CallToolResult]]:
    async def tool(_: Tools, result: Any) -> CallToolResult:
        kind = result_of(operation.name)
        form: Json = json_of(kind, result)
        if isinstance(result, list):
            page = cast("Any", result)
            total, offset = getattr(page, "total", len(form)), getattr(page, "offset", 0)
            return answers.answer(
                answers.page_answer(operation.name, [[row] for row in form], total, offset, answers.SEARCH_TOKENS)
            )
        return answers.answer({"status": "success", **(form if is_dataclass(kind) else {operation.name: form})})

    return tool


for _operation in OPERATIONS.values():
    if _operation.tool:
        setattr(Tools, _operation.tool, _plain(_operation))
        OFFERS.append(Offer(_operation.tool, "all", _operation, _operation.help, f"{_operation.help}."))

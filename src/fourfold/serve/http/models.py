"""Models of requests. Unknown fields are refused. Search options and filters derive from their descriptions."""

# No `from __future__ import annotations`: pydantic reads these annotations when the module is loaded.

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from fourfold import limits
from fourfold.fields import DETAILS, FilterOption, advised_fields, filter_options
from fourfold.model import Filters
from fourfold.ranking.options import OPTIONS, SearchOption
from fourfold.serve.arguments import TYPES, Flag, Integer, Number, read_filters, refuse_folders
from fourfold.serve.budget import SMALLEST_TOKENS

STRICT: Final = ConfigDict(extra="forbid", allow_inf_nan=False, populate_by_name=True)


class Request(BaseModel):
    model_config = STRICT


ItemId = Annotated[int, Field(strict=True, ge=1, le=limits.LARGEST_ID)] | Annotated[str, Field(pattern="^key:")]
Metadata = dict[str, Any]
M = TypeVar("M", bound=BaseModel)

# ---------------------------------------------------------------- searches and filters


def _field(option: SearchOption | FilterOption, described: str, kind: Any = None) -> tuple[Any, Any]:
    """The type and the Field of an option."""
    holds = str(option.holds)
    form = kind or TYPES.get(holds, str | None)
    extra: dict[str, Any] = {}
    if isinstance(option, SearchOption):
        bounds = (("minimum", option.least), ("maximum", option.most))
        extra = {name: bound for name, bound in bounds if bound is not None}
        if option.choices:
            extra["enum"] = [*option.choices, None]
    default = False if holds == "flag" else None
    return form, Field(default=default, description=described, json_schema_extra=extra)


_KINDS: Final = {"names": list[str] | None, "condition": str | dict[str, Any] | None}


def _advice(option: FilterOption) -> str:
    return option.advice.format(fields=advised_fields()) if option.holds == "condition" else option.advice


def _filters_model() -> type[BaseModel]:
    fields: dict[str, Any] = {
        name: _field(option, _advice(option), _KINDS.get(str(option.holds)))
        for name, option in filter_options().items()
    }
    return create_model("Filters", __config__=STRICT, **fields)


FiltersRequest: Final = _filters_model()


def given_filters(filters: Any) -> Filters:
    return Filters() if filters is None else read_filters(filters.model_dump(exclude_unset=True))


def _options(explaining: bool) -> dict[str, Any]:
    """Fields for the options of `Memory.search`, or of `Memory.why`."""
    return {
        name: _field(option, option.described, _KINDS.get(option.holds))
        for name, option in OPTIONS.items()
        if option.holds != "filters" and (option.explains or not explaining)
    }


def _asking(*, explaining: bool, without: Sequence[str] = ()) -> Any:
    """A base class with these options."""
    fields = {name: field for name, field in _options(explaining).items() if name not in without}
    return create_model("Asking", __base__=Request, **fields)


class AnalyzeRequest(_asking(explaining=True, without=["vector"])):
    query: str = Field(description="A question, keywords or names.", examples=["how do I get into the network?"])


class WhyRequest(_asking(explaining=True)):
    query: str = Field(description="A question, keywords or names.", examples=["how do I get into the network?"])
    item: ItemId
    filters: FiltersRequest | None = Field(None, description="What an item must satisfy.")  # type: ignore[valid-type]


class SearchRequest(_asking(explaining=False)):
    query: str = Field(description="A question, keywords or names.", examples=["how do I get into the network?"])
    filters: FiltersRequest | None = Field(None, description="What an item must satisfy.")  # type: ignore[valid-type]
    budget_tokens: Integer | None = Field(
        default=None,
        description="Tokens that the results may take; the best are in full, the others shortened.",
        json_schema_extra={"minimum": SMALLEST_TOKENS, "maximum": limits.ANSWER_TOKENS},
    )
    content: Flag = Field(default=True, description="Whether results hold their text and metadata.")


def search_arguments(body: BaseModel) -> dict[str, Any]:
    """The options of a request, by the names of the parameters of `Memory.search` and `Memory.why`."""
    given = {name: getattr(body, name) for name in OPTIONS if name != "filters" and hasattr(body, name)}
    refuse_folders(given.get("rerank"))
    return {name: value for name, value in given.items() if value is not None and value is not False}


# ---------------------------------------------------------------- items


def _with_details(model: type[M]) -> type[M]:
    """Adds the optional fields of an item that callers give."""
    fields: dict[str, Any] = {
        name: (TYPES["whole"] if column.holds == "number" else str | None, Field(None, description=column.help))
        for name, column in DETAILS.items()
        if column.given
    }
    return create_model(model.__name__, __base__=model, **fields)


@_with_details
class NewItemRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"text": "The router is in room 4", "tags": ["office"]}})
    text: str = ""
    title: str = ""
    key: str | None = Field(None, description="Your own id: storing it again replaces the item.")
    tags: list[str] = []
    kind: str | None = None
    metadata: Metadata = {}
    language: str | None = Field(None, description="ISO 639-1; detected if left out.")
    created_at: str | None = Field(None, description="ISO date or time; now if left out.")
    source_ids: list[Integer] = Field([], description="Ids of raw records that it is drawn from.")
    path: str | None = None
    chunk_index: Integer | None = None
    vector: list[Number] | None = Field(None, description="Instead of one made from the text.")


class AddRequest(NewItemRequest):
    wait: Flag = Field(False, description="Answer when the vector is made.")


class AddManyRequest(Request):
    items: list[NewItemRequest] = Field(max_length=limits.PAGE_SIZE, description="All of them are stored, or none.")
    wait: Flag = False


class PatchRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"add_tags": ["done"], "metadata": {"floor": 4}}})
    text: str | None = None
    title: str | None = None
    add_tags: list[str] = []
    remove_tags: list[str] = []
    metadata: Metadata | None = Field(None, description="Merged key by key; a key set to null is removed.")
    undo: Flag = Field(False, description="Instead: take the last change back. Nothing is lost.")
    undo_to: Integer | None = Field(None, description="With undo: the id of the version or value to bring back.")
    wait: Flag = Field(False, description="Answer when the vector is made.")


class GetManyRequest(Request):
    ids: list[ItemId] = Field(max_length=limits.PAGE_SIZE)
    cursor: str | None = Field(None, description="The next_cursor of an answer that these ids did not fit into.")


class DeleteRequest(Request):
    """Ids, or filters (with the scope admin). With filters, `dry_run` is the default: it only counts."""

    ids: list[ItemId] | None = Field(None, max_length=limits.PAGE_SIZE, description="All of them are deleted, or none.")
    filters: FiltersRequest | None = None  # type: ignore[valid-type]
    dry_run: Flag = True


class PageQuery(Request):
    limit: int = Field(50, ge=1, le=limits.PAGE_SIZE)
    cursor: str | None = Field(None, description="The next_cursor of the previous page.")


def _asked_filters() -> Any:
    """A base class with filters as query parameters: tags may be repeated, metadata is JSON, a condition either."""
    fields: dict[str, Any] = {}
    for name, option in filter_options().items():
        kind = {"tags": list[str], "flag": bool}.get(str(option.holds), str | None)
        default: Any = [] if option.holds == "tags" else False if option.holds == "flag" else None
        fields[name] = (kind, Field(default=default, description=_advice(option)))
    return create_model("AskedFilters", __base__=Request, **fields)


class ItemsQuery(PageQuery, _asked_filters()):
    pass


class ItemQuery(Request):
    include: list[Literal["chunks", "sources", "vector", "nodes", "history", "similar"]] = Field(
        default=[],
        description="Also the chunks of its file, its raw records, whether it waits for a vector, nodes that it names, "
        "its earlier versions and values (latest first, the item included), items that say nearly the same.",
    )


# ---------------------------------------------------------------- graph, raw records, judgements


class NodeRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"name": "Ada", "label": "person"}})
    name: str
    label: str = "entity"
    aliases: list[str] = []
    properties: Metadata | None = None
    item: ItemId | None = Field(None, description="The item that describes it.")


class EdgeRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"from": "Ada", "relation": "works on", "to": "Engine"}})
    source: str = Field(alias="from")
    relation: str
    target: str = Field(alias="to")
    weight: Number = Field(1.0, gt=0, le=1)


class EdgesRequest(Request):
    edges: list[EdgeRequest] = Field(max_length=limits.PAGE_SIZE)


class EdgeQuery(Request):
    source: str = Field(alias="from")
    relation: str
    target: str = Field(alias="to")


class NodesQuery(PageQuery):
    like: str = Field("", description="Only names and aliases that contain this.")
    item: str | None = Field(
        None, description="Only nodes of this item, by id or key:K: its own, and those it mentions."
    )


class LabelQuery(Request):
    label: str | None = Field(None, description="Which node, if several have the name.")
    limit: int = Field(50, ge=1, le=limits.PAGE_SIZE)


class NeighborsQuery(PageQuery):
    name: str
    depth: int = Field(1, ge=1, le=limits.NEIGHBOR_DEPTH)
    direction: Literal["both", "out", "in"] = "both"
    relation: str | None = None
    label: str | None = None


class AroundQuery(Request):
    name: str
    label: str | None = None
    depth: int = Field(1, ge=1, le=limits.NEIGHBOR_DEPTH)
    limit: int = Field(50, ge=1, le=200, description="Nodes.")


class PathQuery(Request):
    start: str
    goal: str
    max_depth: int = Field(limits.PATH_DEPTH, ge=1, le=limits.PATH_DEPTH)


class RawRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"content": "Ada: the key is with me", "speaker": "Ada"}})
    content: str
    speaker: str | None = None
    session_id: str | None = None
    metadata: Metadata = {}


class RawQuery(PageQuery):
    session_id: str | None = None
    speaker: str | None = None


class ForceQuery(Request):
    force: bool = Field(False, description="Also if items are drawn from it.")


class JudgementRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"query": "router", "item": 1, "relevance": 1}})
    query: str = Field(min_length=1, max_length=limits.QUERY_BYTES)
    item: ItemId
    relevance: Integer | None = Field(
        description="0: not relevant; 1 to 3: relevant; null: removes the judgement.",
        json_schema_extra={"minimum": 0, "maximum": 3},
    )


_MEASURED: Final = ("preset", "fusion", "weights", "alpha", "recency", "source_weights", "rerank", "only")


class EvaluationRequest(_asking(explaining=False, without=[name for name in OPTIONS if name not in _MEASURED])):
    pass


class DuplicatesQuery(Request):
    limit: int = Field(50, ge=1, le=limits.PAGE_SIZE)


class MergeRequest(Request):
    model_config = ConfigDict(json_schema_extra={"example": {"keep": 1, "ids": [2]}})
    keep: ItemId
    ids: list[ItemId] = Field(max_length=limits.PAGE_SIZE, description="What is merged into the item to keep.")

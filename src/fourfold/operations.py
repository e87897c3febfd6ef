"""The operations that a server offers, described once. Most of them are methods of `Memory`.

Routes of the HTTP API, methods of `RemoteMemory`, and the commands and tools that are named here derive from this table
and from the methods: their parameters, with types, defaults and help. Other tools have their scopes from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

Scope = Literal["read", "write", "admin"]
"""Scopes; each includes those before it. `admin` is needed to act on many items at once, and for metrics."""
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
NAMESPACE: Final = "/v1/namespaces/{namespace}"
JSON: Final = "application/json"
JSONL: Final = "application/jsonl"


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    """The method of `Memory`, or that of an operation of the API alone."""
    route: str
    """The HTTP method and the path in a namespace; a path of the whole server begins with //."""
    help: str = ""
    """What it does, for the OpenAPI document and for `--help`."""
    scope: Scope = "read"
    answer: str = ""
    """The member of the answer that is the result; empty: the answer is the result."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of parameters in JSON and in the path, where they differ; empty: the server stamps the value, a source."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the request always says."""
    lacks: tuple[str, ...] = ()
    """Parameters that a server does not offer."""
    paged: bool = False
    """Whether the answer is one page of a list, with the cursor of the next one."""
    takes: str = JSON
    """The media type of the body."""
    gives: str = JSON
    """The media type of the answer."""
    is_open: bool = False
    """Whether it needs no token. Errors then show only their names."""
    id: str = ""
    """Its name in the OpenAPI document; empty: `name`."""
    command: str = ""
    """The command that prints its result as it is, after the name of its group."""
    tool: str = ""
    """The tool of MCP that answers with its result as it is."""
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The body of a request."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.id or self.name)

    @property
    def verb(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        path = self.route.partition(" ")[2]
        return path[1:] if path.startswith("//") else NAMESPACE + path

    @property
    def stamped(self) -> tuple[str, ...]:
        """The parameters to which a server gives the source: what came in through it."""
        return tuple(name for name, member in self.names.items() if not member)

    @property
    def places(self) -> tuple[str, ...]:
        """The parameters in the path."""
        return tuple(name for name in _PLACE.findall(self.path) if name != "namespace")

    @property
    def in_namespace(self) -> bool:
        return self.path.startswith(NAMESPACE)

    @property
    def has_body(self) -> bool:
        return self.verb not in ("GET", "DELETE")

    @property
    def is_json(self) -> bool:
        return self.takes == self.gives == JSON

    @property
    def writes(self) -> bool:
        return self.scope != "read" and self.verb != "GET"

    @property
    def status(self) -> int:
        """The status of an answer."""
        return 204 if self.verb == "DELETE" else 201 if self.name.startswith("add") else 200

    @property
    def searches(self) -> bool:
        """Whether its parameters are options of a search."""
        return self.names == _QUERY

    @property
    def takes_one(self) -> bool:
        """Whether the path names one of the `ids` that the method takes."""
        return self.names == _ONE


_PLACE: Final = re.compile(r"\{(\w+)")
_ID: Final = {"item": "id"}
_ONE: Final = {"ids": "id"}
_QUERY: Final = {"text": "query"}
_EDGE: Final = {"source": "from", "target": "to"}
_ITEM: Final = "/items/{id:path}"
_NODE: Final = "/graph/nodes/{name:path}"
_ASKED: Final = {"query": "how do I get into the network?"}

_TABLE: Final = (
    Operation("search", "POST /search", "Search with four retrievers, fused into one ranking", names=_QUERY,
        example=_ASKED),
    Operation("why", "POST /why", "Say why an item is where it is in a ranking, or not in it", names=_QUERY,
        example={**_ASKED, "item": 1}),
    Operation("analyze", "POST /analyze", "Say how a query is read", names=_QUERY, example=_ASKED),
    Operation("tags", "GET /tags", "List the tags and how many items carry each", answer="counts", paged=True,
        command="tags"),
    Operation("facets", "GET /facets", "Count tags, kinds, languages, metadata keys"),
    # items
    Operation("list", "GET /items", "List items, newest first", answer="items", paged=True, id="list_items"),
    Operation("count", "GET /items", answer="total", fixed={"limit": 1}),
    Operation("unknown_names", "GET /items", answer="notes", fixed={"limit": 1}),
    Operation("add", "POST /items", "Store an item", "write", names={"item": "text"},
        example={"text": "The router is in room 4", "tags": ["office"]}),
    Operation("add_many", "POST /items:batch", "Store items, all or none", "write", answer="items",
        example={"items": [{"text": "The router is in room 4", "tags": ["office"]}]}),
    Operation("get", "POST /items:get", "Show items in full", answer="items", paged=True, id="get_many"),
    Operation("show", f"GET {_ITEM}", "Read an item", id="get"),
    Operation("sources", f"GET {_ITEM}", answer="sources", names=_ID, fixed={"include": "sources"}, paged=True),
    Operation("history", f"GET {_ITEM}", "Show earlier versions and values of an item", answer="history", names=_ID,
        fixed={"include": "history"}, paged=True),
    Operation("similar", f"GET {_ITEM}", answer="similar", names=_ID, fixed={"include": "similar"}, paged=True),
    Operation("update", f"PATCH {_ITEM}", "Change the text, tags or metadata of an item", "write", names=_ID),
    Operation("undo", f"PATCH {_ITEM}", "Take the last change of an item back", "write", names={**_ID, "to": "undo_to"},
        fixed={"undo": True}),
    Operation("delete", f"DELETE {_ITEM}", "Delete an item", "write"),
    Operation("forget", "POST /items:delete", "Delete items by id or by filter", "write", id="delete_many"),
    Operation("merge", "POST /items:merge", "Merge items that say the same into one; undo of that one takes it back",
        "write", names={"kept": "keep", "others": "ids"}, example={"keep": 1, "ids": [2]}),
    Operation("duplicates", "GET /duplicates", "List groups of items that say nearly the same", answer="groups",
        lacks=("filters", "progress")),
    # raw records
    Operation("add_raw", "POST /raw", "Store a raw record", "write", names={"source": ""},
        example={"content": "Ada: the key is with me", "speaker": "Ada"}),
    Operation("list_raw", "GET /raw", "List raw records", answer="raw", paged=True),
    Operation("get_raw", "GET /raw/{id}", "Read a raw record", names=_ONE),
    Operation("forget_raw", "DELETE /raw/{id}", "Delete a raw record", "write", names=_ONE, id="delete_raw"),
    # proposals
    Operation("proposals", "GET /proposals", "List what sessions may have left to remember, which waits for a decision",
        answer="proposals", paged=True),
    Operation("propose", "POST /proposals", "Queue what may be worth storing, for a decision", "write",
        answer="proposals", example={"items": [{"text": "Money is always Decimal here", "kind": "decision"}],
        "session": "3f2ad0c1"}),
    Operation("accept_proposals", "POST /proposals:accept", "Store proposals as items", "write", answer="items",
        names={"source": ""}, example={"ids": [1]}),
    Operation("edit_proposal", "POST /proposals:edit", "Change what a proposal would store", "write",
        names={"proposal": "id"}, example={"id": 1, "text": "Money is always Decimal"}),
    Operation("drop_proposals", "POST /proposals:drop", "Drop proposals, which are not proposed again", "write",
        answer="dropped", example={"ids": [1]}),
    # the graph
    Operation("nodes", "GET /graph/nodes", "List nodes with the number of their items, mentions and edges",
        answer="nodes", paged=True, command="graph nodes"),
    Operation("add_node", "POST /graph/nodes", "Store a node, or add to it", "write", example={"name": "Ada",
        "label": "person"}),
    Operation("node", f"GET {_NODE}", "Show a node", id="show_node"),
    Operation("remove_node", f"DELETE {_NODE}", "Delete a node with its edges", "write"),
    Operation("add_edges", "POST /graph/edges", "Store edges; an edge that exists gets the weight", "write",
        answer="edges"),
    Operation("remove_edge", "DELETE /graph/edges", "Delete an edge", "write", names=_EDGE),
    Operation("neighbors", "GET /graph/neighbors", "List the nodes near one", answer="neighbors", paged=True),
    Operation("local_graph", "GET /graph/around", "The graph around a node", id="around"),
    Operation("path", "GET /graph/path", "A shortest path", answer="edges"),
    # judgements
    Operation("judge", "POST /judgements", "Judge a result", "write"),
    Operation("judgements", "GET /judgements", "List judgements"),
    Operation("collection", "GET /judgements/collection", "The judgements as a collection for `fourfold eval`", "admin",
        gives="application/zip"),
    Operation("evaluate", "POST /evaluation", "Measure a ranking by the judgements"),
    # the whole store
    Operation("namespaces", "GET //v1/namespaces", "List the namespaces and how many items each has",
        answer="namespaces", command="namespaces"),
    Operation("status", "GET //v1/status", "Show what the store holds and what its indexes have"),
    Operation("stats", "GET /stats", "Show what was asked and given, and what never was"),
    Operation("export", "GET /export", "The namespace as JSON Lines", "admin", gives=JSONL),
    Operation("import_file", "POST /import", "Fill an empty namespace with an export, or store rows of items", "admin",
        takes=JSONL),
    Operation("sync_step", "POST /sync",
        "Tell another store what is here, and take what it has: one step of `fourfold sync`", "admin", takes=JSONL,
        gives=JSONL),
    Operation("live", "GET //livez", "The server runs", is_open=True),
    Operation("ready", "GET //readyz", "The store answers", is_open=True),
    Operation("metrics", "GET //metrics", "Counters for Prometheus", "admin", gives="text/plain", id="prometheus"),
)  # fmt: skip

OPERATIONS: Final[Mapping[str, Operation]] = {operation.name: operation for operation in _TABLE}

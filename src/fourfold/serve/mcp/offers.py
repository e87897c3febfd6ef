"""The tools of each level, with their descriptions for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_types import ToolAnnotations

Level = Literal["core", "graph", "all"]


@dataclass(frozen=True, slots=True)
class Offer:
    """How a tool is presented."""

    name: str
    level: Level
    title: str
    description: str
    writes: bool = False
    destroys: bool = False
    repeats: bool = False
    """Whether repeating the call changes something again."""

    @property
    def annotations(self) -> ToolAnnotations:
        return ToolAnnotations(
            read_only_hint=not self.writes,
            destructive_hint=self.destroys,
            idempotent_hint=not self.repeats,
            open_world_hint=False,
        )


OFFERS: Sequence[Offer] = (
    Offer(
        "hybrid_search",
        "core",
        "Search the memory",
        "Search memories and indexed documents by meaning, words, relations and tags at once. Use it before answering "
        "anything that may depend on earlier conversations, decisions, preferences or the user's documents. "
        "`confidence`, from 0 to 1, says how well the store answers: if it is low and no result answers, say that "
        "nothing is known. A `snippet` is part of a text; get_memory has the rest. `degraded` names "
        "what could not answer.",
    ),
    Offer(
        "store_memory",
        "core",
        "Remember",
        "Store one fact, decision, preference or procedure that will matter later. The same text again gives the same "
        "memory. Do not store secrets or what is only needed now.",
        writes=True,
    ),
    Offer("get_memory", "core", "Read memories", "The full text and all fields of memories, by id."),
    Offer(
        "list_memories",
        "core",
        "Browse",
        "Memories without a query, newest first, in pages; or, with `counts`, which tags and kinds exist.",
    ),
    Offer(
        "update_memory",
        "core",
        "Change a memory",
        "Change one memory. Use it when something stored is no longer right.",
        writes=True,
        destroys=True,
    ),
    Offer(
        "delete_memory",
        "core",
        "Forget",
        "Delete memories for good, all of them or none. Only when the user asks for it, or what is stored is wrong.",
        writes=True,
        destroys=True,
    ),
    Offer(
        "link",
        "core",
        "Relate two names",
        "Say that two names are related, such as Maria / works on / Project Eagle. Searches that mention one then find "
        "what is known about the other.",
        writes=True,
    ),
    Offer(
        "graph_add_node",
        "graph",
        "Add a node",
        "Add a node to the graph, or what is new about one that exists: aliases, properties, the memory about it.",
        writes=True,
    ),
    Offer("graph_add_edge", "graph", "Add an edge", "Add a typed, weighted edge; again sets the weight.", writes=True),
    Offer(
        "graph_query_neighbors",
        "graph",
        "Neighbours",
        "Nodes around a node with relation, distance and weight, nearest first, in pages.",
    ),
    Offer("graph_find_path", "graph", "Path", "A shortest path between two nodes."),
    Offer(
        "semantic_search",
        "all",
        "Search by meaning",
        "Search by meaning only (vectors). Prefer hybrid_search; this one is for wording that shares no words with "
        "what is stored.",
    ),
    Offer(
        "full_text_search",
        "all",
        "Search by words",
        "Search by words only (BM25), in the language of each text. Prefer hybrid_search; this one is for exact "
        "names, codes and quotations.",
    ),
    Offer(
        "retrieve_memory",
        "all",
        "Retrieve memories",
        "Hybrid search with recency between near-ties, in pages. alpha=1 opts out of hybrid search: vectors only.",
    ),
    Offer(
        "store_raw_dialogue",
        "all",
        "Keep an original",
        "Keep what was said, word by word. It is not searched; memories drawn from it point back to it.",
        writes=True,
        repeats=True,
    ),
    Offer(
        "read_raw_dialogue",
        "all",
        "Read originals",
        "Raw records by id in full, or a list of them, newest first, in pages.",
    ),
    Offer(
        "delete_raw_dialogue",
        "all",
        "Forget originals",
        "Delete raw records for good. One that memories are drawn from is refused without `force`.",
        writes=True,
        destroys=True,
    ),
    Offer(
        "compress_to_l2_insight",
        "all",
        "Store an insight",
        "Store an insight drawn from raw records. Unknown source_ids are refused.",
        writes=True,
    ),
    Offer("explain_result", "all", "Explain", "Why a memory is where it is in the answer to a query, or is not there."),
    Offer("memory_status", "all", "Status", "What the store holds, by namespace, and what still waits for vectors."),
)

_LEVELS: Mapping[str, frozenset[str]] = {
    "core": frozenset({"core"}),
    "graph": frozenset({"core", "graph"}),
    "all": frozenset({"core", "graph", "all"}),
}


def offers(level: Level) -> list[Offer]:
    return [offer for offer in OFFERS if offer.level in _LEVELS[level]]

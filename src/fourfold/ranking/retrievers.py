"""The retrievers: one description each, from which weights, JSON fields, tables, help texts and schemas derive.

How a retriever is made from a snapshot is registered in `fourfold.engine.retrievers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class RetrieverSpec:
    name: str
    """Name, also the heading of its column in tables and its key in weights, counts and timings."""
    finds: str
    """Description of its ranking in one line."""
    missed: str
    """Reason given by `why` for an item that the retriever does not find."""
    share: float
    """Maximum share of the weight under `auto`; semantic and keyword share 1."""
    score: str = "score"
    """Name of its own score in explanations."""
    scale: Literal["cosine", "absolute", "best"] = "best"
    """Scaling of its scores to 0..1 under `auto`: by the store's average cosine, unchanged, or by the best score."""
    log_odds: float = 0.0
    """What a score of 1 adds to the log odds of confidence, if its scores are absolute evidence; 6.5 is a yes."""
    rank_field: str = ""
    """JSON field of its rank; NAME_rank if empty."""
    score_field: str | None = ""
    """JSON field of its score; NAME_score if empty, None for no field."""
    colour: str = ""
    """Colour on a terminal."""
    expansion: str | None = None
    """Name of the list that it finds from the best hits of others; None if it cannot expand."""
    expansion_share: float = 0.0
    """Share of that list under `auto`."""
    expands_weighted: bool = True
    """Whether it also expands if the caller sets its weight, which then covers both lists."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank_field", self.rank_field or f"{self.name}_rank")
        if self.score_field == "":
            object.__setattr__(self, "score_field", f"{self.name}_score")


_registered: Final[dict[str, RetrieverSpec]] = {}
RETRIEVERS: Final[Mapping[str, RetrieverSpec]] = MappingProxyType(_registered)
"""By name, in the order in which weights, ranks and columns are shown."""

_expansions: Final[dict[str, str]] = {}
EXPANSIONS: Final[Mapping[str, str]] = MappingProxyType(_expansions)
"""Retriever to the name of the list that it finds from the best hits of others."""

_shares: Final[dict[str, float]] = {}
LIST_SHARES: Final[Mapping[str, float]] = MappingProxyType(_shares)
"""The share of every list under `auto`: those of the retrievers, then those that they find from the best hits."""
_scales: Final[dict[str, str]] = {}
LIST_SCALES: Final[Mapping[str, str]] = MappingProxyType(_scales)
"""The scale of every list."""


def register_spec(spec: RetrieverSpec) -> None:
    """Add a retriever after the known ones; raise ValueError if one of its names is taken."""
    taken = {name for other in RETRIEVERS.values() for name in _names(other)}
    if not spec.name.isidentifier() or not taken.isdisjoint(_names(spec)):
        raise ValueError(f"{spec.name!r} is not a free name for a retriever; the retrievers are {names_of_all()}")
    _registered[spec.name] = spec
    _list_all()


def unregister_spec(name: str) -> None:
    del _registered[name]
    _list_all()


def _list_all() -> None:
    specs = [*RETRIEVERS.values()]
    expanding = {spec.expansion: spec for spec in specs if spec.expansion is not None}
    for table in (_expansions, _shares, _scales):
        table.clear()
    _expansions.update({spec.name: expansion for expansion, spec in expanding.items()})
    _shares.update({spec.name: spec.share for spec in specs})
    _shares.update({expansion: spec.expansion_share for expansion, spec in expanding.items()})
    _scales.update({spec.name: spec.scale for spec in specs})
    _scales.update({expansion: spec.scale for expansion, spec in expanding.items()})


def names_of_all() -> str:
    """Return the names of all retrievers for help texts and error messages."""
    return ", ".join(RETRIEVERS)


def _names(spec: RetrieverSpec) -> set[str]:
    return {name for name in (spec.name, spec.rank_field, spec.score_field, spec.expansion) if name is not None}


register_spec(
    RetrieverSpec(
        "semantic",
        "meaning: the cosine between the vector of the query and that of the item",
        missed="the item has no vector yet",
        share=1.0,
        score="cosine",
        scale="cosine",
        score_field="semantic_similarity",
        colour="cyan",
    )
)
register_spec(
    RetrieverSpec(
        "keyword",
        "words: BM25 over the analysed text",
        missed="the item contains none of the query's words",
        share=1.0,
        score="BM25",
        rank_field="fts_rank",
        score_field="fts_score",
        colour="yellow",
    )
)
# The shares of the graph and its walk are measured in notes/quality-graph.md.
register_spec(
    RetrieverSpec(
        "graph",
        "relations: what the query names, and what is connected with that",
        missed="nothing that the query names is connected with the item",
        share=0.7,
        scale="absolute",
        colour="magenta",
        expansion="walk",
        expansion_share=0.7,
    )
)
# If the tags cover half of the query's words, their share is a quarter of this. Shared tags gain from 0.1 to 0.2
# wherever items have tags.
register_spec(
    RetrieverSpec(
        "tags",
        "tags: items that carry the tags that the query names",
        missed="the item carries no tag that the query names",
        share=1.0,
        score_field=None,
        colour="green",
        expansion="shared",
        expansion_share=0.15,
        expands_weighted=False,  # a caller's weight is for the tags that the query names
    )
)

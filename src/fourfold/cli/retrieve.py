"""retrieve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import click

from fourfold.cli.commands import option
from fourfold.cli.options import FilterFlags, JsonFlag, RetrieveFlags
from fourfold.cli.output import heading, say_json, say_rows, warn, warn_degraded
from fourfold.cli.search import QueryText
from fourfold.cli.session import load_config, search_namespaces
from fourfold.errors import InvalidQuery

if TYPE_CHECKING:
    from fourfold.config import Settings
    from fourfold.retrieval import SearchResponse


def retrieve(
    ctx: click.Context,
    query: QueryText,
    how: RetrieveFlags,
    where: FilterFlags,
    chroma: Annotated[
        str | None, option(metavar="FOLDER|URL", help="Vectors of this Chroma instead of the store's.")
    ] = None,
    collection: Annotated[str | None, option(metavar="NAME", help="The collection of that Chroma.")] = None,
    as_json: JsonFlag = False,
) -> None:
    if (chroma is None) != (collection is None):
        raise InvalidQuery("--chroma and --collection belong together", "Give both, or none")
    asked: dict[str, Any] = {"preset": "wiki", **how.arguments(), "filters": where.filters()}
    if chroma is None or collection is None:
        response = search_namespaces(ctx, query, **asked)
    else:
        response = _from_chroma(load_config(ctx).settings, chroma, collection, query, asked)
    _show(response, as_json=as_json)


def _from_chroma(settings: Settings, place: str, name: str, query: str, asked: dict[str, Any]) -> SearchResponse:
    from fourfold.integrations.chroma.collection import open_collection
    from fourfold.integrations.chroma.search import ChromaSearch

    collection = open_collection(place, name)
    with ChromaSearch.open(collection, settings.store, settings=replace(settings, preset="wiki")) as wiki:
        return wiki.search(query, **asked)


def _show(response: SearchResponse, *, as_json: bool) -> None:
    if as_json:
        from fourfold.wire import response_json

        say_json(response_json(response))
        return
    if not response.results:
        warn("nothing found")
    rows = [
        (place, f"{result.score:.4f}", result.key or result.id, heading(result.item))
        for place, result in enumerate(response.results, start=1)
    ]
    say_rows(("rank", "score", "id", "title"), rows)
    warn_degraded(response)

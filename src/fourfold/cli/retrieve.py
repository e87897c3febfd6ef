"""retrieve."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fourfold.cli.options import FilterFlags, JsonFlag, grouped
from fourfold.cli.output import heading, say_json, say_rows, warn, warn_degraded
from fourfold.cli.search import QueryText
from fourfold.cli.session import load_config, run_across, wait_for
from fourfold.cli.values import read_weights
from fourfold.errors import InvalidQuery

if TYPE_CHECKING:
    from fourfold.config import Settings
    from fourfold.model import SearchResponse


@grouped
def retrieve(
    ctx: typer.Context,
    query: QueryText,
    where: FilterFlags,
    top_k: Annotated[int | None, typer.Option("-k", metavar="N", help="How many results, 1 to 100.")] = None,
    weights: Annotated[str | None, typer.Option(metavar="W", help="Such as semantic=0.7,keyword=0.3; sum 1.")] = None,
    chroma: Annotated[
        str | None, typer.Option(metavar="FOLDER|URL", help="Vectors of this Chroma instead of the store's.")
    ] = None,
    collection: Annotated[str | None, typer.Option(metavar="NAME", help="The collection of that Chroma.")] = None,
    as_json: JsonFlag = False,
) -> None:
    if (chroma is None) != (collection is None):
        raise InvalidQuery("--chroma and --collection belong together", "Give both, or none")
    asked: dict[str, Any] = {
        "preset": "wiki",
        "top_k": top_k,
        "weights": None if weights is None else read_weights(weights),
        "filters": where.filters(),
    }
    if chroma is None or collection is None:
        response = run_across(ctx, lambda memory, names: memory.search(query, namespaces=names, **asked))
    else:
        response = wait_for(_from_chroma(load_config(ctx).settings, chroma, collection, query, asked))
    _show(response, as_json=as_json)


async def _from_chroma(settings: Settings, place: str, name: str, query: str, asked: dict[str, Any]) -> SearchResponse:
    from fourfold.chroma.collection import open_collection
    from fourfold.chroma.search import ChromaSearch

    collection = open_collection(place, name)
    opened = await ChromaSearch.open(collection, settings.store, settings=replace(settings, preset="wiki"))
    async with opened as wiki:
        return await wiki.search(query, **asked)


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

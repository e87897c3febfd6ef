"""search, why, retrieve."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fourfold.cli import output
from fourfold.cli.commands import ADDRESS, argument, load_config, open_memory, option, search_namespaces
from fourfold.cli.options import FilterFlags, ItemId, JsonFlag, RetrieveFlags, SearchFlags, WhyFlags
from fourfold.config import Settings
from fourfold.errors import InvalidQuery
from fourfold.retrieval import Result, SearchResponse

QueryText = Annotated[str, argument(metavar="QUERY", help="Any text.")]


def search(query: QueryText, how: SearchFlags, filters: FilterFlags, as_json: JsonFlag = False) -> None:
    response = search_namespaces(query, filters=filters, **how)
    show_response(response, as_json=as_json, namespaces="," in load_config().settings.namespace)


def why(item: ItemId, query: QueryText, how: WhyFlags, filters: FilterFlags, as_json: JsonFlag = False) -> None:
    with open_memory() as memory:
        answer = memory.why(item, query, filters=filters, **how)
    if as_json:
        from fourfold.wire import why_json

        output.say_json(why_json(answer, query))
    else:
        place = "was not found" if answer.rank is None else f"is at rank {answer.rank}"
        output.say(f"[{answer.item.id}] {output.heading(answer.item)} {place}")
        output.say(f"  source: {answer.item.source or 'unknown'}")
        for reason in answer.reasons:
            output.say(f"  {output.one_line(reason)}")
        for record in answer.sources:
            output.say(f"  drawn from {output.raw_heading(record)}: {output.one_line(record.content)[:120]}")
        if answer.result is not None and answer.result.explanation is not None:
            from fourfold.cli.render import print_explanation

            print_explanation("its score", answer.result.explanation)


def _say_json(response: SearchResponse) -> None:
    from fourfold.wire import response_json

    output.say_json(response_json(response))


def show_response(response: SearchResponse, *, as_json: bool, namespaces: bool) -> None:
    """`namespaces`: show the namespace of each result, if several were searched."""
    if as_json:
        _say_json(response)
        return
    if not response.results:
        output.warn("nothing found")
    elif output.on_terminal():
        from fourfold.cli.render import print_results

        print_results(response, namespaces=namespaces)
    else:
        for position, result in enumerate(response.results, start=1):
            output.say(_plain(position, result, namespaces))
    _explain(response.results)
    output.warn_degraded(response)


def _plain(position: int, result: Result, namespaces: bool) -> str:
    ranks = (f"{part.source} {part.rank}" for part in result.contributions if part.rank is not None)
    space = [f"namespace {output.one_line(result.item.namespace)}"] if namespaces else []
    facts = ", ".join(
        [*space, f"score {result.score:.4f}", f"confidence {result.confidence:.2f}", *ranks, *output.remarks(result)]
    )
    title, snippet = output.heading(result.item), output.one_line(result.snippet)
    told = snippet if snippet.replace("**", "") != title else ""
    lines = (f"{position}. [{result.id}] {title}", output.located(result), told, facts)
    return "\n   ".join(line for line in lines if line)


def _explain(results: tuple[Result, ...]) -> None:
    for position, result in enumerate(results, start=1):
        if result.explanation is not None:
            from fourfold.cli.render import print_explanation

            title = f"{position}. [{result.id}] {output.heading(result.item)}"
            print_explanation(f"{title} (source: {result.item.source or 'unknown'})", result.explanation)


# ---------------------------------------------------------------- retrieve


def retrieve(
    query: QueryText,
    how: RetrieveFlags,
    filters: FilterFlags,
    chroma: Annotated[
        str | None,
        option(metavar="FOLDER|URL", help="Vectors of this Chroma instead of the store's.", type=ADDRESS),
    ] = None,
    collection: Annotated[str | None, option(metavar="NAME", help="The collection of that Chroma.")] = None,
    as_json: JsonFlag = False,
) -> None:
    if (chroma is None) != (collection is None):
        raise InvalidQuery("--chroma and --collection belong together", "Give both, or none")
    options: dict[str, Any] = {"preset": "wiki", **how, "filters": filters}
    if chroma is None or collection is None:
        response = search_namespaces(query, **options)
    else:
        response = _from_chroma(load_config().settings, chroma, collection, query, options)
    _show_rows(response, as_json=as_json)


def _from_chroma(settings: Settings, place: str, name: str, query: str, options: dict[str, Any]) -> SearchResponse:
    from fourfold.integrations.chroma import ChromaSearch, open_collection

    collection = open_collection(place, name)
    with ChromaSearch.open(collection, settings.store, settings=replace(settings, preset="wiki")) as wiki:
        return wiki.search(query, **options)


def _show_rows(response: SearchResponse, *, as_json: bool) -> None:
    if as_json:
        _say_json(response)
        return
    if not response.results:
        output.warn("nothing found")
    rows = [
        (place, f"{result.score:.4f}", result.key or result.id, output.heading(result.item))
        for place, result in enumerate(response.results, start=1)
    ]
    output.say_rows(("rank", "score", "id", "title"), rows)
    output.warn_degraded(response)

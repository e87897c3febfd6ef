"""Drawing with rich: tables, explanations, progress. Imported only when something is drawn."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import fsum, isclose

from rich import progress
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from fourfold.cli.output import clean, heading, located, one_line, remarks
from fourfold.ranking.factors import Bar, render_bars
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Explanation, Result, SearchResponse

_BAR_WIDTH = 10
_GAP = "  "
_TITLE = 2
"""The column of the titles."""
_READABLE = 24
"""Minimum width of the column of titles."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SPACES = re.compile(r"\s+")


def console(*, stderr: bool = False) -> Console:
    """A console that interprets no markup or emoji codes; in a pipe, lines are not wrapped."""
    stream = sys.stderr if stderr else sys.stdout
    wide = None if stream.isatty() else 200
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=wide)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


# ---------------------------------------------------------------- results


def print_results(response: SearchResponse, *, snippets: bool = True, namespaces: bool = False) -> None:
    """The ranking with the rank in each retriever's own list; location and snippet have the whole width below a row.

    The ranks are left out where they would leave the titles too little room. `namespaces`: a column for them.
    """
    screen = console()
    table = _table(response, response.plan.retrievers, namespaces=namespaces)
    widths = _widths(table, screen.width)
    longest = max((row[_TITLE].cell_len for row in table[1:]), default=0)
    if widths[_TITLE] < min(_READABLE, longest):
        table = _table(response, (), namespaces=namespaces)
        widths = _widths(table, screen.width)
    header, *rows = table
    screen.print(_aligned(header, widths))
    for row, result in zip(rows, response.results, strict=True):
        screen.print(_aligned(row, widths))
        for line in _below(result) if snippets else ():
            screen.print(Padding(line, (0, 0, 0, widths[0] + len(_GAP))))


def _table(response: SearchResponse, names: Sequence[str], *, namespaces: bool) -> list[list[Text]]:
    columns = ("#", "id", "item", *(("namespace",) if namespaces else ()), "score", "conf", *names)
    rows = [_row(position, result, names, namespaces) for position, result in enumerate(response.results, start=1)]
    return [[Text(name, style="bold") for name in columns], *rows]


def _row(position: int, result: Result, names: Sequence[str], namespaces: bool) -> list[Text]:
    ranks = {part.source: part.rank for part in result.contributions}
    places = (Text(str(ranks.get(name) or "·"), style=_colour(name)) for name in names)
    title = Text(heading(result.item), style="bold")
    space = [Text(one_line(result.item.namespace))] if namespaces else []
    numbers = (Text(f"{result.score:.4f}"), Text(f"{result.confidence:.2f}"))
    return [Text(str(position)), Text(str(result.id), style="dim"), title, *space, *numbers, *places]


def _colour(source: str) -> str:
    """The colour of a retriever and of its expansion; none for other parts of a score."""
    return next((spec.colour for spec in RETRIEVERS.values() if source in (spec.name, spec.expansion)), "")


def _below(result: Result) -> Iterator[Text]:
    location = located(result)
    if location:
        yield Text(location, style="dim")
    if remarked := remarks(result):
        yield Text(", ".join(remarked), style="dim")
    yield _snippet(result)


def _snippet(result: Result) -> Text:
    """The part of the text that answers the query, its words bold, on one line."""
    from fourfold.text.analysis import query_words
    from fourfold.text.snippets import highlighted

    item = result.item
    words = query_words(result.query, (item.language,))
    shown = highlighted(item.text or item.title, words, item.language, within=result.passage)
    edges = [0, *(place for mark in shown.marks for place in mark), len(shown.text)]
    text = Text()
    for number, (start, end) in enumerate(pairwise(edges)):
        text.append(_SPACES.sub(" ", clean(shown.text[start:end])), style="bold" if number % 2 else "")
    return text


def _widths(rows: Sequence[Sequence[Text]], most: int) -> list[int]:
    """The width that each column needs; the titles get the rest."""
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    others = sum(widths) - widths[_TITLE] + len(_GAP) * (len(widths) - 1)
    widths[_TITLE] = max(min(widths[_TITLE], most - others), len("item"))
    return widths


def _aligned(row: Sequence[Text], widths: Sequence[int]) -> Text:
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        cell.truncate(width, overflow="ellipsis")
        cell.align("left" if column == _TITLE else "right", width)
    return Text(_GAP).join(row)


# ---------------------------------------------------------------- explanations


def print_explanation(heading: str, explanation: Explanation) -> None:
    tree = Tree(Text(one_line(heading), style="bold"), guide_style="dim")
    branches = [tree]
    for bar in render_bars(_without_factors(explanation)):
        del branches[bar.depth + 1 :]
        branches.append(branches[-1].add(_label(bar)))
    console().print(tree)


def _without_factors(explanation: Explanation) -> Explanation:
    """Leaves out rank, raw score and weight below a contribution, since its description contains them."""
    total = fsum(detail.value for detail in explanation.details)
    only_leaves = all(not detail.details for detail in explanation.details)
    if only_leaves and not isclose(total, explanation.value, rel_tol=1e-9):
        return replace(explanation, details=())
    return replace(explanation, details=tuple(_without_factors(detail) for detail in explanation.details))


def _label(bar: Bar) -> Text:
    colour = _colour(bar.description.partition(":")[0])
    return Text.assemble((bar_glyphs(bar.share), colour), f" {bar.value:.4f}  ", clean(bar.description))


def bar_glyphs(share: float) -> str:
    """A bar of fixed width, filled in steps of an eighth of a character."""
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + _EIGHTHS[rest] * (rest > 0)).ljust(_BAR_WIDTH)


# ---------------------------------------------------------------- progress


class _Rate(progress.ProgressColumn):
    def render(self, task: progress.Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


@contextmanager
def draw_progress(title: str, *, in_bytes: bool) -> Generator[Callable[[int, int], None]]:
    measures = (
        (progress.DownloadColumn(), progress.TransferSpeedColumn())
        if in_bytes
        else (progress.MofNCompleteColumn(), _Rate())
    )
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        *measures,
        progress.TimeRemainingColumn(),
    )
    hidden = not sys.stderr.isatty()
    with progress.Progress(*columns, console=console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

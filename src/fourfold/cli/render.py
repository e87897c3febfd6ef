"""Drawing with rich: tables, explanations, progress. Imported only when something is drawn."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import fsum, isclose

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from fourfold.cli.output import clean, one_line
from fourfold.model import Contribution, Explanation, Result, SearchResponse
from fourfold.search.explain import Bar, render_bars

_BAR_WIDTH = 16
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_COLOURS = {"semantic": "cyan", "keyword": "yellow", "graph": "magenta", "walk": "magenta", "tags": "green"}
_MARKED = re.compile(r"\*\*(.+?)\*\*")


def console(*, stderr: bool = False) -> Console:
    """Never reads markup or emoji codes out of what it prints; in a pipe, lines are not wrapped."""
    wide = None if sys.stdout.isatty() else 200
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=wide)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


# ---------------------------------------------------------------- results


def print_results(response: SearchResponse, *, snippets: bool = True) -> None:
    """The ranking with the rank in each retriever's own list."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("#", justify="right")
    table.add_column("id", style="dim")
    table.add_column("item", ratio=1)
    table.add_column("score", justify="right")
    for name in response.plan.retrievers:
        table.add_column(name, justify="right", style=_COLOURS.get(name, ""))
    for position, result in enumerate(response.results, start=1):
        ranks = (_rank(result.contributions, name) for name in response.plan.retrievers)
        table.add_row(str(position), str(result.id), _item(result, snippets=snippets), f"{result.score:.4f}", *ranks)
    console().print(table)


def _item(result: Result, *, snippets: bool) -> Text:
    title = Text(one_line(result.item.title), style="bold")
    if title and not snippets:
        return title
    return Text("\n" if title else "").join([title, marked(one_line(result.snippet))])


def marked(snippet: str) -> Text:
    """`**word**` of a snippet in bold."""
    text = Text()
    for number, part in enumerate(_MARKED.split(snippet)):
        text.append(part, style="bold" if number % 2 else "")
    return text


def _rank(contributions: Sequence[Contribution], source: str) -> str:
    ranks = [contribution.rank for contribution in contributions if contribution.source == source]
    return str(ranks[0]) if ranks and ranks[0] is not None else "·"


# ---------------------------------------------------------------- explanations


def print_explanation(heading: str, explanation: Explanation) -> None:
    tree = Tree(Text(one_line(heading), style="bold"), guide_style="dim")
    branches = [tree]
    for bar in render_bars(_without_factors(explanation)):
        del branches[bar.depth + 1 :]
        branches.append(branches[-1].add(_label(bar)))
    console().print(tree)


def _without_factors(explanation: Explanation) -> Explanation:
    """Leaves out rank, raw score and weight below a contribution: its description says them."""
    total = fsum(detail.value for detail in explanation.details)
    only_leaves = all(not detail.details for detail in explanation.details)
    if only_leaves and not isclose(total, explanation.value, rel_tol=1e-9):
        return replace(explanation, details=())
    return replace(explanation, details=tuple(_without_factors(detail) for detail in explanation.details))


def _label(bar: Bar) -> Text:
    colour = _COLOURS.get(bar.description.partition(":")[0], "")
    return Text.assemble((bar_glyphs(bar.share), colour), f" {bar.value:.4f}  ", clean(bar.description))


def bar_glyphs(share: float) -> str:
    """A bar of fixed width, filled in steps of an eighth of a character."""
    eighths = round(min(max(share, 0.0), 1.0) * _BAR_WIDTH * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + _EIGHTHS[rest] * (rest > 0)).ljust(_BAR_WIDTH)


# ---------------------------------------------------------------- progress


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


@contextmanager
def progress_bar(title: str) -> Generator[Callable[[int, int], None]]:
    """Gives `progress(done, total)`; drawn on stderr, and only if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)

"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from fourfold.cli.values import read_metadata_test, read_names, read_time, read_weights, read_where

if TYPE_CHECKING:
    from fourfold.model import Filters

VectorOption = Annotated[
    Path | None,
    typer.Option("--vector", metavar="FILE", help="A JSON list of numbers, instead of a vector made from the text."),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else, on stdout.")]
MetaOption = Annotated[list[str] | None, typer.Option("--meta", metavar="K=V", help="Metadata; V may be JSON.")]
ItemId = Annotated[str, typer.Argument(metavar="ID", help="An id, or key:K.")]


@dataclass(frozen=True)
class PlanFlags:
    """How to rank."""

    preset: Annotated[str | None, typer.Option(metavar="P", help="auto, insights, wiki, files, memories, ...")] = None
    fusion: Annotated[str | None, typer.Option(metavar="F", help="auto, rrf or weighted.")] = None
    weights: Annotated[str | None, typer.Option(metavar="W", help="Such as semantic=0.7,keyword=0.3; sum 1.")] = None
    alpha: Annotated[float | None, typer.Option(metavar="A", help="memories: 1 vectors only, 0 tags only.")] = None

    def arguments(self) -> dict[str, Any]:
        """As `Memory.search` and `Memory.why` take them."""
        weights = None if self.weights is None else read_weights(self.weights)
        return {"preset": self.preset, "fusion": self.fusion, "weights": weights, "alpha": self.alpha}


@dataclass(frozen=True)
class ResultFlags:
    """What to show of the ranking."""

    top_k: Annotated[int | None, typer.Option("-k", metavar="N", help="How many results, 1 to 100.")] = None
    only: Annotated[str | None, typer.Option(metavar="R[,R]", help="Of semantic, keyword, graph, tags.")] = None
    per_source: Annotated[int | None, typer.Option(metavar="N", help="At most so many results of one file.")] = None
    min_confidence: Annotated[float | None, typer.Option(metavar="C", help="Leave out results below, 0 to 1.")] = None

    def arguments(self) -> dict[str, Any]:
        """As `Memory.search` takes them."""
        only = None if self.only is None else read_names(self.only)
        kept = {"per_source": self.per_source, "min_confidence": self.min_confidence}
        return {"top_k": self.top_k, "only": only, **kept}


@dataclass(frozen=True)
class FilterFlags:
    """What an item must satisfy."""

    tag: Annotated[list[str] | None, typer.Option(metavar="T", help="Only items with this tag; repeat for more.")] = (
        None
    )
    any_tag: Annotated[bool, typer.Option("--any-tag", help="One of the tags is enough.")] = False
    from_: Annotated[str | None, typer.Option("--from", metavar="D", help="Created at or after.")] = None
    to: Annotated[str | None, typer.Option(metavar="D", help="Created until; a date includes that day.")] = None
    kind: Annotated[str | None, typer.Option(metavar="K", help="Only items of this kind.")] = None
    lang: Annotated[str | None, typer.Option(metavar="L", help="Only items in this language, such as de.")] = None
    path: Annotated[str | None, typer.Option(metavar="GLOB", help="Only items of these files.")] = None
    meta: Annotated[list[str] | None, typer.Option(metavar="K=V", help="Metadata: K=V, or !=, <, <=, >, >=.")] = None
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Such as 'line >= 10 and (kind != code or tag in (a, b))'.")
    ] = None

    def filters(self) -> Filters:
        from fourfold.model import Filters

        return Filters(
            tags=tuple(self.tag or ()),
            any_tag=self.any_tag,
            created_from=None if self.from_ is None else read_time(self.from_),
            created_to=None if self.to is None else read_time(self.to, end_of_day=True),
            kind=self.kind,
            language=self.lang,
            path=self.path,
            metadata=tuple(read_metadata_test(test) for test in self.meta or ()),
            where=None if self.where is None else read_where(self.where),
        )


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a group of options replaced by these options."""
    parameters = signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {
        parameter.name: parameter.annotation for parameter in parameters if is_dataclass(parameter.annotation)
    }

    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        command(**values)

    options = [option for group in groups.values() for option in _parameters(group)]
    alone = [parameter for parameter in parameters if parameter.name not in groups]
    run.__signature__ = Signature([_by_name(parameter) for parameter in (*alone, *options)])  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(option.name, Parameter.KEYWORD_ONLY, default=option.default, annotation=hints[option.name])
        for option in fields(group)
    ]


def _by_name(parameter: Parameter) -> Parameter:
    return parameter.replace(kind=Parameter.KEYWORD_ONLY)

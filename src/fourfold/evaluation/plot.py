"""Draws a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from fourfold.errors import InvalidQuery, MissingExtra, StoreUnavailable
from fourfold.evaluation.sweep import Sweep, held

KINDS: Final = (".png", ".svg", ".pdf")
_INCHES: Final = 4.5


def check_plot(file: Path) -> None:
    """Checks, before anything is measured, whether the image can be written."""
    if file.suffix.lower() not in KINDS:
        raise InvalidQuery(f"unsupported image format {file.suffix!r}", f"Use {', '.join(KINDS)}")
    if not file.absolute().parent.is_dir():
        raise InvalidQuery(f"no folder {file.parent}", "Create it, or choose another")
    _matplotlib("figure")


def plot(sweeps: Sequence[Sweep], file: Path) -> None:
    """Draws nDCG@10 of both halves over the value, and the default as a horizontal line."""
    figure = _matplotlib("figure").Figure(figsize=(_INCHES * len(sweeps), _INCHES * 0.8), layout="constrained")
    for axes, one in zip(figure.subplots(1, len(sweeps), squeeze=False)[0], sweeps, strict=True):
        _draw(axes, one)
    figure.suptitle(sweeps[0].default.dataset)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be written ({error.strerror})", "Choose another file") from error


def _draw(axes: Any, one: Sweep) -> None:
    for out, name, colour in ((False, "train", "tab:blue"), (True, "held out", "tab:orange")):
        values = [held(point.run, out=out)["ndcg@10"] for point in one.points]
        axes.plot([point.value for point in one.points], values, "o-", color=colour, label=name)
        axes.axhline(
            held(one.default, out=out)["ndcg@10"],
            color=colour,
            linestyle=":",
            label=f"{one.default.variant.name}, {name}",
        )
    axes.set_xlabel(one.name)
    axes.set_ylabel("nDCG@10")
    axes.legend(fontsize="small")
    if isinstance(one.points[0].value, str):
        axes.tick_params(axis="x", labelrotation=90, labelsize="x-small")


def _matplotlib(part: str) -> Any:
    try:
        return import_module(f"matplotlib.{part}")
    except ImportError as error:
        raise MissingExtra(f"a plot needs matplotlib ({error})", "pip install 'fourfold[eval]'") from error

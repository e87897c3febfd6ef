"""What a newcomer sees: real screens of tmux, at 80 and 60 columns, with colours and without."""

from __future__ import annotations

import re
from typing import Any

import pytest
from newcomer_session import LOOKS, SESSION, Look, has_tmux, joined

TOLERANCE = 0.05
"""The model's vectors differ slightly between kinds of processors."""
DECIMAL = re.compile(r"\b\d+\.\d\d\b")


def figures(screens: str) -> list[float]:
    return [float(number) for number in DECIMAL.findall(screens)]


def marked(look: Look) -> Any:
    """`make test` draws both widths and both kinds of colours, `make soak` the other combinations too."""
    is_other = look.colours == (look.columns == min(each.columns for each in LOOKS))
    return pytest.param(look, id=look.file.stem, marks=[pytest.mark.soak] if is_other else [])


@pytest.mark.spec("S1.11")
@pytest.mark.parametrize("look", [*map(marked, LOOKS)])
def test_the_screens_of_the_first_session(look: Look) -> None:
    if not has_tmux():
        pytest.skip("tmux is not installed: apt-get install tmux")
    expected, found = look.file.read_text("utf-8"), joined(look)
    assert DECIMAL.sub("0.00", found) == DECIMAL.sub("0.00", expected)
    assert figures(found) == pytest.approx(figures(expected), abs=TOLERANCE)


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.file.stem)
def test_no_line_of_the_fixtures_is_wider_than_the_terminal(look: Look) -> None:
    plain = re.sub("⟦.*?⟧", "", look.file.read_text("utf-8"))
    assert max(map(len, plain.splitlines())) <= look.columns
    assert plain.count("[exit code") == len(SESSION)
    assert ("⟦bold⟧" in look.file.read_text("utf-8")) == look.colours

"""Every screen of the page looks as it did when somebody looked at it: wide and narrow, light and dark."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytestmark = pytest.mark.spec("C10")

if TYPE_CHECKING:
    from http_server import Server
    from PIL.Image import Image
    from playwright.sync_api import Browser

UPDATE = "look at it, then run python scripts/workbench_screenshots.py"
BLOCK = 8
"""Pixels of a sheet that are compared as one."""
NOTICED = 24
"""Difference of a block's mean colour, of 255, from which on it looks different."""
SHARE = 0.005


def differing(old: Image, new: Image) -> float:
    """The share of blocks that look different."""
    from PIL import ImageChops

    blocks = np.asarray(ImageChops.difference(old.reduce(BLOCK), new.reduce(BLOCK)))
    return float((blocks.max(axis=2) >= NOTICED).mean())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_screen_looks_as_it_did(
    browser: Browser, server: Server, tmp_path: Path, width: int, scheme: str
) -> None:
    images = pytest.importorskip("PIL.Image", reason="no Pillow: the screens are not compared")
    script = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "workbench_screenshots.py"))
    kept = images.open(script["SHEETS"] / f"{width}-{scheme}.png")
    if kept.text["fonts"] != script["fonts"](browser):
        pytest.skip("the screens were made with other fonts than those here: they are not compared")
    old, new = kept.convert("RGB"), script["sheet"](browser, server.url, width, scheme)
    shown = tmp_path / f"{width}-{scheme}.png"
    new.save(shown)
    assert old.size == new.size, f"{shown}: {UPDATE}"
    across, down = (side // script["COLUMNS"] for side in old.size)
    down = old.size[1] // -(-len(script["SCREENS"]) // script["COLUMNS"])
    changed = {}
    for place, screen in enumerate(script["SCREENS"]):
        left, top = place % script["COLUMNS"] * across, place // script["COLUMNS"] * down
        part = (left, top, left + across, top + down)
        changed[screen.name] = differing(old.crop(part), new.crop(part))
    assert {name: share for name, share in changed.items() if share > SHARE} == {}, f"{shown}: {UPDATE}"

"""Proposals on the start of the page: kept, edited, dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_server import serving
from workbench import working

from fourfold import connect
from fourfold.model import NewItem

pytestmark = pytest.mark.spec("C10")

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

SAID = [
    "From now on deploy only from the release branch.",
    "<img src=x onerror=alert(1)> never use tabs",
    "Ann is away",
]


def test_proposals_are_kept_edited_and_dropped(browser: Browser, tmp_path: Path) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    with (
        serving(tmp_path / "store", FOURFOLD_EMBEDDER="none") as server,
        working(browser, server) as bench,
        connect(server.url) as memory,
    ):
        items = [NewItem(text, kind="preference", metadata={"confidence": 0.9}) for text in SAID]
        memory.propose(items, "s1", speaker="user")
        page = bench.open()
        section = page.get_by_role("region", name="Proposals")
        expect(section).to_contain_text("3 proposals of what to remember")
        assert section.locator(".snippet").all_inner_texts() == SAID[::-1]
        assert "90 %" in section.inner_text()
        section.locator(".card", has_text="Ann").get_by_role("button", name="Drop").click()
        expect(section).to_contain_text("2 proposals")
        section.locator(".card", has_text="release branch").get_by_role("button", name="Edit").click()
        section.get_by_label("What to store").fill("Deploy from the release branch.")
        section.locator(".card", has=page.get_by_label("What to store")).get_by_role("button", name="Keep").click()
        expect(section).to_contain_text("1 proposal of")
        section.get_by_role("button", name="Keep").click()
        expect(section).to_have_count(0)
        assert {item.text for item in memory.list()} == {"Deploy from the release branch.", SAID[1]}
        assert [each.text for each in memory.proposals(dropped=True)] == ["Ann is away"]

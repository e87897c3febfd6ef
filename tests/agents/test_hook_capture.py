"""Only explicit requests to remember are captured, in the user's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fourfold.cli.hooks import capture
from fourfold.cli.hooks.capture import Captured, Pending, requests
from fourfold.config import Settings
from fourfold.errors import InvalidItem

pytestmark = pytest.mark.spec("C19")

ASKED = {
    "Remember that the staging host is blue-7.": ["The staging host is blue-7."],
    "please remember: use pnpm, never npm": ["Use pnpm, never npm"],
    "Fix it. Please remember that Ann owns billing. Then run the tests.": ["Ann owns billing."],
    "Don't forget that version 1.2.3 is pinned in prod": ["Version 1.2.3 is pinned in prod"],
    "Make a note that we ship on Tuesdays!": ["We ship on Tuesdays!"],
    "save this to memory: The VPN needs a token\nof the second kind\n\nNow fix the bug": [
        "The VPN needs a token\nof the second kind"
    ],
    "Merk dir bitte, dass der Drucker Otto heißt.": ["Der Drucker Otto heißt."],
    "Merke dir: Abgabe ist am 3. Mai": ["Abgabe ist am 3. Mai"],
    "Vergiss nicht, dass Maria dienstags fehlt": ["Maria dienstags fehlt"],
    "Remember that A is one.\nRemember that B is two.": ["A is one.", "B is two."],
}
NOT_ASKED = [
    "Do you remember that bug?",
    "Remember that time we broke prod?",
    "I remember that the tests failed",
    "Note that the API changed",
    "Don't forget to add tests",
    "Remember to run the linter",
    "```\nRemember that this is a log\n```",
    "> Remember that this is quoted",
    "Why does the cache remember: it should not",
    "Remember:",
    "",
]


@pytest.mark.parametrize(("prompt", "texts"), ASKED.items())
def test_requests_are_found(prompt: str, texts: list[str]) -> None:
    assert requests(prompt) == texts


@pytest.mark.parametrize("prompt", NOT_ASKED)
def test_other_sentences_are_not_requests(prompt: str) -> None:
    assert requests(prompt) == []


def test_the_number_and_length_of_requests_are_limited() -> None:
    many = "\n".join(f"Remember that fact number {n} holds." for n in range(100))
    assert len(requests(many)) == capture.REQUESTS
    assert len(requests("Remember: " + "long words " * 1000)[0]) <= capture.TEXT_CHARACTERS


def test_kept_texts_belong_to_one_store_and_namespace(tmp_path: Path) -> None:
    item = Captured("text", "shop", "s", "2026-11-17T00:00:00+00:00")
    own, other = (Pending(Settings(store="a", namespace=name), tmp_path) for name in ("one", "two"))
    path = own.keep(item)
    (path.parent / "broken.json").write_text("{")
    (path.parent / "half.new").write_text("{")
    assert [entry for _, entry in own.all()] == [item]
    assert list(other.all()) == []
    assert path.stat().st_mode & 0o077 == 0


SECRET = "xK9w2Lq8-Tr0ub4dor"


def test_no_secret_waits_in_plain_text_for_a_store(tmp_path: Path) -> None:
    item = Captured(f"the gate has password = {SECRET}", "", "", "2026-11-17T00:00:00+00:00")
    kept = Pending(Settings(store="a"), tmp_path).keep(item)
    assert SECRET not in kept.read_text()
    with pytest.raises(InvalidItem, match="secret"):
        Pending(Settings(store="a", secrets="refuse"), tmp_path).keep(item)
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert capture.scan(mask=False, folder=tmp_path) == []
    allowed = Pending(Settings(store="b", secrets="allow"), tmp_path).keep(item)
    assert SECRET in allowed.read_text()
    (line,) = capture.scan(mask=False, folder=tmp_path)
    assert "waits for its store" in line
    assert SECRET not in line
    assert capture.scan(mask=True, folder=tmp_path) == [f"masked: {line}"]
    assert capture.scan(mask=False, folder=tmp_path) == []
    assert SECRET not in allowed.read_text()


def test_texts_that_every_store_refuses_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "PENDING", 2)
    pending, item = Pending(Settings(store="a"), tmp_path), Captured("text", "", "", "2026-11-17T00:00:00+00:00")
    for _ in range(2):
        pending.keep(item)
    with pytest.raises(OSError, match="2 texts that no store has taken"):
        pending.keep(item)

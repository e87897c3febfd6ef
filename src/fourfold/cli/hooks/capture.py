"""What a user asks an agent to remember: found in prompts, and kept in files until the store has it.

Only explicit requests count ("remember that ...", "merk dir: ..."). A sentence such as "note that the API changed"
belongs to the task at hand. Quoted lines and code blocks are never searched, because they are not the user's own words.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from fourfold import owner_only
from fourfold.cli.hooks.events import Event
from fourfold.config import Settings, default_store
from fourfold.text.secrets import masked, masks_in

REQUESTS: Final = 5
"""Maximum number of requests taken from one prompt."""
TEXT_CHARACTERS: Final = 2000
"""Maximum length of a captured text; longer ones are cut."""
SEARCHED_CHARACTERS: Final = 20_000
"""Number of characters at the beginning of a prompt in which requests are looked for."""
PENDING: Final = 1000
"""Maximum number of files with captured texts; beyond it, new ones are not kept."""

_ENGLISH: Final = (
    r"(?:remember|don['’]?t\s+forget|do\s+not\s+forget|make\s+a\s+note|(?:save|store|add)(?:\s+(?:this|it|that))?"
    r"\s+(?:to|in)\s+(?:your\s+|the\s+)?memory)"
)
_GERMAN: Final = r"(?:merke?\s+dir|vergiss\s+nicht|denke?\s+daran|notiere?(?:\s+dir)?)"
_SENTENCE: Final = rf"(?:{_ENGLISH}(?:\s+this)?,?\s+that|{_GERMAN}(?:\s+bitte)?,?\s+dass)\s+"
_COLON: Final = (
    rf"(?:{_ENGLISH}(?:\s+(?:this|the\s+following))?|{_GERMAN}(?:\s+bitte)?(?:\s+(?:folgendes|das))?)\s*:\s*"
)
_REQUEST: Final = re.compile(
    rf"(?:^|(?<=[.!?])[ \t])[ \t]*(?:please,?\s+|bitte\s+|and\s+|also,?\s+)?"
    rf"(?:(?P<colon>{_COLON})|(?P<sentence>{_SENTENCE}))",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE_END: Final = re.compile(r"[.!?](?=\s+[A-ZÄÖÜ0-9\"'(]|\s*\n|\s*$)|\n|$")
_PARAGRAPH_END: Final = re.compile(r"\n[ \t]*\n|$")
_FENCED: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)
_QUOTED: Final = re.compile(r"^[ \t]*>.*$", re.MULTILINE)


def requests(prompt: str) -> list[str]:
    """The texts that a prompt asks to remember, in order."""
    own = _QUOTED.sub("", _FENCED.sub("", prompt[:SEARCHED_CHARACTERS]))
    texts: dict[str, None] = {}
    position = 0
    while len(texts) < REQUESTS and (match := _REQUEST.search(own, position)):
        ends = (_PARAGRAPH_END if match["colon"] else _SENTENCE_END).search(own, match.end())
        position = max(match.end(), ends.end() if ends else len(own))
        text = own[match.end() : position].strip()
        if len(text.split()) > 1 and not text.endswith("?"):
            texts[text[0].upper() + text[1:TEXT_CHARACTERS].rstrip()] = None
    return list(texts)


# ---------------------------------------------------------------- kept until the store has them


@dataclass(frozen=True, slots=True)
class Captured:
    text: str
    project: str
    session: str
    created_at: str
    """An ISO time with an offset."""


def captured(event: Event) -> list[Captured]:
    """The texts that the event asks to remember; none for prompts that the agent itself writes."""
    if not event.is_typed:
        return []
    now = datetime.now(UTC).isoformat()
    return [Captured(text, event.project, event.session, now) for text in requests(event.prompt)]


class Pending:
    """Captured texts of one store and namespace, a file each, so that a locked store or a deadline loses none."""

    def __init__(self, settings: Settings, folder: Path | None = None) -> None:
        place = f"{settings.store or default_store()}\n{settings.namespace}"
        self._folder = (folder or _folder()) / hashlib.sha256(place.encode()).hexdigest()[:32]
        self._settings = settings

    def keep(self, item: Captured) -> Path:
        """Writes the text in one step, without secrets, as the store would do it.

        OSError if that is not possible; InvalidItem if the text has a secret and the setting `secrets` is refuse.
        """
        from fourfold.engine.secret_policy import SecretPolicy

        item = replace(item, text=SecretPolicy(self._settings.secrets).text(item.text))
        owner_only.make_folder(self._folder)
        if len(list(self._folder.iterdir())) >= PENDING:
            raise OSError(f"{self._folder} has {PENDING} texts that no store has taken")
        return _write(self._folder / f"{secrets.token_hex(8)}.json", item)

    def all(self) -> Iterator[tuple[Path, Captured]]:
        """The kept texts; files that are not understood are skipped."""
        return _read(self._folder)


def scan(*, mask: bool, folder: Path | None = None) -> list[str]:
    """One line for each secret in a text that waits for a store, of any store. `mask`: masks them; lists what was done.

    Older versions kept texts as they were, and with `secrets: allow` they still are.
    """
    lines: list[str] = []
    for waiting in sorted((folder or _folder()).glob("*/")):
        for path, item in _read(waiting):
            hidden = masked(item.text)
            if hidden != item.text:
                hits = [f"{path.name}: a captured text that waits for its store: {kind}" for kind in masks_in(hidden)]
                lines += [f"masked: {line}" for line in hits] if mask else hits
                if mask:
                    _write(path, replace(item, text=hidden))
    return lines


def _read(folder: Path) -> Iterator[tuple[Path, Captured]]:
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        with suppress(OSError, ValueError, TypeError):
            read = cast("dict[str, Any]", json.loads(path.read_text("utf-8")))
            yield path, Captured(**read)


def _write(path: Path, item: Captured) -> Path:
    written = path.with_suffix(".new")
    with owner_only.open_file(written, "w", encoding="utf-8") as file:
        json.dump(asdict(item), file)
    return written.replace(path)


def _folder() -> Path:
    from platformdirs import user_state_path

    return user_state_path("fourfold", appauthor=False) / "captures"

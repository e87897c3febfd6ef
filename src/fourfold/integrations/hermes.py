"""Hermes: Fourfold as its memory provider. Before a turn it recalls, after a turn it stores the exchange."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any, Final

from fourfold.client import connect
from fourfold.config import load
from fourfold.errors import MissingExtra
from fourfold.integrations.documents import AnyMemory
from fourfold.memory import Memory
from fourfold.model import NewItem

try:
    from agent.memory_provider import MemoryProvider
except ImportError as error:
    raise MissingExtra(f"Hermes is missing ({error})", "Install Fourfold into the environment of Hermes") from error

KIND: Final = "exchange"
"""The kind of the items, as of imported sessions."""
_RECALLED: Final = 5
_CHARACTERS: Final = 600
"""Of one memory in the prompt."""
_PRIMARY: Final = "primary"


class FourfoldProvider(MemoryProvider):
    """The memory of Hermes in the store that FOURFOLD_STORE and the other settings of Fourfold name.

    A subagent and a scheduled task recall, but store nothing: what they are told was not said by the user.
    """

    def __init__(self) -> None:
        self._memory: AnyMemory | None = None
        self._stores = True
        self._least_confidence = 0.0

    @property
    def name(self) -> str:
        return "fourfold"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        settings = load({}, os.environ, None).settings
        self._stores = kwargs.get("agent_context", _PRIMARY) == _PRIMARY
        self._least_confidence = settings.hook_min_confidence
        if settings.store is not None and settings.store.startswith(("http://", "https://")):
            self._memory = connect(settings.store, token=settings.token, namespace=settings.namespace)
        else:
            self._memory = Memory.open(settings.store, namespace=settings.namespace, settings=settings)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What answers the query with the confidence that hooks ask for, one line for each memory."""
        if self._memory is None or not query.strip():
            return ""
        response = self._memory.search(query, top_k=_RECALLED, min_confidence=self._least_confidence, cut="auto")
        return "\n".join(
            f"- {(item.occurred_at or item.created_at).date()}: {item.title + ': ' if item.title else ''}"
            f"{item.text[:_CHARACTERS]}"
            for item in (result.item for result in response.results)
        )

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
    ) -> None:
        """Stores what was said as one item; its vector follows in the background."""
        if self._memory is None or not self._stores or not (user_content.strip() and assistant_content.strip()):
            return
        text = f"User: {user_content.strip()}\n\nAssistant: {assistant_content.strip()}"
        told = {"session": session_id} if session_id else {}
        now = datetime.now(UTC)
        self._memory.add_many([NewItem(text, kind=KIND, metadata=told, occurred_at=now, source="agent")])

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """None: `fourfold mcp` offers the tools."""
        return []

    def shutdown(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

"""What happens to secrets in what callers store: masked, refused or allowed. Every way of writing passes here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fourfold.errors import InvalidItem
from fourfold.model import ItemPatch, Json, NewItem
from fourfold.storage.values import Record
from fourfold.text.secrets import SecretMode, masked, masked_each, masked_json, masked_parts, masks_in, may_hold_secrets

_TEXTS: Final = ("title", "text", "content", "metadata", "properties", "tags", "aliases")
"""Fields of the records of an export that hold what callers wrote."""


class SecretPolicy:
    def __init__(self, mode: SecretMode) -> None:
        self._mode: Final = mode

    def items(self, items: Sequence[NewItem]) -> Sequence[NewItem]:
        """Checked items as they may be stored."""
        if self._mode == "allow":
            return items
        hinted = may_hold_secrets(["\n".join((item.title, item.text, *item.tags)) for item in items])
        return [
            self._item(item, *masked_each((item.title, item.text, *item.tags))) if has_hint or item.metadata else item
            for item, has_hint in zip(items, hinted, strict=True)
        ]

    def file(self, items: Sequence[NewItem]) -> Sequence[NewItem]:
        """The checked chunks of one file as they may be stored."""
        if self._mode == "allow":
            return items
        texts = masked_parts([item.text for item in items])
        parts = zip(items, texts, strict=True)
        return [self._item(item, masked(item.title), text, *map(masked, item.tags)) for item, text in parts]

    def _item(self, item: NewItem, *hidden: str) -> NewItem:
        """`hidden`: its title, its text and its tags, masked."""
        given = (item.title, item.text, *item.tags)
        title, text, *rest = (self._checked(*pair) for pair in zip(given, hidden, strict=True))
        metadata, tags = self.mapping(item.metadata), tuple(rest)
        if (title, text, tags) == (item.title, item.text, item.tags) and metadata is item.metadata:
            return item
        return replace(item, title=title, text=text, tags=tags, metadata=metadata)

    def patch(self, patch: ItemPatch) -> ItemPatch:
        return replace(
            patch,
            title=None if patch.title is None else self.text(patch.title),
            text=None if patch.text is None else self.text(patch.text),
            add_tags=tuple(self.text(tag) for tag in patch.add_tags),
            metadata=None if patch.metadata is None else self.mapping(patch.metadata),
        )

    def record(self, record: Record) -> Record:
        """A line of an export."""
        if self._mode == "allow":
            return record
        if record.get("type") == "version" and isinstance(record.get("record"), dict):
            return {**record, "record": self.record(record["record"])}
        fields = (*_TEXTS, "name") if record.get("type") == "node" else _TEXTS
        return {
            name: self._checked(value, masked_json(value)) if name in fields else value
            for name, value in record.items()
        }

    def text(self, text: str) -> str:
        return text if self._mode == "allow" else self._checked(text, masked(text))

    def mapping(self, metadata: Mapping[str, Json]) -> Mapping[str, Json]:
        if self._mode == "allow" or not metadata:
            return metadata
        return self._checked(metadata, masked_json(dict(metadata)))

    def _checked(self, given: Json, hidden: Json) -> Json:
        """The given value itself if nothing is hidden in it."""
        if hidden == given:
            return given
        if self._mode == "refuse":
            kinds = masks_in(hidden if isinstance(hidden, str) else json.dumps(hidden, ensure_ascii=False))
            raise InvalidItem(
                f"the text contains a secret ({', '.join(dict.fromkeys(kinds))})",
                "Remove it, or store it masked: set `secrets: mask`",
            )
        return hidden

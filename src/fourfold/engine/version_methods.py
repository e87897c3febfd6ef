"""The methods of Memory that show and restore earlier versions, and that find near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fourfold import validation as rules
from fourfold.arguments import checks_arguments
from fourfold.engine import keyed
from fourfold.engine.duplicates import DuplicateGroup, Grouping, Similar, similar_items
from fourfold.engine.embedding_queue import Progress
from fourfold.engine.item_methods import ItemMethods, changed
from fourfold.engine.open_store import now
from fourfold.engine.scope import visible
from fourfold.errors import NotFound
from fourfold.filters import Every, Not, Test, field_at
from fourfold.model import NO_FILTERS, Filters, GivenFilters, Item, ItemPatch

_BATCH_ITEMS: Final = 200
"""Items that are compared in one snapshot."""


@checks_arguments
class VersionMethods(ItemMethods):
    def history(self, item: int | str) -> list[Item]:
        """An item with its earlier versions, what was merged into it, and the other values of its fact.

        The latest is first. Of an item that states no fact, the last 20 versions are kept.
        """
        with self._reading() as snapshot:
            (found,) = self._items(snapshot, [item])
            return snapshot.rows.history(found.id)

    def undo(self, item: int | str, *, to: int | None = None, wait: bool = False, expected: Item | None = None) -> Item:
        """Takes the last change of an item back, or makes an older version the present one: `to`.

        An earlier version becomes the item again, items that were merged into it are items of their own again, and an
        earlier value of its fact is stored again. The item as it was stays in the history: `undo` can be undone.
        `expected`: the item as the caller knows it; Conflict, and nothing changed, if it is stored otherwise.
        """
        with self._reading() as snapshot:
            (current,) = self._items(snapshot, [item])
            earlier = [
                each
                for each in snapshot.rows.history(current.id)
                if each.superseded_at is not None and each.id != current.id
            ]
            aside = snapshot.rows.versions([each.id for each in earlier])
        if expected is not None and current != expected:
            raise changed(expected)
        chosen = next((each for each in earlier if to is None or each.id == to), None)
        if current.superseded_at is not None or chosen is None:
            raise NotFound(
                f"item {current.id} has no such earlier version", "fourfold history ID shows those that it has"
            )
        if chosen.id in aside:
            together = [each.id for each in aside.values() if each.superseded_at == chosen.superseded_at]
            return self._restore(current, [chosen.id] if to is not None else together, wait=wait)
        if chosen.version_of != current.id:
            again = replace(chosen.given(), key=None, created_at=None, path=None, chunk_index=None, expires_at=None)
            return self._with_similar(self._add([again], wait=wait, expected=current)[0])
        removed = {tag for tag in current.tags if tag not in chosen.tags}
        gone = {key: None for key in current.metadata if key not in chosen.metadata}
        metadata = {**chosen.metadata, **gone}
        patch = ItemPatch(chosen.text, chosen.title, chosen.tags, tuple(sorted(removed)), metadata, chosen.source)
        return self._patch(current.id, patch, wait=wait, expected=current)

    def _restore(self, current: Item, versions: Sequence[int], *, wait: bool) -> Item:
        with self._writing(names=self.settings.links) as tx:
            self._require_unchanged(current)
            restored = tx.items.restore(versions, now())
            keyed.done(tx, [current.id])
        if wait:
            self._embed_now([item.id for item in restored])
        return self.get([current.id])[0]

    def merge(self, kept: int | str, others: Sequence[int | str]) -> Item:
        """Leaves one of several items that say the same, with the tags and sources of all. `undo` takes it back.

        It happens as a whole or not at all. Parts of files, facts and texts of nodes cannot be merged into others.
        """
        with self._reading() as snapshot:
            first, *rest = self._items(snapshot, [kept, *others])
        with self._writing() as tx:
            merged = tx.items.merge(first.id, list(dict.fromkeys(item.id for item in rest)), now())
            keyed.done(tx, [merged.id])
            return merged

    # ------------------------------------------------------------ near-duplicates

    def similar(self, item: int | str) -> list[Similar]:
        """The items that say nearly the same as a stored one, the most similar first.

        Its vector and its rare words have to agree; while it has no vector, nearly all words.
        """
        with self._reading() as snapshot:
            (found,) = self._items(snapshot, [item])
            return similar_items(snapshot, found, visible(snapshot, NO_FILTERS, now()))

    def duplicates(
        self, filters: GivenFilters | None = None, *, limit: int = 50, progress: Progress | None = None
    ) -> list[DuplicateGroup]:
        """Groups of items that say nearly the same, without those of files. Nothing is changed: see `merge`."""
        rules.check_page(limit, 0)
        given = rules.checked_filters(filters)
        with self._reading() as snapshot:
            shown = visible(snapshot, _without_files(given), now())
            ids = snapshot.rows.ids(shown)
        grouping = Grouping()
        for start in range(0, len(ids), _BATCH_ITEMS):
            with self._reading() as snapshot:
                for item in snapshot.rows.get(ids[start : start + _BATCH_ITEMS]).values():
                    grouping.add(snapshot, item, shown)
            if progress is not None:
                progress(min(start + _BATCH_ITEMS, len(ids)), len(ids))
        with self._reading() as snapshot:
            return grouping.groups(snapshot, limit)


def _without_files(filters: Filters) -> Filters:
    """Chunks of files are left out: the files say what is stored."""
    own = Not(Test(field_at(["path"]), "exists"))
    return Filters(where=own if filters.condition is None else Every((filters.condition, own)))

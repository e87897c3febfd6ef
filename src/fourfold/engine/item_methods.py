"""The methods of Memory that store, change and list items, raw records and files, and that restore versions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fourfold import errors, limits, scheduling
from fourfold import validation as rules
from fourfold.arguments import checks_arguments
from fourfold.embed.base import check_dimension, embeds_in
from fourfold.engine import keyed
from fourfold.engine.duplicates import DuplicateGroup, Grouping, Similar, similar_items
from fourfold.engine.embedding_queue import EmbeddingQueue, Progress
from fourfold.engine.maintenance import NO_VECTORS
from fourfold.engine.open_store import OpenStore, no_item, now
from fourfold.engine.scope import unknown_names, visible
from fourfold.engine.secret_policy import SecretPolicy
from fourfold.filters import Every, Not, Test, field_at
from fourfold.model import (
    NO_FILTERS,
    Filters,
    GivenFilters,
    Item,
    ItemPatch,
    Json,
    NewItem,
    Page,
    RawRecord,
    Source,
    Space,
    Vector,
)
from fourfold.storage.sql.linking import bring_names
from fourfold.storage.values import NewRaw, no_raw

if TYPE_CHECKING:
    from fourfold.ingest.sessions import SessionReport
    from fourfold.ingest.sync import IndexReport
    from fourfold.storage.protocols import Snapshot

log = logging.getLogger("fourfold")

_CHECKED_ITEMS = 32
"""Items that are checked, in about a millisecond, before searches get a turn."""
_COMPARED_ITEMS: Final = 200
"""Items that are compared in one snapshot."""


@checks_arguments
class ItemMethods(OpenStore):
    def add(self, item: NewItem | str, *, wait: bool = False, **fields: Any) -> Item:
        """Stores one item, durably. Its vector follows from the queue.

        The field `similar` of the result names stored items that say nearly the same. Nothing is merged: see `merge`.
        `wait`: returns when the vector is made. `fields`: those of `NewItem`, such as title, tags and metadata.
        """
        return self._with_similar(self._add([rules.new_item(item, fields)], wait=wait, expected=None)[0])

    def add_many(self, items: Sequence[NewItem], *, wait: bool = False) -> list[Item]:
        """Stores all of them, or none. An item that is already stored is returned or replaced.

        `wait`: returns when the vectors are made.
        """
        return self._add(items, wait=wait, expected=None)

    def _add(self, items: Sequence[NewItem], *, wait: bool, expected: Item | None) -> list[Item]:
        checked = self._as_trusted(_checked(items, self._secrets))
        if not checked:
            return []
        if self._embedding is not None:
            self._fit_vectors(self._embedding, [item.vector for item in checked if item.vector is not None])
            if wait:
                self._embedding.fits(self.namespace)
        with self._writing(names=self.settings.links and bring_names(checked)) as tx:
            self._require_unchanged(expected)
            moment = now()
            stored = tx.items.put(checked, moment, links=self.settings.links)
            keyed.done(tx, [item.id for item in stored])
        if wait:
            self._embed_now([item.id for item in stored])
        return stored

    def _with_similar(self, stored: Item) -> Item:
        """The item with its near-duplicates. A failure to find them does not fail the write."""
        try:
            with self._reading() as snapshot:
                similar = similar_items(snapshot, stored, visible(snapshot, NO_FILTERS, now()))
        except errors.WorldError as error:
            log.warning("near-duplicates of a stored item were not looked for: %s", error)
            return stored
        return replace(stored, similar=tuple(each.id for each in similar)) if similar else stored

    def _as_trusted(self, items: Sequence[NewItem]) -> Sequence[NewItem]:
        """Items that are drawn from raw records are trusted as little as the least trusted of these."""
        drawn = {raw for item in items for raw in item.source_ids}
        if not drawn:
            return items
        with self._reading() as snapshot:
            sources: dict[int, Source | None] = {
                raw: record.source for raw, record in snapshot.raw.get(sorted(drawn)).items()
            }
        return [replace(item, source=_lowest(item, sources)) if item.source_ids else item for item in items]

    def _embed_now(self, ids: Sequence[int]) -> None:
        """Makes their vectors before anything else. If that fails, the items stay stored and pending.

        A store that cannot be written is an error all the same: the caller has to know.
        """
        try:
            if self._embedding is not None:
                with self._maintenance.writing(self.namespace):
                    self._embedding.embed_items(self.namespace, ids)
                self._maintenance.troubles.pop(NO_VECTORS, None)
        except (errors.StorageFull, errors.StoreUnavailable):
            raise
        except (errors.WorldError, errors.SpaceMismatch) as error:
            self._maintenance.troubles[NO_VECTORS] = str(error)

    def _fit_vectors(self, embedding: EmbeddingQueue, vectors: Sequence[Sequence[float] | Vector]) -> None:
        """Checks that given vectors are in the space of the embedder, if there is one."""
        if not vectors:
            return
        space = embedding.space()
        for vector in vectors:
            check_dimension(len(vector), space.dimension)
        embedding.drop_earlier(self.namespace)
        with self._reading() as snapshot:
            present = snapshot.space
        if present != space:
            with self._writing() as tx:
                tx.vectors.set_space(space)

    def update(self, item: int | str, patch: ItemPatch, *, wait: bool = False, expected: Item | None = None) -> Item:
        """Changes one item; what it was stays in its history.

        If its text changed, a new vector follows; with `wait` it is made before this returns.
        `expected`: the item as the caller knows it; Conflict, and nothing changed, if it is stored otherwise.
        """
        stamped = replace(patch, source=patch.source or "user")
        return self._patch(item, rules.checked_patch(stamped), wait=wait, expected=expected)

    def _patch(self, item: int | str, patch: ItemPatch, *, wait: bool, expected: Item | None) -> Item:
        checked = self._secrets.patch(patch)
        links = self.settings.links
        with self._writing(names=links and (patch.title is not None or patch.text is not None)) as tx:
            self._require_unchanged(expected)
            number = self._present(item)
            updated = tx.items.patch(number, checked, now(), links=links)
            keyed.done(tx, [updated.id])
        if wait:
            self._embed_now([updated.id])
        return self._with_similar(updated)

    def _present(self, item: int | str) -> int:
        """Inside a transaction: the id of an item that is not superseded."""
        with self._reading() as snapshot:
            (number,) = self._numbers(snapshot, [item])
            stored = snapshot.rows.get([number]).get(number) if number and snapshot.hidden.superseded else None
        if not number:
            raise no_item(item)
        if stored is not None and stored.superseded_at is not None:
            raise errors.Conflict(
                f"item {number} is superseded", "Change the present one; history and undo show and restore"
            )
        return number

    def _require_unchanged(self, expected: Item | None) -> None:
        """Inside a transaction: other writers wait, so what is read here holds until its end."""
        if expected is not None:
            with self._reading() as snapshot:
                if snapshot.rows.get([expected.id]).get(expected.id) != expected:
                    raise changed(expected)

    def get(self, ids: Sequence[int | str]) -> list[Item]:
        """Items by id, or by "key:K"; NotFound names the first that is missing."""
        with self._reading() as snapshot:
            return self._items(snapshot, ids)

    def around(self, item: int | str, before: int = 1, after: int = 1) -> list[Item]:
        """An item with its neighbours: the chunks of its file from `before` ones to `after` ones."""
        if not rules.is_whole(before, 0) or not rules.is_whole(after, 0) or before + after > limits.TOP_K:
            raise errors.InvalidQuery(
                f"before {before!r}, after {after!r}", f"Together at most {limits.TOP_K} neighbours"
            )
        with self._reading() as snapshot:
            (chunk,) = self._items(snapshot, [item])
            if chunk.path is None or chunk.chunk_index is None or chunk.key is not None:
                return [chunk]
            return snapshot.rows.chunks(chunk.path, chunk.chunk_index - before, chunk.chunk_index + after)

    def list(self, filters: GivenFilters | None = None, *, limit: int = 50, offset: int = 0) -> list[Item]:
        """Newest first."""
        rules.check_page(limit, offset)
        checked = rules.checked_filters(filters)
        with self._reading() as snapshot:
            return snapshot.rows.list(visible(snapshot, checked, now()), limit, offset)

    def count(self, filters: GivenFilters | None = None) -> int:
        """The number of items, or of those that a filter matches."""
        checked = rules.checked_filters(filters)
        with self._reading() as snapshot:
            return snapshot.rows.count(visible(snapshot, checked, now()))

    def forget(self, ids: Sequence[int | str], *, expected: Item | None = None, dry_run: bool = False) -> int:
        """Removes items; NotFound, and nothing removed, if one of them does not exist.

        `expected`: one of them as the caller knows it; Conflict, and nothing removed, if it is stored otherwise.
        `dry_run`: counts what would go, and removes nothing.
        """
        return self._forget(
            lambda snapshot: [item.id for item in self._items(snapshot, ids)], expected, dry_run=dry_run
        )

    delete = forget

    def forget_matching(self, filters: GivenFilters, *, dry_run: bool = False) -> int:
        """Removes all items that a filter matches, also superseded and expired ones.

        `dry_run`: counts what would go, and removes nothing.
        """
        checked = rules.checked_filters(filters)
        if checked == NO_FILTERS:
            raise errors.InvalidQuery("no filter was given", "Say which items to forget: a tag, a path, a kind ...")
        return self._forget(lambda snapshot: snapshot.rows.ids(checked), None, dry_run=dry_run)

    def _forget(self, chosen: Callable[[Snapshot], Sequence[int]], expected: Item | None, *, dry_run: bool) -> int:
        """One choice for the count and for the removal, which makes it inside its transaction."""
        if dry_run:
            with self._reading() as snapshot:
                return len(set(chosen(snapshot)))
        with self._writing() as tx:
            self._require_unchanged(expected)
            with self._reading() as snapshot:
                ids = chosen(snapshot)
            count = tx.items.forget(ids)
            keyed.done(tx, [count])
            return count

    def unknown_names(self, filters: GivenFilters) -> list[str]:
        """Kinds, languages, tags and metadata keys of a filter that no item has, each with those that exist."""
        condition = rules.checked_filters(filters).condition
        if condition is None:
            return []
        with self._reading() as snapshot:
            return [*unknown_names(snapshot.rows, snapshot.tags, condition)]

    # ------------------------------------------------------------ raw records

    def add_raw(
        self,
        content: str,
        speaker: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Json] | None = None,
        *,
        source: Source = "user",
    ) -> RawRecord:
        """Stores an original; items refer to it by `source_ids`, and are trusted no more than it is.

        `content`: what was said, word by word. `speaker`: who said it. `session_id`: in which conversation.
        `metadata`: anything else.
        """
        checked = rules.checked(NewItem(content))
        who, session = rules.optional_name(speaker, "speaker"), rules.optional_session(session_id)
        more, came_from = rules.checked_metadata(metadata or {}), rules.known_source(source)
        text, more = self._secrets.text(checked.text), self._secrets.mapping(more)
        who = None if who is None else self._secrets.text(who)
        with self._writing() as tx:
            record = tx.raw.add(NewRaw(text, who, session, more, now(), came_from))
            keyed.done(tx, [record.id])
            return record

    def get_raw(self, ids: Sequence[int]) -> list[RawRecord]:
        """Raw records by id; NotFound names the first that is missing."""
        wanted = _raw_ids(ids)
        with self._reading() as snapshot:
            records = snapshot.raw.get(wanted)
        for record in wanted:
            if record not in records:
                raise no_raw(record)
        return [records[record] for record in wanted]

    def list_raw(
        self, *, session_id: str | None = None, speaker: str | None = None, limit: int = 50, offset: int = 0
    ) -> Page[RawRecord]:
        """Raw records, newest first; of one session or speaker only, where these are named."""
        rules.check_page(limit, offset)
        session, who = rules.optional_name(session_id, "session_id"), rules.optional_name(speaker, "speaker")
        with self._reading() as snapshot:
            return snapshot.raw.list(session, who, limit, offset)

    def forget_raw(self, ids: Sequence[int], *, force: bool = False) -> int:
        """Removes raw records, all of them or none. NotFound names one that does not exist.

        A raw record that items are drawn from is refused (RequestError) without `force`.
        `ids`: ids of raw records; all of them, or none. `force`: also those that items are drawn from; their
        `source_ids` lose them.
        """
        wanted = _raw_ids(ids)
        with self._writing() as tx:
            count = tx.raw.forget(wanted, force=force)
            keyed.done(tx, [count])
            return count

    def sources(self, item: int | str) -> list[RawRecord]:
        """The raw records that an item is drawn from, in the order of its `source_ids`."""
        with self._reading() as snapshot:
            (stored,) = self._items(snapshot, [item])
            return self._sources(snapshot, stored)

    def _sources(self, snapshot: Snapshot, item: Item) -> list[RawRecord]:
        records = snapshot.raw.get(item.source_ids) if item.source_ids else {}
        return [records[record] for record in item.source_ids if record in records]

    # ------------------------------------------------------------ vectors and files

    def pending(self, ids: Sequence[int]) -> list[int]:
        """The pending items among these."""
        with self._reading() as snapshot:
            return [item for item, _, _ in snapshot.pending(len(ids), ids)] if ids else []

    def embed_pending(self, progress: Progress | None = None, *, seconds: float | None = None) -> int:
        """Makes the vectors of all pending items; returns how many.

        `seconds`: begins no further batch after this long, and leaves the rest pending.
        """
        return 0 if self._embedding is None else self._drain(self._embedding, progress, seconds)

    def queues(self) -> list[str]:
        """Namespaces in which items wait for a vector, or have one of an earlier version of the embedder."""
        return [] if self._embedding is None else self._embedding.queues()

    def embeds_in(self, space: Space) -> bool:
        """Whether the vectors of this space are the embedder's, or of an earlier version that it renews."""
        return self._embedding is not None and embeds_in(self._embedding.embedder, space.fingerprint)

    def reembed(self, progress: Progress | None = None) -> int:
        """Renews all vectors with the present embedder. If interrupted, it resumes; searches answer meanwhile."""
        if self._embedding is None:
            raise errors.RequestError("no embedder is set", "Set one: FOURFOLD_EMBEDDER=builtin")
        space = self._embedding.space()
        with self._writing() as tx:
            tx.vectors.reset_space(space)
        return self._drain(self._embedding, progress)

    def _drain(self, embedding: EmbeddingQueue, progress: Progress | None, seconds: float | None = None) -> int:
        """Also retries texts that the embedder rejected."""
        with self._writing() as tx:
            tx.vectors.retry_rejected()
        with self._maintenance.writing(self.namespace):
            return self._maintenance.drain(embedding, self.namespace, progress, patient=True, seconds=seconds)

    def index_folders(
        self,
        folders: Sequence[str | Path],
        *,
        exclude: Sequence[str] = (),
        tags: Sequence[str] = (),
        verify: bool = False,
        progress: Progress | None = None,
    ) -> IndexReport:
        """Makes the store hold the content of these files, or of those below these folders; only changes cost time.

        `exclude`: globs in the syntax of .gitignore for what to leave out. `tags`: added to every item of these files.
        Files whose size and time are unchanged are not opened; with `verify`, their content is compared.
        """
        from fourfold.ingest.sync import index_folders

        with self._maintenance.writing(self.namespace):
            return index_folders(
                self.store,
                self.namespace,
                folders,
                exclude=exclude,
                tags=tags,
                links=self.settings.links,
                verify=verify,
                protect=self._secrets.file,
                progress=progress,
            )

    def import_sessions(
        self,
        tool: str,
        place: str | Path | None = None,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> SessionReport:
        """Stores what was said in the sessions of another tool; a repeated import reads only what is new.

        `tool`: claude-code, codex, copilot or chatgpt. `place`: a file or folder; None: where the tool keeps its
        sessions on this machine. `dry_run`: counts the sessions, and stores nothing.
        """
        from fourfold.ingest.sessions import import_sessions

        chosen = None if place is None else Path(place).expanduser()
        with self._maintenance.writing(self.namespace):
            return import_sessions(
                self.store,
                self.namespace,
                tool,
                chosen,
                links=self.settings.links,
                protect=self._secrets.text,
                dry_run=dry_run,
                progress=progress,
            )

    def index(self) -> None:
        """Publishes the indexes completely, now."""
        self.store.maintenance.publish(self.namespace, everything=True)

    # ------------------------------------------------------------ versions

    def history(self, item: int | str) -> list[Item]:
        """An item with its earlier versions, what was merged into it, and the other values of its fact.

        The latest is first. Of an item that states no fact, the last 20 versions are kept.
        """
        with self._reading() as snapshot:
            (stored,) = self._items(snapshot, [item])
            return snapshot.rows.history(stored.id)

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
            raise errors.NotFound(
                f"item {current.id} has no such earlier version", "fourfold history ID shows those that it has"
            )
        if chosen.id in aside:
            together = [each.id for each in aside.values() if each.superseded_at == chosen.superseded_at]
            versions = [chosen.id] if to is not None else together
            with self._writing(names=self.settings.links) as tx:
                self._require_unchanged(current)
                restored = tx.items.restore(versions, now())
                keyed.done(tx, [current.id])
            if wait:
                self._embed_now([item.id for item in restored])
            return self.get([current.id])[0]
        if chosen.version_of != current.id:
            again = replace(chosen.given(), key=None, created_at=None, path=None, chunk_index=None, expires_at=None)
            return self._with_similar(self._add([again], wait=wait, expected=current)[0])
        removed = {tag for tag in current.tags if tag not in chosen.tags}
        gone = {key: None for key in current.metadata if key not in chosen.metadata}
        metadata = {**chosen.metadata, **gone}
        patch = ItemPatch(chosen.text, chosen.title, chosen.tags, tuple(sorted(removed)), metadata, chosen.source)
        return self._patch(current.id, patch, wait=wait, expected=current)

    def merge(self, kept: int | str, others: Sequence[int | str]) -> Item:
        """Leaves one of several items that say the same, with the tags and sources of all. `undo` takes it back.

        It happens as a whole or not at all. Parts of files, facts and texts of nodes cannot be merged into others.
        `others`: what is merged into the one that is kept.
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
            (stored,) = self._items(snapshot, [item])
            return similar_items(snapshot, stored, visible(snapshot, NO_FILTERS, now()))

    def duplicates(
        self, filters: GivenFilters | None = None, *, limit: int = 50, progress: Progress | None = None
    ) -> list[DuplicateGroup]:
        """Groups of items that say nearly the same, without those of files. Nothing is changed: see `merge`."""
        rules.check_page(limit, 0)
        checked = rules.checked_filters(filters)
        with self._reading() as snapshot:
            shown = visible(snapshot, _without_files(checked), now())
            ids = snapshot.rows.ids(shown)
        grouping = Grouping()
        for start in range(0, len(ids), _COMPARED_ITEMS):
            with self._reading() as snapshot:
                for item in snapshot.rows.get(ids[start : start + _COMPARED_ITEMS]).values():
                    grouping.add(snapshot, item, shown)
            if progress is not None:
                progress(min(start + _COMPARED_ITEMS, len(ids)), len(ids))
        with self._reading() as snapshot:
            return grouping.groups(snapshot, limit)


def _checked(items: Sequence[NewItem], secrets: SecretPolicy) -> list[NewItem]:
    """The items as they will be stored."""
    checked: list[NewItem] = []
    with scheduling.in_bulk():
        for start in range(0, len(items), _CHECKED_ITEMS):
            scheduling.give_way()
            some = rules.checked_many(items[start : start + _CHECKED_ITEMS], "user")
            checked += secrets.items(some)
    return checked


def changed(expected: Item) -> errors.Conflict:
    return errors.Conflict(f"item {expected.id} has changed", "Read it again and repeat the change")


def _lowest(item: NewItem, by_record: Mapping[int, Source | None]) -> Source | None:
    sources: list[Source | None] = [item.source, *(by_record[raw] for raw in item.source_ids if raw in by_record)]
    return rules.least_trusted(sources)


def _raw_ids(ids: Sequence[int]) -> list[int]:
    """Ids that a store could have given; NotFound names another."""
    for record in ids:
        if not rules.is_whole(record, 1):
            raise no_raw(record)
    return list(ids)


def _without_files(filters: Filters) -> Filters:
    """Chunks of files are left out: the files say what is stored."""
    own = Not(Test(field_at(["path"]), "exists"))
    return Filters(where=own if filters.condition is None else Every((filters.condition, own)))

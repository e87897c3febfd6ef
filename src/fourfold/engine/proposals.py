"""The methods of Memory for proposals: what a session may have left to remember, waiting for a decision.

A proposal is a raw record in one of three reserved sessions, which says whether it waits, was accepted or was dropped.
So no search sees it, and exports, copies, masking and purging need nothing of their own. The record stays when it is
decided: what was proposed once is never proposed again, and an accepted proposal is the source of its item.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final, cast

from fourfold import validation as rules
from fourfold.arguments import checks_arguments
from fourfold.engine import keyed
from fourfold.engine.duplicates import saying_the_same, stored_already
from fourfold.engine.item_methods import ItemMethods
from fourfold.engine.open_store import now
from fourfold.engine.scope import visible
from fourfold.errors import InvalidItem, NotFound
from fourfold.limits import LARGEST_ID, SESSION_PROPOSALS
from fourfold.model import NO_FILTERS, Item, Json, NewItem, Page, Proposal, RawRecord, Source
from fourfold.storage.protocols import Snapshot, Transaction
from fourfold.storage.values import NewRaw

_WAITING: Final = f"{rules.RESERVED_SESSIONS}proposed"
_ACCEPTED: Final = f"{rules.RESERVED_SESSIONS}accepted"
_DROPPED: Final = f"{rules.RESERVED_SESSIONS}dropped"
"""Sessions of raw records; each is found by an index."""
_DETAILS: Final = "proposal"
"""The key of a record's metadata with the rest of the proposal."""
_FIELDS: Final = frozenset(("text", "kind", "tags", "metadata", "language", "created_at", "source"))


@checks_arguments
class ProposalMethods(ItemMethods):
    def propose(self, items: Sequence[NewItem], session: str, *, speaker: str | None = None) -> list[Proposal]:
        """Queues what may be worth storing, for a decision. Nothing is stored as an item.

        Left out is what is stored, was proposed before, or exceeds 10 proposals of the session, the least confident
        first (`confidence` in the metadata). A proposal has a text, a kind, tags, metadata and a time.
        `items`: what may be worth storing. `session`: the conversation it is from. `speaker`: who said it.
        """
        asked, who = rules.name(session, "session"), rules.optional_name(speaker, "speaker")
        checked = self._secrets.items(rules.checked_many([_plain(item) for item in items], "user"))
        with self._reading() as snapshot:
            shown = visible(snapshot, NO_FILTERS, now())
            new = [item for item in checked if not stored_already(snapshot, item, shown)]
        with self._writing() as tx:
            with self._reading() as snapshot:
                earlier = [each for state in (_WAITING, _ACCEPTED, _DROPPED) for each in _records(snapshot, state)]
            said = [NewItem(each.content) for each in earlier]
            chosen: list[NewItem] = []
            for item in sorted(new, key=_confidence, reverse=True):
                if not any(map(saying_the_same(item), said)):
                    said.append(item)
                    chosen.append(item)
            room = SESSION_PROPOSALS - sum(proposal_of(each).session == asked for each in earlier)
            kept = [item for item in new if item in chosen[: max(room, 0)]]
            ids = tx.raw.add_many([_record(item, asked, who) for item in kept])
            keyed.done(tx, ids)
        return [proposal_of(each) for each in self.get_raw(ids)]

    def proposals(self, *, dropped: bool = False, limit: int = 50, offset: int = 0) -> Page[Proposal]:
        """What waits for a decision, newest first.

        `dropped`: instead, what was dropped, which can still be accepted.
        """
        rules.check_page(limit, offset)
        with self._reading() as snapshot:
            page = snapshot.raw.list(_DROPPED if dropped else _WAITING, None, limit, offset)
            return Page((proposal_of(each) for each in page), page.total, offset)

    def accept_proposals(
        self, ids: Sequence[int], *, text: str | None = None, source: Source = "user", wait: bool = False
    ) -> list[Item]:
        """Stores proposals as items, all of them or none; each is drawn from the raw record of what was said.

        `ids`: ids of proposals, also of dropped ones. `text`: what to store instead of the text of the only one.
        `wait`: returns when the vectors are made.
        """
        if text is not None and len(ids) != 1:
            raise InvalidItem(f"one text for {len(ids)} proposals", "Accept the one that it replaces alone")
        came_from = rules.known_source(source)
        with self._writing(names=self.settings.links) as tx:
            accepted = self._undecided(ids, _WAITING, _DROPPED)
            if text is not None:
                accepted = [replace(accepted[0], text=text)]
            drawn = [replace(_item(each), source_ids=(each.id,), source=came_from) for each in accepted]
            checked = self._as_trusted(self._secrets.items(rules.checked_many(drawn)))
            items = tx.items.put(checked, now(), links=self.settings.links)
            for each in accepted:
                _rewrite(tx, each, _ACCEPTED)
            keyed.done(tx, [item.id for item in items])
        if wait:
            self._embed_now([item.id for item in items])
        return items

    def edit_proposal(self, proposal: int, text: str) -> Proposal:
        """Changes what would be stored; what was said stays the raw record. NotFound if it does not wait.

        `proposal`: its id. `text`: the new text.
        """
        checked = self._secrets.text(rules.checked(NewItem(text)).text)
        with self._writing() as tx:
            (waiting,) = self._undecided([proposal], _WAITING)
            edited = replace(waiting, text=checked)
            _rewrite(tx, edited, _WAITING)
            keyed.done(tx, [edited.id])
        return edited

    def drop_proposals(self, ids: Sequence[int]) -> int:
        """Drops proposals, all of them or none: they are not stored, and not proposed again.

        `ids`: ids of proposals that wait. forget_raw also removes what a dropped one says.
        """
        with self._writing() as tx:
            waiting = self._undecided(ids, _WAITING)
            for each in waiting:
                _rewrite(tx, each, _DROPPED)
            keyed.done(tx, [len(waiting)])
        return len(waiting)

    def _undecided(self, ids: Sequence[int], *states: str) -> list[Proposal]:
        """Inside a transaction: the proposals with these ids; NotFound names one that is in none of these states."""
        unique = list(dict.fromkeys(ids))
        with self._reading() as snapshot:
            records = snapshot.raw.get([id for id in unique if rules.is_whole(id, 1)])
        for id in unique:
            if id not in records or records[id].session_id not in states:
                raise NotFound(f"no proposal {id} waits for a decision", "fourfold proposals list shows those that do")
        return [proposal_of(records[id]) for id in unique]


def proposal_of(record: RawRecord) -> Proposal:
    """The proposal in a raw record; details of another form, which an import may bring, are left out."""
    metadata = dict(record.metadata)
    given = metadata.pop(_DETAILS, None)
    details = cast("dict[str, Json]", given if isinstance(given, dict) else {})
    text, kind, session, tags = (details.get(name) for name in ("text", "kind", "session", "tags"))
    return Proposal(
        record.id,
        record.namespace,
        text if isinstance(text, str) else record.content,
        record.content,
        kind if isinstance(kind, str) else None,
        tuple(tag for tag in cast("list[Json]", tags) if isinstance(tag, str)) if isinstance(tags, list) else (),
        session if isinstance(session, str) else "",
        record.speaker,
        metadata,
        record.created_at,
    )


def _details(proposal: Proposal) -> dict[str, Json]:
    own = {"kind": proposal.kind, "tags": list(proposal.tags), "session": proposal.session}
    return own if proposal.text == proposal.said else {**own, "text": proposal.text}


def _rewrite(tx: Transaction, proposal: Proposal, state: str) -> None:
    tx.raw.replace(proposal.id, proposal.said, state, {**proposal.metadata, _DETAILS: _details(proposal)})


def _record(item: NewItem, session: str, speaker: str | None) -> NewRaw:
    details = {"kind": item.kind, "tags": [*item.tags], "session": session}
    metadata = {**item.metadata, _DETAILS: details}
    return NewRaw(item.text, speaker, _WAITING, metadata, item.created_at or now(), item.source)


def _records(snapshot: Snapshot, state: str) -> Sequence[RawRecord]:
    return snapshot.raw.list(state, None, LARGEST_ID, 0)


def _item(proposal: Proposal) -> NewItem:
    return NewItem(
        proposal.text,
        kind=proposal.kind,
        tags=proposal.tags,
        metadata={**proposal.metadata, "session": proposal.session},
        created_at=proposal.created_at,
    )


def _plain(item: NewItem) -> NewItem:
    """The item; InvalidItem if it has what a proposal cannot keep."""
    for each in fields(NewItem):
        if each.name not in _FIELDS and getattr(item, each.name) not in (None, "", ()):
            raise InvalidItem(f"a proposal has no {each.name}", "Leave it out, or store the item with add")
    return item


def _confidence(item: NewItem) -> float:
    confidence = item.metadata.get("confidence")
    return float(confidence) if isinstance(confidence, int | float) else 0.0

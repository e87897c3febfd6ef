"""The tools that keep memories: thin adapters over `AsyncMemory`."""

# No `from __future__ import annotations`: the SDK reads the annotations of every tool when the server starts.

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from mcp_types import CallToolResult
from pydantic import Field

from fourfold.engine.expiry import in_future
from fourfold.errors import InvalidQuery
from fourfold.limits import ANSWER_ROWS
from fourfold.model import Filters, Item, ItemPatch, NewItem
from fourfold.serve.arguments import Flag, Integer, Number, moment
from fourfold.serve.budget import Form, check_budget
from fourfold.serve.mcp.answers import (
    READ_TOKENS,
    SEARCH_TOKENS,
    answer,
    counts_answer,
    item_forms,
    left_out,
    listed_forms,
    page_answer,
    raw_answer,
    raw_forms,
    status_form,
    stored_form,
    within,
)
from fourfold.serve.mcp.arguments import Id, ItemId, ItemIds, Limit, Namespace, Offset, Sources, accepted, check_rows
from fourfold.serve.sessions import Sessions
from fourfold.wire import encode

if TYPE_CHECKING:
    from fourfold.aio import AsyncMemory

_AROUND_CHUNKS = 10
_READ_ITEMS = 10
"""Maximum number of items per call, since a text may have a megabyte."""


class Tools:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def store_memory(
        self,
        content: Annotated[str, Field(description="Complete in itself: names instead of pronouns, dates.")],
        title: Annotated[str, Field(description="A short name. Memories that mention it become linked.")] = "",
        tags: Annotated[list[str] | None, Field(description="A few words to filter by.")] = None,
        kind: Annotated[str | None, Field(description="Such as fact, decision, preference, procedure.")] = None,
        key: Annotated[str | None, Field(description="Your own id. Storing under it again replaces.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else.")] = None,
        source_ids: Sources = None,
        *,
        details: dict[str, Any],
        created_at: Annotated[str | None, accepted("ISO date or time; now if left out.")] = None,
        language: Annotated[str | None, accepted("ISO 639-1; detected if left out.")] = None,
        embedding: Annotated[list[Number] | None, accepted("The vector, instead of one made from the text.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        new = NewItem(
            content,
            title=title,
            tags=tuple(tags or ()),
            kind=kind,
            key=key,
            metadata=metadata or {},
            source_ids=tuple(source_ids or ()),
            created_at=moment(created_at),
            language=language,
            vector=embedding,
            source="agent",
            **details,
        )
        in_future(new.expires_at)
        # The agent may search for it at once in other words, so it waits for the vector.
        memory = await self._sessions.memory(namespace)
        return _answered(await memory.add(new, wait=True))

    async def get_memory(
        self,
        ids: ItemIds,
        around: Annotated[
            Integer,
            Field(description="Chunks of the file on each side.", json_schema_extra={"maximum": _AROUND_CHUNKS}),
        ] = 0,
        offset: Annotated[
            Integer, Field(description="Characters of the text to skip: next_offset.", json_schema_extra={"minimum": 0})
        ] = 0,
        sources: Annotated[Flag, Field(description="With the raw records that they are drawn from.")] = False,
        history: Annotated[Flag, Field(description="With earlier versions and values.")] = False,
        max_tokens: Annotated[Integer | None, accepted("Budget of the answer. Default: 10000.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        budget = check_budget(READ_TOKENS if max_tokens is None else max_tokens)
        wanted = list(dict.fromkeys(ids))
        if len(wanted) > ANSWER_ROWS or offset < 0 or not 0 <= around <= _AROUND_CHUNKS:
            raise InvalidQuery(
                f"{len(wanted)} ids, around {around}, offset {offset}",
                f"At most {ANSWER_ROWS} ids and {_AROUND_CHUNKS} neighbours on each side; offset from 0",
            )
        memory = await self._sessions.memory(namespace)
        room = budget // 2 if sources else budget
        share = max(room // max(len(wanted), 1) - 10, 1)
        forms: dict[int, Sequence[Form]] = {}
        drawn_from: dict[int, None] = {}
        unread = wanted
        while unread and len(forms) <= 2 * ANSWER_ROWS:
            for item in await _read(memory, unread[:_READ_ITEMS], around, history=history):
                forms.setdefault(item.id, item_forms(item, offset, share))
                drawn_from |= dict.fromkeys(item.source_ids)
            unread = unread[_READ_ITEMS:]
        form: Form = {"status": "success"}
        form["items"] = within(form, "items", list(forms.values()), room)
        missing = {"items": len(forms) - len(form["items"]) + len(unread)}
        if sources:
            records = await memory.get_raw(list(drawn_from)[:ANSWER_ROWS])
            form["sources"] = raw_answer(records, 0, budget - room)["raw"]
            missing["sources"] = len(drawn_from) - len(form["sources"])
        return answer({**form, **left_out(missing)})

    async def update_memory(
        self,
        id: ItemId,
        content: Annotated[str | None, Field(description="The whole new text.")] = None,
        title: str | None = None,
        add_tags: list[str] | None = None,
        remove_tags: list[str] | None = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Merged; null removes a key.")] = None,
        undo: Annotated[Flag, Field(description="Instead: bring back what was stored before.")] = False,
        merge: Annotated[list[Id] | None, Field(description="Instead: ids of copies of it to merge into it.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        memory = await self._sessions.memory(namespace)
        patch = ItemPatch(content, title, tuple(add_tags or ()), tuple(remove_tags or ()), metadata)
        if (undo or merge) and (patch != ItemPatch() or (undo and merge)):
            raise InvalidQuery("undo, merge and changes need separate calls", "Undo or merge first, then change it")
        if merge:
            return answer({"status": "success", "item": stored_form(await memory.merge(id, merge))})
        if undo:
            return answer({"status": "success", "item": stored_form(await memory.undo(id, wait=True))})
        return _answered(await memory.update(id, replace(patch, source="agent"), wait=True))

    async def delete_memory(self, ids: ItemIds, namespace: Namespace = None) -> CallToolResult:
        deleted = await (await self._sessions.memory(namespace)).forget(list(dict.fromkeys(ids)))
        return answer({"status": "success", "deleted": deleted})

    async def list_memories(
        self,
        filters: Filters,
        limit: Limit = 20,
        offset: Offset = 0,
        counts: Annotated[Flag, Field(description="Instead of memories: the tags and kinds in use.")] = False,
        max_tokens: Annotated[Integer | None, accepted("Budget of the answer. Default: 4000.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        check_rows(limit, offset)
        budget = check_budget(SEARCH_TOKENS if max_tokens is None else max_tokens)
        memory = await self._sessions.memory(namespace)
        total = await memory.count(filters)
        if counts:
            used = {"tags": await memory.tags(), "kinds": await memory.kinds()}
            return answer(counts_answer({"total": total}, used, budget))
        forms: list[Sequence[Form]] = []
        for start in range(offset, offset + limit, _READ_ITEMS):
            size = min(_READ_ITEMS, offset + limit - start)
            found = await memory.list(filters, limit=size, offset=start)
            forms += [listed_forms(item) for item in found]
            if len(found) < size:
                break
        return answer(page_answer("items", forms, total, offset, budget))

    async def memory_status(self) -> CallToolResult:
        return answer({"status": "success", "store": status_form(await self._sessions.status())})

    # ------------------------------------------------------------ raw records

    async def store_raw_dialogue(
        self,
        content: Annotated[str, Field(description="What was said, word by word.")],
        speaker: Annotated[str | None, Field(description="Who said it.")] = None,
        session_id: Annotated[str | None, Field(description="In which conversation.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        record = await (await self._sessions.memory(namespace)).add_raw(
            content, speaker, session_id, metadata, source="agent"
        )
        return answer({"status": "success", "raw": {"id": record.id}})

    async def read_raw_dialogue(
        self,
        ids: Annotated[list[Integer] | None, Field(description="These records, in full. Leave out to list.")] = None,
        session_id: Annotated[str | None, Field(description="Of this conversation.")] = None,
        speaker: Annotated[str | None, Field(description="Said by this speaker.")] = None,
        limit: Limit = 20,
        offset: Annotated[
            Integer,
            Field(description="Rows to skip; with ids, characters of each.", json_schema_extra={"minimum": 0}),
        ] = 0,
        max_tokens: Annotated[Integer | None, accepted("Budget of the answer. Default: 10000.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        check_rows(limit, offset)
        budget = check_budget(READ_TOKENS if max_tokens is None else max_tokens)
        memory = await self._sessions.memory(namespace)
        if ids is not None:
            if session_id is not None or speaker is not None or len(set(ids)) > ANSWER_ROWS:
                raise InvalidQuery(f"{len(ids)} ids", f"At most {ANSWER_ROWS}, and no session_id or speaker with them")
            records = await memory.get_raw(list(dict.fromkeys(ids)))
            return answer(raw_answer(records, offset, budget))
        page = await memory.list_raw(session_id=session_id, speaker=speaker, limit=limit, offset=offset)
        share = budget // max(len(page), 1)
        return answer(page_answer("raw", [raw_forms(record, 0, share) for record in page], page.total, offset, budget))

    async def delete_raw_dialogue(
        self,
        ids: Annotated[list[Integer], Field(description="Ids of raw records. All of them, or none.")],
        force: Annotated[Flag, Field(description="Also those that memories are drawn from.")] = False,
        namespace: Namespace = None,
    ) -> CallToolResult:
        deleted = await (await self._sessions.memory(namespace)).forget_raw(ids, force=force)
        return answer({"status": "success", "deleted": deleted})

    async def compress_to_l2_insight(
        self,
        content: Annotated[str, Field(description="The insight, complete in itself.")],
        source_ids: Annotated[list[Integer], Field(description="Ids of the raw records that it is drawn from.")],
        tags: Annotated[list[str] | None, Field(description="A few words to filter by.")] = None,
        metadata: Annotated[dict[str, Any] | None, Field(description="Anything else.")] = None,
        namespace: Namespace = None,
    ) -> CallToolResult:
        new = NewItem(
            content, tags=tuple(tags or ()), metadata=metadata or {}, source_ids=tuple(source_ids), source="agent"
        )
        memory = await self._sessions.memory(namespace)
        return _answered(await memory.add(new, wait=True))


def _answered(item: Item) -> CallToolResult:
    return answer({"status": "success", "item": {**stored_form(item), **encode(item, ("similar",))}})


async def _read(memory: "AsyncMemory", ids: Sequence[int | str], around: int, *, history: bool) -> list[Item]:
    items = await memory.get(ids)
    if history:
        return [each for item in items for each in await memory.history(item.id)]
    if not around:
        return items
    return [near for item in items for near in await memory.around(item.id, around, around)]

"""raw add, get, list, forget: the originals that items are drawn from."""

from __future__ import annotations

from typing import Annotated

from fourfold.cli.commands import Group, argument, open_memory, option
from fourfold.cli.options import JsonFlag, MetaOption, read_metadata, read_stdin
from fourfold.cli.output import clean, local_time, one_line, say, say_json, say_list
from fourfold.model import RawRecord
from fourfold.wire import encode

app = Group("raw", help="Raw records: the originals that items are drawn from.")

RawIds = Annotated[list[int], argument(metavar="RAW_ID...")]
SpeakerOption = Annotated[str | None, option("--speaker", metavar="NAME", help="Who said it.")]
SessionOption = Annotated[str | None, option("--session", metavar="ID", help="The conversation it is from.")]


@app.adds
def add(
    text: Annotated[str, argument(metavar="TEXT|-", help="The words; - reads them from stdin.")],
    speaker: SpeakerOption = None,
    session: SessionOption = None,
    meta: MetaOption = None,
) -> None:
    """Keep an original, and print its id for `add --source`."""
    content, metadata = read_stdin() if text == "-" else text, read_metadata(meta or ())
    with open_memory(create=True) as memory:
        record = memory.add_raw(content, speaker, session, metadata)
    say(str(record.id))


@app.adds
def get(ids: RawIds, as_json: JsonFlag = False) -> None:
    """Show raw records in full."""
    with open_memory() as memory:
        records = memory.get_raw(ids)
    if as_json:
        say_json({"status": "success", "count": len(records), "raw": [encode(record) for record in records]})
    else:
        say("\n\n".join(map(raw_in_full, records)))


@app.adds
def list_(
    speaker: SpeakerOption = None,
    session: SessionOption = None,
    limit: Annotated[int, option(metavar="N", help="How many, newest first.")] = 50,
    offset: Annotated[int, option(metavar="N", help="How many to leave out before.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """List raw records, newest first."""
    with open_memory() as memory:
        page = memory.list_raw(session_id=session, speaker=speaker, limit=limit, offset=offset)
    columns = ("id", "created", "session", "speaker", "words")
    say_list("raw", page, columns, _row, as_json=as_json, total=page.total, has_more=page.has_more)


@app.adds
def forget(
    ids: RawIds,
    force: Annotated[bool, option("--force", help="Also those that items are drawn from.")] = False,
) -> None:
    """Delete raw records; one that an item is drawn from only with --force."""
    with open_memory() as memory:
        count = memory.forget_raw(ids, force=force)
    say(f"forgot {count} raw record{'' if count == 1 else 's'}")


def raw_heading(record: RawRecord) -> str:
    """The id, the speaker, the session and the time of a record."""
    said = ", ".join(one_line(part) for part in (record.speaker, record.session_id) if part)
    return f"raw record {record.id}{f' ({said})' if said else ''}, {local_time(record.created_at)}"


def raw_in_full(record: RawRecord) -> str:
    return f"{raw_heading(record)}\n\n{clean(record.content)}"


def _row(record: RawRecord) -> tuple[object, ...]:
    words = one_line(record.content)[:80]
    return record.id, local_time(record.created_at), record.session_id or "", record.speaker or "", words

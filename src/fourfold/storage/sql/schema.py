"""The tables that both databases have (`tables.sql`). Each database adds its own, and steps from older schemas."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template
from typing import NamedTuple


def read_tables(folder: Path) -> dict[str, str]:
    """The parts of the file `tables.sql` by their names, which follow `-- ==`."""
    _, *parts = re.split(r"^-- == (\w+)\n", (folder / "tables.sql").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


ITEMS, ROWS, FILES, IDS, FACTS, VERSIONS, RAW_SESSIONS, RECEIPTS, REQUESTS, SYNCED = read_tables(
    Path(__file__).parent
).values()


class Types(NamedTuple):
    int: str
    id: str
    """Of numbers beyond 32 bits."""
    text: str
    key: str
    """Of texts that are compared, by their bytes."""
    hash: str
    flag: str
    true: str
    real: str
    first_id: str
    """The column of ids of a table that assigned its own in older versions."""
    name_type: str
    """Of the column by which a name in normal form is found (`Db.name_column`)."""
    name_column: str
    rowless: str
    """Follows a table whose rows lie in its primary key."""

    def ddl(self, shared: str) -> str:
        return Template(shared).substitute(self._asdict())

"""Where a PostgreSQL store is: a libpq address, and the schema that holds its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fourfold.errors import InvalidSetting

SCHEMES = ("postgresql", "postgres")
_SCHEMA = "fourfold"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")


@dataclass(frozen=True, slots=True)
class Address:
    dsn: str
    """What libpq takes."""
    schema: str

    @property
    def shown(self) -> str:
        """Without the password."""
        parts = urlsplit(self.dsn)
        login, _, host = parts.netloc.rpartition("@")
        user = login.partition(":")[0]
        query = [(name, value) for name, value in parse_qsl(parts.query) if name != "password"]
        return _joined(f"{parts.scheme}://{user}{'@' if user else ''}{host}{parts.path}", query)


def parse(text: str) -> Address:
    """`postgresql://user:password@host:port/database?schema=NAME`; every other parameter is libpq's."""
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES:
        raise InvalidSetting(f"{parts.scheme}:// is no PostgreSQL address", "Write postgresql://HOST/DATABASE")
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(query).get("schema", _SCHEMA)
    if not _NAME.fullmatch(schema):
        raise InvalidSetting(f"the schema {schema!r} has no plain name", "Use small letters, digits and _, up to 51")
    rest = [(name, value) for name, value in query if name != "schema"]
    return Address(_joined(text.partition("?")[0], rest), schema)


def _joined(address: str, query: list[tuple[str, str]]) -> str:
    return f"{address}?{urlencode(query, quote_via=quote, safe='/')}" if query else address

"""The address of a PostgreSQL store: the server, and the schema that holds its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from psycopg import pq
from psycopg.conninfo import make_conninfo

from fourfold import addresses
from fourfold.errors import InvalidSetting

SCHEMES = ("postgresql", "postgres")
_SCHEMA = "fourfold"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,50}")


@dataclass(frozen=True, slots=True)
class Address:
    dsn: str = field(repr=False)
    """Parameters for libpq as keywords and values, so that its errors cannot quote the address."""
    schema: str
    shown: str
    """The address without user and password."""


def parse(text: str) -> Address:
    """`postgresql://user:password@host:port/database?schema=NAME`; every other parameter is libpq's."""
    url = addresses.parse(text)
    if url.scheme not in SCHEMES:
        raise InvalidSetting(f"{url.scheme}:// is not a PostgreSQL address", "Write postgresql://HOST/DATABASE")
    parameters = dict(url.parameters)
    schema = parameters.pop("schema", _SCHEMA)
    if not _NAME.fullmatch(schema):
        raise InvalidSetting("the schema of the address has no plain name", "Use a-z, 0-9 and _, up to 51 characters")
    if not parameters.keys() <= _libpq_parameters():
        raise InvalidSetting(
            "the address has a parameter that PostgreSQL does not know",
            "Use libpq's names, such as sslmode; the password goes before the @: USER:PASSWORD@HOST",
        )
    return Address(make_conninfo(**(_parts(url) | parameters)), schema, url.shown)


def _parts(url: addresses.Url) -> dict[str, str]:
    """The parts of the URL under libpq's names."""
    parts = {
        "user": url.user,
        "password": url.password,
        "host": ",".join(host for host, _ in url.hosts),
        "port": ",".join(port for _, port in url.hosts),
        "dbname": url.path.removeprefix("/"),
    }
    return {name: value for name, value in parts.items() if value and value.strip(",")}


def _libpq_parameters() -> set[str]:
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults()}

"""Addresses of servers: parsed strictly, and shown without user, password or parameters that may be secret.

With an unencoded `@`, `/`, `?`, `%` or space in a password, a lenient parser would take parts of it for a host, a path
or a parameter. Such an address is rejected, and no part of it is repeated in the error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import quote, unquote

from fourfold.errors import InvalidSetting

_ENCODED = "%[0-9A-Fa-f]{2}"
_HOST = rf"(?:\[[0-9A-Fa-f:.]+\]|(?:[^\s@/?#%:,\[\]]|{_ENCODED})*)(?::\d{{1,5}})?"
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]{0,19})://"
    rf"(?:(?P<user>(?:[^\s@/?%:]|{_ENCODED})*)(?::(?P<password>(?:[^\s@/?%]|{_ENCODED})*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    rf"(?P<path>(?:/(?:[^\s@/?#%:]|{_ENCODED})*)*)"
    rf"(?:\?(?P<query>(?:[^@%]|{_ENCODED})*))?",
    re.ASCII,
)
_LIBPQ = re.compile(r"postgres(ql)?:|(^|\s)(host|user|password|passwd|dbname)\s*=", re.IGNORECASE)
_SHOWN_PARAMETERS = ("schema", "host", "port", "dbname", "sslmode")
_REMEDY = (
    "Write SCHEME://USER:PASSWORD@HOST:PORT/NAME, with special characters percent-encoded: "
    "% as %25, / as %2F, @ as %40, ? as %3F, a space as %20"
)


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    hosts: tuple[tuple[str, str], ...]
    """Host and port of each server; empty strings if not given."""
    path: str
    parameters: Mapping[str, str] = field(repr=False)

    @property
    def shown(self) -> str:
        """The address without user, password and parameters that may be secret."""
        hosts = ",".join(_quoted(host) + (f":{port}" if port else "") for host, port in self.hosts)
        parameters = [f"{name}={quote(self.parameters[name])}" for name in _SHOWN_PARAMETERS if name in self.parameters]
        return f"{self.scheme}://{hosts}{quote(self.path)}" + ("?" + "&".join(parameters) if parameters else "")


def is_address(text: str) -> bool:
    """Whether a text means a server and not a folder, even if it is malformed."""
    return "://" in text or _LIBPQ.search(text) is not None


def parse(text: str) -> Url:
    """Parse a strict URL; raise InvalidSetting, which repeats nothing of the text, if it is not one."""
    match = _URL.fullmatch(text)
    pairs = [part.partition("=") for part in (match["query"] or "").split("&") if part] if match else []
    if match is None or "%00" in text or not all(equals for _, equals, _ in pairs):
        raise InvalidSetting("the address of the server is not a valid URL", _REMEDY)
    return Url(
        match["scheme"],
        None if match["user"] is None else unquote(match["user"]),
        None if match["password"] is None else unquote(match["password"]),
        tuple(_host(each) for each in match["hosts"].split(",")),
        unquote(match["path"]),
        {unquote(name): unquote(value) for name, _, value in pairs},
    )


def shown(text: str) -> str:
    """Return the address in a form that is safe to print and log."""
    try:
        return parse(text).shown
    except InvalidSetting:
        return "(an address that is not a valid URL)"


def is_loopback(host: str) -> bool:
    """Whether what is sent to this host stays on this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _host(text: str) -> tuple[str, str]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        host, port = text, ""
    return unquote(host.removeprefix("[").removesuffix("]")), port


def _quoted(host: str) -> str:
    return f"[{host}]" if ":" in host else quote(host, safe="")

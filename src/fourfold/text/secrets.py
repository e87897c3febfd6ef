"""Finds credentials in a text: API keys, tokens, private keys, passwords in URLs and assignments. Pure functions.

A kind is described once: hints of which a text must contain one before its pattern is tried, the pattern, and how
random the secret has to look. `masked` replaces what was found by `[secret: KIND]`.
"""

# ruff: noqa: E501  (one pattern a line)

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from fourfold.native.texts import Hint, Hints

Json: TypeAlias = Any

SecretMode: TypeAlias = Literal["mask", "refuse", "allow"]
MARK: Final = "[secret: "
_MARKED: Final = re.compile(r"\[secret: ([a-z ]{1,40})\]")
_PRIVATE_KEY: Final = "PRIVATE KEY"
_B64: Final = r"[A-Za-z0-9_-]"
_ENTROPY_BITS: Final = 3.0
"""Per character, of a random key. English words and identifiers of this length have less, or contain no digit."""
_PLACEHOLDER: Final = re.compile(
    r"(?i)example|sample|dummy|placeholder|change.?me|your[_-]?|\bxxx|x{4}|\*{3}|\.{3}"
    r"|^(?:none|null|true|false|undefined|required|optional|string|secret|password|pass|pw|token|hidden|redacted)$"
    r"|^\$[A-Z_a-z]\w*$|\$[({]|^%\w+%$|^%[sd]|%\(|^[<{\[].*[>}\]]$|\{\{|\w[(\[].*|^https?:"
)
"""Placeholders for secrets: examples, variables of a shell or a template, calls, addresses."""
_REFERENCE: Final = re.compile(
    r"(?:self|this|process|os|env|config|settings|args|options|request|req|params|user|data|form|body|ctx|app|vault)\.\w"
    r"|(?:~|\.{1,2})?/[\w.@-]+(?:/[\w.@-]*)*$|[A-Za-z]:\\\\?\w"
)
"""A variable of a program, or a path: PWD=/home/anna."""
_WORDS: Final = re.compile(r"(?:[A-Za-z]{1,14}|[0-9]{1,4}|\w{1,3})(?:[-_./](?:[A-Za-z]{1,14}|[0-9]{1,4}|\w{1,3}))+")
"""Words with hyphens are a name, not a key: team-backup-2024."""
_WORD_AND_DIGIT: Final = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9!#&+=?@^~])")

_PARTICIPLE: Final = re.compile(r"[A-Za-z0-9]+-[a-z]+")


class Secret(NamedTuple):
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    hints: tuple[str, ...]
    """One of them is in every text with such a secret; one in lower case in any case.

    `^` before a hint: no letter precedes it. `=` after it: a long value is assigned. `@`: a name and a colon follow.
    """
    pattern: re.Pattern[str]
    """The group `secret`, or the whole match, is the secret."""
    accepts: Callable[[str], bool] = lambda secret: True


def _random(secret: str) -> bool:
    if _entropy(secret) < _ENTROPY_BITS or _WORDS.fullmatch(secret):
        return False
    return _WORD_AND_DIGIT.match(secret) is not None


def _assigned(secret: str) -> bool:
    """A password that a person chose, or a key: with a letter and a digit or sign, and not the name of something."""
    if _PLACEHOLDER.search(secret) or _REFERENCE.match(secret):
        return False
    return _WORD_AND_DIGIT.match(secret) is not None


def _assigned_key(secret: str) -> bool:
    return _assigned(secret) and _random(secret)


def _in_prose(secret: str) -> bool:
    """In a sentence rather than an assignment: "the password is ..."; but not: "the password is base64-encoded"."""
    return _assigned(secret) and not _PARTICIPLE.fullmatch(secret)


def _in_address(secret: str) -> bool:
    return _PLACEHOLDER.search(secret) is None


def _kind(name: str, hints: str, pattern: str, accepts: Callable[[str], bool] | None = None) -> _Kind:
    compiled = re.compile(pattern)
    return (
        _Kind(name, tuple(hints.split()), compiled, accepts) if accepts else _Kind(name, tuple(hints.split()), compiled)
    )


_END: Final = r"(?![A-Za-z0-9_-])"
_BEGIN: Final = r"(?<![A-Za-z0-9])"
_NAME: Final = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:"
"""githubToken and GITHUB_TOKEN, but not `subtoken`."""
_ACCESS_WORD: Final = r"(?i:passwords?|passwd|passwort|kennwort|passphrase)"
"""Also at the end of a longer word: PGPASSWORD, Datenbankpasswort."""
_PIN: Final = r"(?<![A-Za-z])(?:PIN|Pin|pin(?=[- ]?(?:code|number)))(?:[- ]?(?i:code|nummer|number))?"
"""Not the pin of a chip, in lower case."""
_ABOUT: Final = r"(?i:(?: (?:for|of|to|für|vom|von|des|der|zum|im|am)(?: [\w.-]{1,40}){1,4})?)"
"""The password for the guest network is ..."""
_P_OR_K: Final = r"(?=[KPkp\u212a])"
"""The first letter of an access word or a PIN: most positions are passed over at once."""
_IS: Final = r"[\"']?\s{0,3}(?:=|:|=>|:=)\s{0,3}"
_VALUE: Final = r"(?:\"(?P<a>[^\"\s]{N,200})\"|'(?P<b>[^'\s]{N,200})'|(?P<c>[^\s\"'`,;]{N,200}))"

KINDS: Final = (
    _kind("private key", "PRIVATE", r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----(?:(?:(?!-----)[\s\S]){20,8000}+-----END [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----|[\sA-Za-z0-9+/=\\]{20,8000}+)"),
    _kind("age key", "AGE-SECRET-KEY-1", rf"{_BEGIN}AGE-SECRET-KEY-1[0-9A-Z]{{50,60}}{_END}"),
    _kind("aws access key", "^AKIA ^ASIA", rf"{_BEGIN}(?:AKIA|ASIA)[0-9A-Z]{{16}}{_END}", lambda secret: "EXAMPLE" not in secret),
    _kind("aws secret key", "aws", r"(?i:aws[_a-z .-]{0,30}(?:secret|key)[_a-z .-]{0,20})[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])", _random),
    _kind("github token", "^ghp_ ^gho_ ^ghu_ ^ghs_ ^ghr_ ^github_pat_", rf"{_BEGIN}(?:gh[pousr]_[A-Za-z0-9]{{36,255}}|github_pat_[A-Za-z0-9_]{{22,255}}){_END}", _random),
    _kind("gitlab token", "^glpat-", rf"{_BEGIN}glpat-{_B64}{{20,60}}{_END}", _random),
    _kind("slack token", "^xox", rf"{_BEGIN}xox[abeoprs]-[A-Za-z0-9-]{{10,250}}{_END}", _random),
    _kind("slack webhook", "hooks.slack.com", r"https://hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9/]{20,120})", _random),
    _kind("anthropic key", "^sk-ant-", rf"{_BEGIN}sk-ant-{_B64}{{20,200}}{_END}", _random),
    _kind("openai key", "^sk-", rf"{_BEGIN}sk-(?!ant-)(?:proj-|svcacct-)?{_B64}{{20,200}}{_END}", _random),
    _kind("stripe key", "^sk_live_ ^sk_test_ ^rk_live_ ^rk_test_ ^whsec_", rf"{_BEGIN}(?:[rs]k_(?:live|test)_|whsec_)[A-Za-z0-9]{{16,200}}{_END}", _random),
    _kind("google api key", "^AIza", rf"{_BEGIN}AIza{_B64}{{35}}{_END}", _random),
    _kind("google oauth secret", "^GOCSPX-", rf"{_BEGIN}GOCSPX-{_B64}{{20,40}}{_END}", _random),
    _kind("hugging face token", "^hf_", rf"{_BEGIN}hf_[A-Za-z0-9]{{30,60}}{_END}", _random),
    _kind("npm token", "^npm_", rf"{_BEGIN}npm_[A-Za-z0-9]{{36}}{_END}", _random),
    _kind("pypi token", "^pypi-", rf"{_BEGIN}pypi-{_B64}{{50,300}}{_END}", _random),
    _kind("sendgrid key", "^SG.", rf"{_BEGIN}SG\.{_B64}{{16,32}}\.{_B64}{{16,64}}{_END}", _random),
    _kind("twilio key", "^SK", rf"{_BEGIN}SK[0-9a-f]{{32}}{_END}", _random),
    _kind("telegram token", ":AA", rf"{_BEGIN}[0-9]{{8,10}}:AA{_B64}{{33}}{_END}", _random),
    _kind("digitalocean token", "^dop_v1_ ^doo_v1_", rf"{_BEGIN}do[op]_v1_[a-f0-9]{{64}}{_END}", _random),
    _kind("azure storage key", "accountkey=", r"(?i:AccountKey)=(?P<secret>[A-Za-z0-9+/]{80,100}={0,2})", _random),
    _kind("json web token", ".eyJ", rf"{_BEGIN}eyJ{_B64}{{10,2000}}\.eyJ{_B64}{{10,4000}}\.{_B64}{{10,2000}}{_END}", _random),
    _kind("authorization header", "authorization", r"(?i:authorization)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?i:bearer|basic|token)\s{1,3}(?P<secret>[A-Za-z0-9._~+/=-]{16,2000})", _random),
    _kind("password in an address", "://@", r"(?i:[a-z][a-z0-9+.-]{1,20})://[^\s:/@?#\"'<>]{0,100}:(?P<secret>[^\s:/@?#\"'<>]{3,200})@(?=[A-Za-z0-9\[])", _in_address),
    _kind("password", "passw pwd passphrase kennwort", rf"{_P_OR_K}(?:{_ACCESS_WORD}|{_NAME}pwd)){_IS}{_VALUE.replace('N', '6')}", _assigned),
    _kind("password", "passw passphrase kennwort", rf"{_ACCESS_WORD}{_ABOUT}(?i:(?: (?:is|was|ist|war|lautet)(?: now| jetzt)?:?|:)) (?P<secret>[^\s\"'`,;]{{6,60}}?)(?=[.,;:!?)]{{0,2}}(?:\s|$))", _in_prose),
    _kind("pin", "^pin passw passphrase kennwort", rf"{_P_OR_K}(?:{_PIN}|{_ACCESS_WORD}){_ABOUT}(?:{_IS}[\"']?|(?i: (?:is|was|ist|war|lautet)(?: now| jetzt)?:? ))(?P<secret>\d{{4,12}})(?![\w%-]|[.,:/]\d)"),
    _kind("password", "curl wget", r"(?:curl|wget)\b[^\n]{0,200}? (?:-u|--user)[ =][\"']?[^\s:\"']{1,60}:(?P<secret>[^\s\"']{3,100})", _in_address),
    _kind("key or token", "key= token= secret= credential=", rf"(?=[ABCPRSTabcprst\u017f]){_NAME}(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|auth[_-]?key|(?:access|auth|api|refresh|bearer|session)[_-]?token|token|client[_-]?secret|secret|credentials?)){_IS}{_VALUE.replace('N', '16')}", _assigned_key),
)  # fmt: skip

_HINTS: Final = tuple(dict.fromkeys(hint for kind in KINDS for hint in kind.hints))
_CASELESS: Final = {"\u0130": "i", "\u0131": "i", "\u017f": "s", "\u212a": "k"}
"""Letters that patterns take for ASCII ones in any case."""


@cache
def _scanner() -> tuple[Hints, tuple[tuple[_Kind, int], ...]]:
    """The hints of all kinds, and each kind with the bits of its hints."""
    from fourfold.native.texts import Hints

    bits = {hint: 1 << place for place, hint in enumerate(_HINTS)}
    return Hints([_hint(hint) for hint in _HINTS]), tuple(
        (kind, sum(bits[hint] for hint in kind.hints)) for kind in KINDS
    )


def _hint(written: str) -> Hint:
    from fourfold.native.texts import Condition, Hint

    letters = written.removeprefix("^").rstrip("=@")
    conditions = Condition(0) if letters.islower() else Condition.EXACT
    if written.startswith("^"):
        conditions |= Condition.STARTS
    if written.endswith("="):
        conditions |= Condition.ASSIGNED
    if written.endswith("@"):
        conditions |= Condition.ADDRESS
    return Hint(letters, conditions)


def _hinted(texts: Sequence[str]) -> list[int]:
    """The bits of the hints in each text."""
    plain = [text if text.isascii() and "\0" not in text else _plain(text) for text in texts]
    return _scanner()[0].find(plain)


def _plain(text: str) -> str:
    """Also with the letters that patterns may take for others: `(?i:k)` matches the Kelvin sign, `[A-Za-z]` does not."""
    replaced = text.replace("\0", "\1")
    for letter in filter(text.__contains__, _CASELESS):
        replaced = replaced.replace(letter, _CASELESS[letter])
    return text if replaced == text else f"{text}\n{replaced}".replace("\0", "\1")


def may_hold_secrets(texts: Sequence[str]) -> list[bool]:
    """Whether each text contains a hint, which every secret has; most texts do not."""
    return list(map(bool, _hinted(texts)))


def possible_kinds(text: str) -> list[_Kind]:
    """The kinds of which a text contains a hint."""
    (hinted,) = _hinted([text])
    return _kinds_of(hinted)


def _kinds_of(hinted: int) -> list[_Kind]:
    return [kind for kind, bits in _scanner()[1] if hinted & bits] if hinted else []


def secrets_in(text: str) -> list[Secret]:
    """What looks like a secret, in the order of the text, without overlaps."""
    return _secrets_of(possible_kinds(text), text)


def _secrets_of(kinds: Sequence[_Kind], text: str) -> list[Secret]:
    secrets = [Secret(kind.name, *span) for kind in kinds for span in _spans(kind, text)]
    kept: list[Secret] = []
    for secret in sorted(secrets, key=lambda one: (one.start, -one.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return kept


def masked(text: str) -> str:
    """The text with a mark in the place of each secret."""
    return _masked(text, secrets_in(text))


def masked_each(texts: Sequence[str]) -> list[str]:
    """Several texts, masked; their hints are looked for together."""
    return [_masked(text, _secrets_of(_kinds_of(bits), text)) for text, bits in zip(texts, _hinted(texts), strict=True)]


def _masked(text: str, secrets: Sequence[Secret]) -> str:
    for secret in reversed(secrets):
        text = f"{text[: secret.start]}{MARK}{secret.kind}]{text[secret.end :]}"
    return text


def masked_parts(parts: Sequence[str]) -> list[str]:
    """Consecutive parts of one text, masked. A private key may begin in one of them and end in another."""
    if not any(_PRIVATE_KEY in part for part in parts):
        return [masked(part) for part in parts]
    secrets = secrets_in("\n".join(parts))
    hidden: list[str] = []
    start = 0
    for part in parts:
        end = start + len(part)
        here = [secret for secret in secrets if secret.start < end and secret.end > start]
        for kind, first, last in reversed(here):
            part = f"{part[: max(0, first - start)]}{MARK}{kind}]{part[last - start :]}"
        hidden.append(part)
        start = end + 1
    return hidden


def masked_json(value: Json) -> Json:
    """A JSON value with masked strings; a value under a key that names a password or key is read with it."""
    match value:
        case str():
            return masked(value)
        case dict():
            members = cast("dict[str, Json]", value)
            return {masked(name): _member(name, member) for name, member in members.items()}
        case list():
            return [masked_json(member) for member in cast("list[Json]", value)]
        case _:
            return value


def masks_in(text: str) -> list[str]:
    """The kinds of the secrets that were masked in a text."""
    return [match[1] for match in _MARKED.finditer(text)] if MARK in text else []


def _member(name: str, value: Json) -> Json:
    if isinstance(value, list):
        return [_member(name, member) for member in cast("list[Json]", value)]
    if not isinstance(value, str):
        return masked_json(value)
    prefix = f"{name} = "
    with_name = masked(prefix + value)
    return with_name.removeprefix(prefix) if with_name.startswith(prefix) else masked(value)


def _spans(kind: _Kind, text: str) -> Iterator[tuple[int, int]]:
    for match in kind.pattern.finditer(text):
        named = match.groupdict()
        group = next((name for name in ("secret", "a", "b", "c") if named.get(name) is not None), 0)
        secret = match[group]
        if not secret.startswith(MARK.strip()) and kind.accepts(secret):
            yield match.span(group)


def _entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)

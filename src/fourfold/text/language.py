"""Language detection: a linear model over parts of words, evaluated in C. `training/languages.py` makes its weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

if TYPE_CHECKING:
    from fourfold.native.bindings import LanguageTable

_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk "
    "sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi "
    "yo za zh zu "
)
CODES = frozenset(_ISO_639_1.split())
"""Valid languages of items."""

_FILE = Path(__file__).with_name("languages.bin")
_READ_CHARACTERS = 300
"""Length of the beginning of a text that decides its language; the model reads as many bytes."""

_UNITS_PER_NAT = 32
"""Scores are logarithms of probabilities times this."""
_KNOWN_LEAD = 3 * _UNITS_PER_NAT
"""Advantage of languages that a store contains."""
_CERTAIN_LEAD = 3 * _UNITS_PER_NAT
"""Lead over the second language from which a judgement is certain."""


def detect(text: str, known: Collection[str] = ()) -> str:
    """Return the language of a text as ISO 639-1 code; `known` languages are preferred in a close decision."""
    return _judged(text[:_READ_CHARACTERS], tuple(known))[0]


def detect_many(texts: Sequence[str]) -> list[str]:
    """Return `detect(text)` for each text."""
    return [language for language, _ in _judge(texts, ())]


def certain_language(text: str) -> str | None:
    """The language of a query; None if that is uncertain, as for names and numbers."""
    language, lead = _judged(text[:_READ_CHARACTERS], ())
    return language if lead >= _CERTAIN_LEAD else None


@lru_cache(64)
def _judged(text: str, known: tuple[str, ...]) -> tuple[str, int]:
    """The language of one text and its lead; cached, because a search asks several times."""
    return _judge([text], known)[0]


def _judge(texts: Sequence[str], known: Collection[str]) -> list[tuple[str, int]]:
    languages, priors, table = _model()
    if known:
        priors = [p + _KNOWN_LEAD if name in known else p for name, p in zip(languages, priors, strict=True)]
    beginnings = [text[:_READ_CHARACTERS].lower().replace("\0", " ") for text in texts]
    return [(languages[number], lead) for number, lead in table.best(beginnings, priors)]


class _Model(NamedTuple):
    languages: Sequence[str]
    priors: Sequence[int]
    table: LanguageTable


@cache
def _model() -> _Model:
    """Read the file: a line with a checksum and the languages, their priors, and the table of weights."""
    from fourfold.native.bindings import LanguageTable

    try:
        header, _, body = _FILE.read_bytes().partition(b"\n")
        checksum, *languages = header.decode("ascii").split()
        if int(checksum, 16) != crc32(body):
            raise ValueError("its checksum does not match")
        priors = memoryview(body)[: len(languages)].cast("b").tolist()
        return _Model(languages, priors, LanguageTable(body[len(languages) :]))
    except (OSError, ValueError) as error:
        raise ImportError(f"cannot read {_FILE.name} of Fourfold ({error}); reinstall the package") from error

"""Which language a text is in: a vote of its common words, and a statistical model only where that leaves doubt."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol

from fourfold.text.fold import words
from fourfold.text.stopwords import LANGUAGES, languages_of_stop_words

if TYPE_CHECKING:
    from fourfold.native.votes import Ballots

_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk "
    "sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi "
    "yo za zh zu "
)
CODES = frozenset(_ISO_639_1.split())
"""What the language of an item may be."""

DEFAULT = "en"
_EXPECTED = ("en", "de")
"""Languages that need no more than a hint; the others have to show more than a name or two."""

_VOTERS = 400
"""Characters whose words vote."""

_UNLIKELY = 0.6
"""What a vote for a language is worth that is not expected."""
_CLEARLY = 1.5
_HINT, _PROOF = 0.5, 0.9
"""Votes that an expected language has to have, and another one."""
_A_VOTE = math.lcm(*range(1, len(LANGUAGES) + 1))
"""In whole parts, however many languages share it."""
_COUNTS = struct.Struct(f"<{len(LANGUAGES)}I")

_MODEL_READS = 300
_MODEL_NEEDS = 40
"""Letters below which the model only guesses."""

_MODEL_SURE = 0.95
_MODEL_LANGUAGES = (
    "ar bg ca cs da de el en es et eu fa fi fr ga he hi hr hu hy id it ja ko lt lv ne nl no pl pt ro ru sk sl sr sv "
    "ta th tr uk vi zh"
)

_SIGNS = {
    "en": """about add another answer ask back best better between born call called change check class code create day
        days def different else end error false file find first function get give go good import is issue keep
        know known last life like list long look made make many month name need never new next null number often
        old open part people please print problem project read remember remove return run say see self set show
        start still stop thing things think time today tomorrow true try two use used using value want way week
        well work world write year years yesterday""",
    "de": """abend abends abholen anfang anruf anrufen antwort arbeit arbeiten aufgabe bald bedeutet beispiel besser
        bezahlen bild bitte brauche braucht bringen buch danke datei dezember dienstag donnerstag drei eigentlich
        einfach einmal erste ersten februar fehler finde finden findet frage fragen frau freitag früh ganz
        geburtstag gehen geht gerade gern gestern groß heißt herr heute immer jahr jahre jahren januar juli juni
        kaufen keine klein kommen kommt kosten kostet lange letzte letzten leute liegt liste machen macht manchmal
        meine meist mittag mittwoch monat montag morgen morgens märz müsste neue neuen neuer neues nie nochmal
        nächste nächsten nächster oft oktober preis rechnung sagen sagt samstag schnell schreiben seite sonntag
        spielt später stadt statt steht straße stunde stunden tage tagen teil termin treffen uhr urlaub vertrag
        verwenden viel viele vielen vielleicht welt wichtig woche wochen wohnung zeit zuerst zusammen zwei
        änderung""",
}
"""Common words of notes and code, which are often too short for stop words."""

_GERMAN_PARTS = """
    en$ ung sch eit ich che ten cht gen hen ^be nde nge ^ge ver ^ve ier isc aus he$ ein lic ^er rei nen ^au ige run bei
    ste ert ^ei te$ rbe ges auf eru eis ngs hei erk tun ekt geb ren eic kti wei ^zu bes zei rte tig ege ere tli ^ko zie
"""
_ENGLISH_PARTS = """
    ed$ ic$ ^co ly$ ted ing al$ on$ ^ca con tic cti ect cal es$ ica an$ ty$ ry$ ati nce tin act ity com ion ia$ ^su lly
    rs$ enc tio ce$ ain cat ous mic ns$ ate in$ ^cr ici ve$ na$ ^de lat ^sh ts$ ian ove ^ma nin ^cl cul res cro nt$ ^ch
"""
"""The three letters (^ starts a word, $ ends it) that most tell German words from English ones, and the other way."""

_PARTS: Mapping[str, int] = {
    **dict.fromkeys(_GERMAN_PARTS.split(), 1),
    **dict.fromkeys(_ENGLISH_PARTS.split(), -1),
}
_LOOKS_GERMAN = 3
_UMLAUTS = frozenset("äöüßÄÖÜ")
_OTHER_SCRIPT = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u2e80-\u2fff\u3040-\ud7ff\uf900-\ufdff\U00020000-\U0003ffff]")


def detect(text: str, known: Collection[str] = ()) -> str:
    """The language of a text as ISO 639-1. `known` are languages it is likely to be in; they win where it is close."""
    votes = _votes(text[:_VOTERS], known or _EXPECTED)
    return _winner(votes) or _by_model(text[:_MODEL_READS]) or _by_look(text[:_VOTERS], votes, known)


def detect_many(texts: Sequence[str]) -> list[str]:
    """The language of each text, as `detect` has it; the votes of those in ASCII are counted together."""
    plain = [place for place, text in enumerate(texts) if text[:_VOTERS].isascii() and "\0" not in text]
    found: list[str | None] = [None] * len(texts)
    winners = _winners([texts[place][:_VOTERS] for place in plain])
    for place, winner in zip(plain, winners, strict=True):
        found[place] = winner
    return [found[place] or detect(text) for place, text in enumerate(texts)]


def guess(text: str, known: Collection[str] = ()) -> str:
    """As `detect`, but never waits for the model to load: for queries, where only the stop words hang on it."""
    votes = _votes(text[:_VOTERS], known or _EXPECTED)
    return _winner(votes) or _by_look(text[:_VOTERS], votes, known)


def _votes(text: str, likely: Collection[str]) -> dict[str, float]:
    """Each distinct common word votes for its languages; one that several languages share is worth less to each."""
    ballots = _ballots()
    cast = sum(map(ballots.__getitem__, ballots.keys() & _spelled(text)))
    counts = zip(LANGUAGES, _COUNTS.unpack(cast.to_bytes(_COUNTS.size, "little")), strict=True)
    return {
        language: count / _A_VOTE if language in likely else _UNLIKELY * (count / _A_VOTE)
        for language, count in counts
        if count
    }


@cache
def _ballots() -> Mapping[str, int]:
    """What each common word gives to all languages, in one number, so that a text's are added up at once."""
    return {word: int.from_bytes(_COUNTS.pack(*given), "little") for word, given in _given().items()}


@cache
def _counter() -> Ballots:
    from fourfold.native.votes import Ballots

    return Ballots(_given())


def _given() -> dict[str, list[int]]:
    """What each common word gives to each language."""
    return {
        word: [_A_VOTE // len(languages) if language in languages else 0 for language in LANGUAGES]
        for word, languages in _voters().items()
    }


def _spelled(text: str) -> list[str]:
    """The words of a text; in a long one those that stand between spaces are enough, and had for a fifth."""
    if text.isupper():
        text = text.lower()
    return words(text) if len(text) < _VOTERS // 2 else text.split()


@cache
def _voters() -> Mapping[str, tuple[str, ...]]:
    """Common words with their languages, also capitalised; in capitals they are mostly something else (IT, ER)."""
    signs = {word: (language,) for language, listed in _SIGNS.items() for word in listed.split()}
    telling = {word: found for word, found in languages_of_stop_words().items() if len(word) > 1 or not word.isascii()}
    lower = telling | signs
    return {word.capitalize(): found for word, found in lower.items()} | lower


def _winner(votes: Mapping[str, float]) -> str | None:
    """The language with clearly more votes than any other."""
    most, second, *_ = [*sorted(votes.values(), reverse=True), 0.0, 0.0]
    if not most or most < _CLEARLY * second:
        return None
    best = next(language for language, count in votes.items() if count == most)
    return best if most >= (_HINT if best in _EXPECTED else _PROOF) else None


def _winners(texts: Sequence[str]) -> list[str | None]:
    """The same of many texts in ASCII."""
    import numpy as np

    weights = np.array([1.0 if language in _EXPECTED else _UNLIKELY for language in LANGUAGES])
    enough = np.array([_HINT if language in _EXPECTED else _PROOF for language in LANGUAGES])
    votes = _counter().count(texts) / _A_VOTE * weights
    best, ranked = votes.argmax(axis=1), np.sort(votes, axis=1)
    won = (ranked[:, -1] >= enough[best]) & (ranked[:, -1] >= _CLEARLY * ranked[:, -2])
    return [LANGUAGES[place] if sure else None for place, sure in zip(best.tolist(), won.tolist(), strict=True)]


def _by_model(text: str) -> str | None:
    foreign = _OTHER_SCRIPT.search(text) is not None
    if not foreign and sum(map(str.isalpha, text)) < _MODEL_NEEDS:
        return None
    language, probability = _model().classify(text.encode("utf-8", "replace").decode())
    return language if foreign or probability >= _MODEL_SURE else None


def _by_look(text: str, votes: Mapping[str, float], known: Collection[str]) -> str:
    """German if it looks like it, else English; a text that says nothing is in a language that is there already."""
    spelled = "".join(map("^{}$".format, words(text.lower())))  # no part has a word's end before another's start
    looks = sum(map(_PARTS.get, map("".join, zip(spelled, spelled[1:], spelled[2:], strict=False)), repeat(0)))
    if votes.get("de", 0.0) > votes.get("en", 0.0) or looks >= _LOOKS_GERMAN or not _UMLAUTS.isdisjoint(text):
        return "de"
    return DEFAULT if not known or DEFAULT in known else min(known)


def is_ready() -> bool:
    """Whether the model is loaded, which takes half a second once."""
    return bool(_model.cache_info().currsize)


class _Model(Protocol):
    def classify(self, instance: str) -> tuple[str, float]: ...


@cache
def _model() -> _Model:
    langid: Any = import_module("py3langid.langid")
    model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    model.set_languages(_MODEL_LANGUAGES.split())
    return model

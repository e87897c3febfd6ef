"""Which language a text is in: a vote of its common words, and a statistical model only where that leaves doubt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from fourfold.text.fold import words
from fourfold.text.stopwords import languages_of_stop_words

DEFAULT = "en"
_EXPECTED = ("en", "de")
"""Languages that need no more than a hint; the others have to show more than a name or two."""

_VOTERS = 400
"""Characters whose words vote."""

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


def guess(text: str, known: Collection[str] = ()) -> str:
    """As `detect`, but never waits for the model to load: for queries, where only the stop words hang on it."""
    votes = _votes(text[:_VOTERS], known or _EXPECTED)
    return _winner(votes) or _by_look(text[:_VOTERS], votes, known)


def _votes(text: str, likely: Collection[str]) -> dict[str, float]:
    """Each distinct common word votes for its languages; one that several languages share is worth less to each."""
    voters, votes = _voters(), dict[str, float]()
    for languages, words_of_these in Counter(map(voters.get, voters.keys() & _spelled(text))).items():
        for language in languages or ():
            votes[language] = votes.get(language, 0.0) + words_of_these / len(languages or ())
    return {language: count if language in likely else 0.6 * count for language, count in votes.items()}


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
    ranked = sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))
    (best, most), (_, second) = [*ranked, ("", 0.0), ("", 0.0)][:2]
    enough = 0.5 if best in _EXPECTED else 0.9
    return best if most >= enough and most >= 1.5 * second else None


def _by_model(text: str) -> str | None:
    foreign = _OTHER_SCRIPT.search(text) is not None
    if not foreign and sum(map(str.isalpha, text)) < _MODEL_NEEDS:
        return None
    language, probability = _model().classify(text.encode("utf-8", "replace").decode())
    return language if foreign or probability >= _MODEL_SURE else None


def _by_look(text: str, votes: Mapping[str, float], known: Collection[str]) -> str:
    """German if it looks like it, else English; a text that says nothing is in a language that is there already."""
    spelled = map("^{}$".format, words(text.lower()))
    looks = sum(_PARTS.get(word[i : i + 3], 0) for word in spelled for i in range(len(word) - 2))
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

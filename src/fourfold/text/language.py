"""Language detection: common words vote, and a statistical model decides if the vote is unclear."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import repeat
from typing import TYPE_CHECKING

from fourfold.text.fold import words
from fourfold.text.stopwords import LANGUAGES, languages_of_stop_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fourfold.native.text import Ballots
    from fourfold.text.language_model import LanguageModel

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

DEFAULT = "en"
_EXPECTED = ("en", "de")
"""Languages that need fewer votes than others."""

_VOTE_CHARACTERS = 400
"""Length of the beginning of a text whose words vote."""

_READ_CHARACTERS = 1600
"""Length of the beginning of a text that an encoder of 256 tokens reads at most."""

_PART_CHARACTERS = 200
"""Length of the parts of a text whose languages are weighed against each other."""

_UNEXPECTED_FACTOR = 0.6
"""Factor on the votes for a language that is not expected."""
_WINNING_MARGIN = 1.5
"""Factor by which the winner must exceed the second."""
_EXPECTED_VOTES, _OTHER_VOTES = 0.5, 0.9
"""Minimum votes for an expected language, and for any other."""
_VOTE_UNITS = math.lcm(*range(1, len(LANGUAGES) + 1))
"""Units of one vote, divisible by the number of languages that share it."""

_MODEL_CHARACTERS = 300
_MODEL_LETTERS = 40
"""Minimum number of letters for the model, which guesses below it."""

_MODEL_PROBABILITY = 0.95
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
"""Common words of notes and code, for texts that are too short to contain stop words."""

_GERMAN_PARTS = """
    en$ ung sch eit ich che ten cht gen hen ^be nde nge ^ge ver ^ve ier isc aus he$ ein lic ^er rei nen ^au ige run bei
    ste ert ^ei te$ rbe ges auf eru eis ngs hei erk tun ekt geb ren eic kti wei ^zu bes zei rte tig ege ere tli ^ko zie
"""
_ENGLISH_PARTS = """
    ed$ ic$ ^co ly$ ted ing al$ on$ ^ca con tic cti ect cal es$ ica an$ ty$ ry$ ati nce tin act ity com ion ia$ ^su lly
    rs$ enc tio ce$ ain cat ous mic ns$ ate in$ ^cr ici ve$ na$ ^de lat ^sh ts$ ian ove ^ma nin ^cl cul res cro nt$ ^ch
"""
"""Trigrams (^ starts a word, $ ends it) that best separate German and English words."""

_TRIGRAMS: Mapping[str, int] = {
    **dict.fromkeys(_GERMAN_PARTS.split(), 1),
    **dict.fromkeys(_ENGLISH_PARTS.split(), -1),
}
_GERMAN_TRIGRAMS = 3
"""Surplus of German trigrams from which a text counts as German."""
_LETTERS = 28
_LETTER_NUMBERS = bytes(
    ord(chr(byte).lower()) - 96 if chr(byte).isalpha() else 27 if chr(byte).isdigit() or byte == ord("_") else 0
    for byte in range(128)
).ljust(256, b"\0")
"""A letter as 1 to 26, another character of a word as 27, and what is between words as 0."""
_UMLAUTS = frozenset("äöüßÄÖÜ")
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())
_OTHER_SCRIPT = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u2e80-\u2fff\u3040-\ud7ff\uf900-\ufdff\U00020000-\U0003ffff]")


def detect(text: str, known: Collection[str] = ()) -> str:
    """Return the language of a text as ISO 639-1 code; `known` languages are preferred in a close vote."""
    votes = _votes(text[:_VOTE_CHARACTERS], known or _EXPECTED)
    return _winner(votes) or _by_model(text[:_MODEL_CHARACTERS]) or _by_look(text[:_VOTE_CHARACTERS], votes, known)


def detect_many(texts: Sequence[str]) -> list[str]:
    """Return `detect(text)` for each text; the votes of ASCII texts are counted together in C."""
    plain = [index for index, text in enumerate(texts) if text[:_VOTE_CHARACTERS].isascii() and "\0" not in text]
    found = dict(zip(plain, _detect_plain([texts[index] for index in plain]), strict=True))
    return [found[index] if index in found else detect(text) for index, text in enumerate(texts)]


@lru_cache(64)
def guess(text: str, known: tuple[str, ...] = ()) -> str:
    """Like `detect`, but without the model, which takes long to load: for queries, where it only selects stop words.

    Cached, because a search asks several times.
    """
    votes = _votes(text[:_VOTE_CHARACTERS], known or _EXPECTED)
    return _winner(votes) or _by_look(text[:_VOTE_CHARACTERS], votes, known)


def is_mostly_german(text: str) -> bool:
    """Whether the larger part of a text's beginning is German: what an encoder reads of it."""
    beginning = text[:_READ_CHARACTERS]
    parts = [beginning[start : start + _PART_CHARACTERS] for start in range(0, len(beginning), _PART_CHARACTERS)]
    german = sum(len(part) for part in parts if detect(part) == "de")
    return 2 * german > len(beginning)


@lru_cache(64)
def german_query(text: str) -> bool | None:
    """Whether a query is German; None if that is uncertain, as for names and numbers. Loads no model.

    Cached, because a search asks several times.
    """
    beginning = text[:_VOTE_CHARACTERS]
    winner = _winner(_votes(beginning, _EXPECTED))
    if winner is not None:
        return winner == "de"
    if _has_umlaut(beginning) or _german_surplus(beginning) >= _GERMAN_TRIGRAMS:
        return True
    return False if _OTHER_SCRIPT.search(beginning) else None


def _votes(text: str, likely: Collection[str]) -> dict[str, float]:
    """Votes by language. Each distinct common word has one vote, which the languages that have it share."""
    return {
        language: count / _VOTE_UNITS if language in likely else _UNEXPECTED_FACTOR * (count / _VOTE_UNITS)
        for language, count in _counted(text).items()
    }


@lru_cache(64)
def _counted(text: str) -> Mapping[str, int]:
    """Vote units by language; cached, because `guess` and `german_query` are asked for the same query."""
    common = _common_words()
    units: dict[str, int] = {}
    for word in common.keys() & _spelled(text):
        languages = common[word]
        share = _VOTE_UNITS // len(languages)
        for language in languages:
            units[language] = units.get(language, 0) + share
    return units


@cache
def _counter() -> Ballots:
    from fourfold.native.text import Ballots

    return Ballots(_vote_units())


def _vote_units() -> dict[str, list[int]]:
    """Vote units of each common word for each language."""
    return {
        word: [_VOTE_UNITS // len(languages) if language in languages else 0 for language in LANGUAGES]
        for word, languages in _common_words().items()
    }


def _spelled(text: str) -> list[str]:
    """The words of a text. A long text is split at spaces, which is five times faster and finds enough words."""
    if text.isupper():
        text = text.lower()
    return words(text) if len(text) < _VOTE_CHARACTERS // 2 else text.split()


@cache
def _common_words() -> Mapping[str, tuple[str, ...]]:
    """Common words with their languages, also capitalised; in capitals they are mostly acronyms (IT, ER)."""
    signs = {word: (language,) for language, listed in _SIGNS.items() for word in listed.split()}
    stops = {word: found for word, found in languages_of_stop_words().items() if len(word) > 1 or not word.isascii()}
    lower = stops | signs
    return {word.capitalize(): found for word, found in lower.items()} | lower


def _winner(votes: Mapping[str, float]) -> str | None:
    """The language with clearly more votes than any other; None if there is none."""
    if not votes:
        return None
    best, *others = sorted(votes, key=votes.__getitem__, reverse=True)
    if others and votes[best] < _WINNING_MARGIN * votes[others[0]]:
        return None
    return best if votes[best] >= (_EXPECTED_VOTES if best in _EXPECTED else _OTHER_VOTES) else None


def _detect_plain(texts: Sequence[str]) -> list[str]:
    """The language of each text that begins in ASCII."""
    import numpy as np

    weights, enough = _vote_rules()
    votes = _counter().count([text[:_VOTE_CHARACTERS] for text in texts]) / _VOTE_UNITS * weights
    best, ranked = votes.argmax(axis=1), np.sort(votes, axis=1)
    won = (ranked[:, -1] >= enough[best]) & (ranked[:, -1] >= _WINNING_MARGIN * ranked[:, -2])
    found: list[str] = [LANGUAGES[index] for index in best.tolist()]
    for index in np.flatnonzero(~won).tolist():
        text, cast = texts[index], dict(zip(LANGUAGES, votes[index].tolist(), strict=True))
        found[index] = _by_model(text[:_MODEL_CHARACTERS]) or _by_look(text[:_VOTE_CHARACTERS], cast, ())
    return found


@cache
def _vote_rules() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each language, the factor on its votes, and the votes that it needs."""
    import numpy as np

    weights = [1.0 if language in _EXPECTED else _UNEXPECTED_FACTOR for language in LANGUAGES]
    return np.array(weights), np.array([_EXPECTED_VOTES if each in _EXPECTED else _OTHER_VOTES for each in LANGUAGES])


def _by_model(text: str) -> str | None:
    foreign = not text.isascii() and _OTHER_SCRIPT.search(text) is not None
    if not foreign and _letters(text) < _MODEL_LETTERS:
        return None
    language, probability = _model().classify(text.encode("utf-8", "replace").decode())
    return language if foreign or probability >= _MODEL_PROBABILITY else None


def _letters(text: str) -> int:
    """The number of letters in a text."""
    return len(text.encode().translate(None, _NO_LETTERS)) if text.isascii() else sum(map(str.isalpha, text))


def _by_look(text: str, votes: Mapping[str, float], known: Collection[str]) -> str:
    """German if the votes, trigrams or umlauts suggest it, else English or the first of the `known` languages."""
    more_votes = votes.get("de", 0.0) > votes.get("en", 0.0)
    if more_votes or _german_surplus(text) >= _GERMAN_TRIGRAMS or _has_umlaut(text):
        return "de"
    return DEFAULT if not known or DEFAULT in known else min(known)


def _has_umlaut(text: str) -> bool:
    return not text.isascii() and not _UMLAUTS.isdisjoint(text)


@lru_cache(64)
def _german_surplus(text: str) -> int:
    """The number of German trigrams minus that of English ones; cached like `_counted`."""
    if len(text) >= _VOTE_CHARACTERS // 2 and text.isascii():
        return _long_surplus(text)
    spelled = "".join(map("^{}$".format, words(text.lower())))  # no trigram contains "$^", so none spans two words
    trigrams = map("".join, zip(spelled, spelled[1:], spelled[2:], strict=False))
    return sum(map(_TRIGRAMS.get, trigrams, repeat(0)))


def _long_surplus(text: str) -> int:
    """The same for a long ASCII text, with numpy: it takes longer to begin, and a tenth of the time for each word."""
    import numpy as np

    letters = np.frombuffer(f" {text} ".encode().translate(_LETTER_NUMBERS), np.uint8)
    numbers = letters[:-2] * np.uint16(_LETTERS**2) + letters[1:-1] * np.uint16(_LETTERS) + letters[2:]
    return int(_numbered_trigrams()[numbers].sum())


@cache
def _numbered_trigrams() -> NDArray[np.int64]:
    import numpy as np

    found = np.zeros(_LETTERS**3, np.int64)
    for trigram, vote in _TRIGRAMS.items():
        first, second, third = trigram.replace("^", " ").replace("$", " ").encode().translate(_LETTER_NUMBERS)
        found[(first * _LETTERS + second) * _LETTERS + third] = vote
    return found


@cache
def _model() -> LanguageModel:
    from fourfold.text.language_model import LanguageModel

    return LanguageModel(_MODEL_LANGUAGES.split())

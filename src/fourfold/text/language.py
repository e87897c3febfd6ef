"""Language detection, stems and stop words.

A linear model over parts of words, evaluated in C, detects languages; `training/languages.py` makes its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from zlib import crc32

from fourfold.text.fold import expand_umlauts, fold, strip_marks, word_lists

if TYPE_CHECKING:
    from fourfold.native.texts import LanguageTable

CODES = frozenset(word_lists()["language_codes"].split())
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
    languages, _, table = _model()
    beginnings = [text[:_READ_CHARACTERS].lower().replace("\0", " ") for text in texts]
    return [(languages[number], lead) for number, lead in table.best(beginnings, _priors(tuple(known)))]


@lru_cache(64)
def _priors(known: tuple[str, ...]) -> Any:
    """The score of each language before a word is read."""
    languages, priors, table = _model()
    return table.scores(p + _KNOWN_LEAD if name in known else p for name, p in zip(languages, priors, strict=True))


class _Model(NamedTuple):
    languages: Sequence[str]
    priors: Sequence[int]
    table: LanguageTable


@cache
def _model() -> _Model:
    """Read the file: a line with a checksum and the languages, their priors, and the table of weights."""
    from fourfold.native.texts import LanguageTable

    try:
        header, _, body = _FILE.read_bytes().partition(b"\n")
        checksum, *languages = header.decode("ascii").split()
        if int(checksum, 16) != crc32(body):
            raise ValueError("its checksum does not match")
        priors = memoryview(body)[: len(languages)].cast("b").tolist()
        return _Model(languages, priors, LanguageTable(body[len(languages) :]))
    except (OSError, ValueError) as error:
        raise ImportError(f"cannot read {_FILE.name} of Fourfold ({error}); reinstall the package") from error


# ---------------------------------------------------------------- stemming by snowball

_ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "nb": "norwegian", "ne": "nepali", "nl": "dutch", "nn": "norwegian",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "st": "sesotho", "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip

_WITHOUT_MARKS = ("de", "en")
"""Languages whose stemmers get words without diacritics; other stemmers may add some (Turkish finlandı)."""
_LOCK = Lock()
"""A Snowball stemmer has one buffer, so it is not thread-safe."""


def stem(word: str, language: str) -> str:
    """Return the stem of a caseless word, without diacritics; unsupported languages only lose the diacritics."""
    with _LOCK:
        return _stemmer(language)(word)


def stems(words: Sequence[str], language: str) -> Sequence[str]:
    """Return the stems of many words in lower-case ASCII letters."""
    if language not in _ALGORITHMS:
        return words
    with _LOCK:
        stemmed: list[str] = _snowball(language).stemWords(words)
    return stemmed if language in _WITHOUT_MARKS else [strip_marks(each) for each in stemmed]


@cache
def _snowball(language: str) -> Any:
    return cast("Any", import_module("Stemmer")).Stemmer(_ALGORITHMS[language], 0)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    if language not in _ALGORITHMS:
        return strip_marks
    algorithm: Callable[[str], str] = _snowball(language).stemWord
    # English also writes naïve as naive, German Café as Cafe; in other languages the stemmer needs the accents.
    if language == "de":
        return lambda word: algorithm(strip_marks(expand_umlauts(word)))
    if language == "en":
        return lambda word: algorithm(strip_marks(word))
    return lambda word: strip_marks(algorithm(word))


# ---------------------------------------------------------------- German verbs: läuft, lief and gelaufen for laufen

_HOMOGRAPHS = frozenset(
    (
        *("antrag", "auftrag", "ausschlag", "band", "ertrag", "gehalt", "gericht", "gewand", "mass", "schloss"),
        *("unterhalt", "verband", "verstand", "vertrag", "vorwand"),
    )
)
"""Stems of nouns that also are those of a verb's form with another meaning: verträgt is not a form of Vertrag."""
_PREFIXES = """
    ab an auf aus be bei da dar durch ein emp ent er fern fest fort frei gegen her heraus herein hervor hin hinaus
    hinein hinter hinzu los miss mit nach nieder statt teil ueber um unter ver vor voraus vorbei weg weiter wider
    wieder zer zu zurueck zusammen
"""

_WEAK_ENDINGS = ("en", "n", "e", "st", "t", "et", "te", "ten", "ete", "eten", "ung", "ungen")
_STRONG_ENDINGS = ("", "e", "en", "n", "st", "t", "et", "er", "es", "em")
_SHORTEST_ROOT = 3
_CACHED_WORDS = 10_000


@lru_cache(_CACHED_WORDS)
def verb_forms(word: str) -> frozenset[str]:
    """Return the index terms of other forms of the verb that a folded word may belong to.

    Most words are not verbs, and most of these terms are not words: use only terms that occur in the store.
    """
    own = stem(word, "de")
    if own in _HOMOGRAPHS and word != f"{own}en":
        return frozenset()
    families = ((prefix, family) for prefix, rest in _without_prefix(word) for family in _families(rest))
    return frozenset(term for prefix, family in families for term in _terms(prefix, family)) - _HOMOGRAPHS - {own}


def is_strong_verb(word: str) -> bool:
    """Whether a folded word is a form of a strong German verb."""
    return any(
        root in _strong_families() for _, rest in _without_prefix(word) for root in _roots(rest, _STRONG_ENDINGS)
    )


def _without_prefix(word: str) -> Iterator[tuple[str, str]]:
    """The word itself, then the rest after each prefix it may have, also without the zu of an infinitive."""
    yield "", word
    for prefix in _PREFIXES.split():
        if word.startswith(prefix):
            rest = word.removeprefix(prefix)
            yield prefix, rest
            if rest.startswith("zu"):
                yield prefix, rest.removeprefix("zu")


def _terms(prefix: str, forms: tuple[str, ...]) -> Iterator[str]:
    """Terms of ablaufen, läuft ab, abgelaufen and abzulaufen; of verlaufen and verlief."""
    for form in (*forms, f"zu{forms[0]}") if prefix else forms:
        yield stem(prefix + form, "de")


def _families(word: str) -> Iterator[tuple[str, ...]]:
    """The forms, infinitive first, of each verb that a word without prefix may be a form of."""
    strong = _strong_families()
    families = {strong[root] for root in _roots(word, _STRONG_ENDINGS) if root in strong}
    yield from families or map(_weak_family, _weak_roots(word))


@cache
def _strong_families() -> dict[str, tuple[str, ...]]:
    """Map each form of a strong verb to all its forms, with the participle also without ge, which prefixes replace."""
    families: dict[str, tuple[str, ...]] = {}
    for line in fold(word_lists()["strong_german_verbs"]).split(","):
        *forms, participle = line.split()
        family = (*forms, participle, participle.removeprefix("ge"))
        for form in (*family, family[0].removesuffix("en")):
            families.setdefault(form, family)
    return families


def _weak_roots(word: str) -> set[str]:
    """The word without the endings, and without the ge, that a weak verb may have."""
    roots = _roots(word, _WEAK_ENDINGS)
    participles = {root.removeprefix("ge") for root in roots if word.endswith("t") and root.startswith("ge")}
    return {root for root in roots | participles if len(root) >= _SHORTEST_ROOT}


def _roots(word: str, endings: tuple[str, ...]) -> set[str]:
    return {word.removesuffix(ending) for ending in endings if word.endswith(ending)}


def _weak_family(root: str) -> tuple[str, ...]:
    forms = (f"{root}en", f"{root}t", f"ge{root}t", f"{root}ung")
    if root.endswith(("er", "el")):
        return (*forms, f"{root}n")
    return (*forms, f"{root}et", f"ge{root}et") if root.endswith(("d", "t", "n", "m")) else forms


# ---------------------------------------------------------------- English verbs: ran and run, built and build


@lru_cache(_CACHED_WORDS)
def english_verb_forms(word: str) -> frozenset[str]:
    """Return the stems of other forms of the irregular verb that a folded word may belong to."""
    irregular = _irregular()
    return frozenset(form for name in (word, stem(word, "en")) for form in irregular.get(name, ())) - {stem(word, "en")}


@cache
def _irregular() -> dict[str, set[str]]:
    by_form: dict[str, set[str]] = {}
    for line in word_lists()["irregular_english_verbs"].split(","):
        forms = line.split()
        for form in forms:
            by_form.setdefault(form, set()).update(stem(each, "en") for each in forms)
    return by_form


# ---------------------------------------------------------------- stop words

_SAME = {"no": "nb", "nn": "nb"}
"""Languages that use the list of another one."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the folded stop words of a language; empty for a language without a list."""
    return frozenset(map(fold, word_lists("stopwords.txt").get(_SAME.get(language, language), "").split()))

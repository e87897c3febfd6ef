"""Language detection, stems and stop words.

A linear model over parts of words, evaluated in C, detects languages; `training/languages.py` makes its weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from zlib import crc32

from fourfold.text.fold import expand_umlauts, fold, strip_marks

if TYPE_CHECKING:
    from fourfold.native.texts import LanguageTable


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

_STRONG = """
    backen backt buk gebacken, befehlen befiehlt befahl befohlen, beginnen beginnt begann begonnen, beissen beisst
    biss gebissen, bergen birgt barg geborgen, bersten birst barst geborsten, bewegen bewegt bewog bewogen, biegen
    biegt bog gebogen, bieten bietet bot geboten, binden bindet band gebunden, bitten bittet bat gebeten, blasen bläst
    blies geblasen, bleiben bleibt blieb geblieben, braten brät briet gebraten, brechen bricht brach gebrochen,
    brennen brennt brannte gebrannt, bringen bringt brachte gebracht, denken denkt dachte gedacht, dringen dringt
    drang gedrungen, dürfen darf durfte gedurft, empfehlen empfiehlt empfahl empfohlen, erlöschen erlischt erlosch
    erloschen, erschrecken erschrickt erschrak erschrocken, essen isst ass gegessen, fahren fährt fuhr gefahren,
    fallen fällt fiel gefallen, fangen fängt fing gefangen, fechten ficht focht gefochten, finden findet fand
    gefunden, flechten flicht flocht geflochten, fliegen fliegt flog geflogen, fliehen flieht floh geflohen, fliessen
    fliesst floss geflossen, fressen frisst frass gefressen, frieren friert fror gefroren, gären gärt gor gegoren,
    gebären gebiert gebar geboren, geben gibt gab gegeben, gedeihen gedeiht gedieh gediehen, gehen geht ging gegangen,
    gelingen gelingt gelang gelungen, gelten gilt galt gegolten, genesen genest genas genesen, geniessen geniesst
    genoss genossen, geschehen geschieht geschah geschehen, gewinnen gewinnt gewann gewonnen, giessen giesst goss
    gegossen, gleichen gleicht glich geglichen, gleiten gleitet glitt geglitten, graben gräbt grub gegraben, greifen
    greift griff gegriffen, halten hält hielt gehalten, hängen hängt hing gehangen, hauen haut hieb gehauen, heben
    hebt hob gehoben, heissen heisst hiess geheissen, helfen hilft half geholfen, kennen kennt kannte gekannt, klingen
    klingt klang geklungen, kneifen kneift kniff gekniffen, kommen kommt kam gekommen, kriechen kriecht kroch
    gekrochen, laden lädt lud geladen, lassen lässt liess gelassen, laufen läuft lief gelaufen, leiden leidet litt
    gelitten, leihen leiht lieh geliehen, lesen liest las gelesen, liegen liegt lag gelegen, lügen lügt log gelogen,
    mahlen mahlt mahlte gemahlen, meiden meidet mied gemieden, melken melkt molk gemolken, messen misst mass gemessen,
    misslingen misslingt misslang misslungen, mögen mag mochte gemocht, nehmen nimmt nahm genommen, nennen nennt
    nannte genannt, pfeifen pfeift pfiff gepfiffen, preisen preist pries gepriesen, quellen quillt quoll gequollen,
    raten rät riet geraten, reiben reibt rieb gerieben, reissen reisst riss gerissen, reiten reitet ritt geritten,
    rennen rennt rannte gerannt, riechen riecht roch gerochen, ringen ringt rang gerungen, rinnen rinnt rann geronnen,
    rufen ruft rief gerufen, salzen salzt salzte gesalzen, saufen säuft soff gesoffen, saugen saugt sog gesogen,
    schaffen schafft schuf geschaffen, scheiden scheidet schied geschieden, scheinen scheint schien geschienen,
    schelten schilt schalt gescholten, scheren schert schor geschoren, schieben schiebt schob geschoben, schiessen
    schiesst schoss geschossen, schlafen schläft schlief geschlafen, schlagen schlägt schlug geschlagen, schleichen
    schleicht schlich geschlichen, schleifen schleift schliff geschliffen, schliessen schliesst schloss geschlossen,
    schlingen schlingt schlang geschlungen, schmeissen schmeisst schmiss geschmissen, schmelzen schmilzt schmolz
    geschmolzen, schneiden schneidet schnitt geschnitten, schreiben schreibt schrieb geschrieben, schreien schreit
    schrie geschrien, schreiten schreitet schritt geschritten, schweigen schweigt schwieg geschwiegen, schwellen
    schwillt schwoll geschwollen, schwimmen schwimmt schwamm geschwommen, schwinden schwindet schwand geschwunden,
    schwingen schwingt schwang geschwungen, schwören schwört schwor geschworen, sehen sieht sah gesehen, senden sendet
    sandte gesandt, singen singt sang gesungen, sinken sinkt sank gesunken, sinnen sinnt sann gesonnen, sitzen sitzt
    sass gesessen, spalten spaltet spaltete gespalten, sprechen spricht sprach gesprochen, springen springt sprang
    gesprungen, stechen sticht stach gestochen, stecken steckt stak gesteckt, stehen steht stand gestanden, stehlen
    stiehlt stahl gestohlen, steigen steigt stieg gestiegen, sterben stirbt starb gestorben, stinken stinkt stank
    gestunken, stossen stösst stiess gestossen, streichen streicht strich gestrichen, streiten streitet stritt
    gestritten, tragen trägt trug getragen, treffen trifft traf getroffen, treiben treibt trieb getrieben, treten
    tritt trat getreten, trinken trinkt trank getrunken, trügen trügt trog getrogen, tun tut tat getan, verderben
    verdirbt verdarb verdorben, vergessen vergisst vergass vergessen, verlieren verliert verlor verloren, verschwinden
    verschwindet verschwand verschwunden, verzeihen verzeiht verzieh verziehen, wachsen wächst wuchs gewachsen, wägen
    wägt wog gewogen, waschen wäscht wusch gewaschen, weichen weicht wich gewichen, weisen weist wies gewiesen, wenden
    wendet wandte gewandt, werben wirbt warb geworben, werfen wirft warf geworfen, wiegen wiegt wog gewogen, winden
    windet wand gewunden, wissen weiss wusste gewusst, wringen wringt wrang gewrungen, ziehen zieht zog gezogen,
    zwingen zwingt zwang gezwungen
"""
"""Infinitive, third person singular, preterite and participle of each verb, without prefixes."""

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
    for line in fold(_STRONG).split(","):
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

_IRREGULAR = """
    bear bore born, beat beaten, become became, begin began begun, bend bent, bind bound, bite bit bitten, blow blew
    blown, break broke broken, bring brought, build built, buy bought, catch caught, choose chose chosen, come came,
    cut cutting, deal dealt, dig dug, do did done, draw drew drawn, drink drank drunk, drive drove driven, eat ate
    eaten, fall fell fallen, feed fed, feel felt, fight fought, find found, fly flew flown, forget forgot forgotten,
    freeze froze frozen, get got gotten, give gave given, go went gone, grow grew grown, hang hung, hear heard, hide
    hid hidden, hold held, keep kept, know knew known, lay laid, lead led, leave left, lend lent, lie lay lain, lose
    lost, make made, mean meant, meet met, oversee oversaw overseen, pay paid, read reading, ride rode ridden, ring
    rang rung, rise rose risen, run ran, say said, see saw seen, sell sold, send sent, shoot shot, show showed shown,
    sing sang sung, sit sat, sleep slept, speak spoke spoken, spend spent, stand stood, steal stole stolen, strike
    struck, swim swam swum, take took taken, teach taught, tell told, think thought, throw threw thrown, understand
    understood, wake woke woken, wear wore worn, win won, write wrote written
"""
"""Forms that Snowball does not unite."""


@lru_cache(_CACHED_WORDS)
def english_verb_forms(word: str) -> frozenset[str]:
    """Return the stems of other forms of the irregular verb that a folded word may belong to."""
    irregular = _irregular()
    return frozenset(form for name in (word, stem(word, "en")) for form in irregular.get(name, ())) - {stem(word, "en")}


@cache
def _irregular() -> dict[str, set[str]]:
    by_form: dict[str, set[str]] = {}
    for line in _IRREGULAR.split(","):
        forms = line.split()
        for form in forms:
            by_form.setdefault(form, set()).update(stem(each, "en") for each in forms)
    return by_form


# ---------------------------------------------------------------- stop words

_LIST = re.compile(r"^([a-z]{2}):([^:#]+)$", re.MULTILINE)
_SAME = {"no": "nb", "nn": "nb"}
"""Languages that use the list of another one."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the folded stop words of a language; empty for a language without a list."""
    return frozenset(map(fold, _lists().get(_SAME.get(language, language), "").split()))


@cache
def _lists() -> dict[str, str]:
    return dict(_LIST.findall(Path(__file__).with_name("stopwords.txt").read_text(encoding="utf-8")))

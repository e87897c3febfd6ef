"""Questions about relations: whether a query asks for one, and which edges and nodes answer it.

A query is relational if it contains a configured relational word in any inflected form (the words of a phrase may occur
in any order, as may a German verb and its separated prefix), or if it asks for something other than what it names and
that has relations in the graph.

"Who maintains Heron?" names Heron and asks for what an edge `maintains` connects with it. Words match if they share a
stem (maintains, maintainer), a verb (build, built) or a meaning (maintains, betreut). The words of names do not count.
In "Who owns the service that Heron depends on?" the word next to the name belongs to the first of two steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from fourfold.retrieval import Relation
from fourfold.text.fold import fold, folded_words
from fourfold.text.language import english_verb_forms, stem, stop_words, verb_forms

if TYPE_CHECKING:
    from fourfold.ranking.plan import RoutingConfig

QueryType: TypeAlias = Literal["standard", "relational"]

# ---------------------------------------------------------------- routing

QUESTION_WORDS: Final = frozenset(
    (
        *("who", "whom", "whose", "which", "what", "where"),
        *("wer", "wen", "wem", "wessen", "was", "wo", "woher", "wohin", "womit", "woran", "worauf", "woraus", "wovon"),
        *("wozu", "welch", "welche", "welchem", "welchen", "welcher", "welches"),
    )
)
"""Words that ask for a person, a thing or a place."""
AUXILIARIES: Final = frozenset(
    (
        *("am", "are", "can", "could", "did", "do", "does", "had", "has", "have", "how", "is", "may", "might"),
        *("must", "shall", "should", "was", "were", "will", "would"),
    )
)
"""Words besides these that begin an English question."""
PREPOSITIONS: Final = frozenset(
    (
        *("about", "at", "behind", "by", "for", "from", "in", "of", "on", "to", "under", "with"),
        *("an", "auf", "aus", "bei", "durch", "fuer", "gegen", "mit", "nach", "ueber", "um", "unter", "von", "zu"),
    )
)
_OTHERWISE: Final = (AUXILIARIES - QUESTION_WORDS) | {
    *("when", "why", "wie", "wann", "warum", "weshalb", "wieso", "hat", "haben", "hast", "ist", "sind", "war", "wird"),
    *("wurde", "kann", "koennen", "darf", "soll", "muss", "gibt"),
}
"""First words of questions for something other than a person, a thing or a place."""
_PERSONS: Final = frozenset(
    ("i", "we", "you", "my", "our", "ich", "wir", "man", "du", "ihr", "mir", "uns", "mein", "meine")
)
"""Words of questions about what somebody does: "Which printer can I use?"."""
_HAVING: Final = frozenset(("hat", "has"))
_PARTICIPLE: Final = re.compile(r"(\w{0,7}ge|be|er|ent|ver|zer)\w{2,}(t|en)|\w{2,}(iert|ed|en|wn|ne)")
_ROUTED_WORDS: Final = 500
"""Number of words of a query that are checked."""


def route(text: str, config: RoutingConfig) -> tuple[QueryType, tuple[str, ...]]:
    """Return the type of the query, and the configured words that made it relational."""
    spelled = folded_words(text)[:_ROUTED_WORDS]
    keywords, beginnings = relational_words(config.de, config.en)
    if not any(map(beginnings.__getitem__, spelled)):
        return "standard", ()
    terms = {language: [terms_of(word, language) for word in spelled] for language in ("de", "en")}
    every_term = {language: set[str]().union(*own) for language, own in terms.items()}
    matched = [
        keyword.spelled
        for keyword in keywords
        if (
            not every_term[keyword.language].isdisjoint(keyword.parts[0])
            and all(not every_term[keyword.language].isdisjoint(part) for part in keyword.parts[1:])
        )
        or (keyword.separated is not None and _has_separated(*keyword.separated, terms[keyword.language]))
    ]
    return ("relational" if matched else "standard"), tuple(dict.fromkeys(matched))


def asks_otherwise(words: Sequence[str]) -> bool:
    """Whether folded words ask whether, how, when or why something is so, which no relation answers."""
    return bool(words) and words[0] in _OTHERWISE and len(words) > 1


def is_ordinary(words: Sequence[str], matched: Collection[str]) -> bool:
    """Whether words that can name a relation are used otherwise: how do I connect, has he time, what has changed."""
    if asks_otherwise(words) or not _PERSONS.isdisjoint(words):
        return True
    having = _HAVING.issuperset(matched)
    return having and (words[:1] in (("wer",), ("who",)) or any(map(_PARTICIPLE.fullmatch, words)))


def _has_separated(verb: frozenset[str], prefix: str, terms: Sequence[Collection[str]]) -> bool:
    """Whether the prefix follows the verb."""
    first = next((place for place, word in enumerate(terms) if not verb.isdisjoint(word)), len(terms))
    return any(exact(prefix) in word for word in terms[first + 1 :])


def asks_for_another(text: str) -> bool:
    """Whether a text asks for a person, a thing or a place other than what it names."""
    first, second = (*folded_words(text)[:2], "", "")[:2]
    return first in QUESTION_WORDS or (first in PREPOSITIONS and second in QUESTION_WORDS)


def is_question(text: str) -> bool:
    """Whether a text ends with a question mark or begins like an English question.

    Under `auto` only questions are reranked: models are trained on them, and misjudge topics, claims and wishes.
    """
    if text.rstrip().endswith("?"):
        return True
    first = next(iter(folded_words(text)), "")
    return first in QUESTION_WORDS or first in AUXILIARIES


# ---------------------------------------------------------------- relational words

SEPARABLE: Final = (
    *("ab", "an", "auf", "aus", "bei", "ein", "fest", "fort", "her", "hin", "los", "mit", "nach", "nieder", "vor"),
    *("weg", "zu", "zurueck", "zusammen"),
)
_SHORTEST_VERB_LETTERS: Final = 4
_CONTRACTED: Final = {"zum": "zu", "zur": "zu", "im": "in", "ins": "in", "am": "an", "beim": "bei", "vom": "von"}
_CACHED_WORDS: Final = 4096


class RelationalWord(NamedTuple):
    """A configured word or phrase with the terms that match it."""

    spelled: str
    language: str
    parts: tuple[frozenset[str], ...]
    """The terms of each word; a query matches if it has one of each set, in any order."""
    separated: tuple[frozenset[str], str] | None
    """The terms of a German verb without its prefix, and the prefix, which must follow it."""


class Beginnings(dict[str, bool]):
    """By word of a query: whether it may be the first that matches a configured word; fills itself on access."""

    def __init__(self, words: Iterable[RelationalWord]) -> None:
        super().__init__()
        self._terms: dict[str, set[str]] = {"de": set(), "en": set()}
        for word in words:
            self._terms[word.language] |= word.parts[0] | (word.separated[0] if word.separated else frozenset())

    def __missing__(self, word: str) -> bool:
        begins = any(not terms.isdisjoint(terms_of(word, language)) for language, terms in self._terms.items())
        if len(self) >= _CACHED_WORDS:
            self.clear()
        self[word] = begins
        return begins


@lru_cache(maxsize=16)
def relational_words(de: tuple[str, ...], en: tuple[str, ...]) -> tuple[tuple[RelationalWord, ...], Beginnings]:
    """The configured words, and the words of a query that may begin one of them."""
    named = [(keyword, "de") for keyword in de] + [(keyword, "en") for keyword in en]
    every = [_made(keyword, language) for keyword, language in named]
    made = tuple(keyword for keyword in every if keyword.parts)
    return made, Beginnings(made)


def _made(spelled: str, language: str) -> RelationalWord:
    words = folded_words(spelled)
    parts = tuple(frozenset(_forms(word, language)) for word in words)
    return RelationalWord(
        spelled, language, parts, _separated(words[0]) if language == "de" and len(words) == 1 else None
    )


@lru_cache(_CACHED_WORDS)
def terms_of(word: str, language: str) -> tuple[str, str]:
    """The exact form and the stem of a word of the query; of a contraction, those of the preposition."""
    word = _CONTRACTED.get(word, word)
    return exact(word), stem(word, language)


def _forms(word: str, language: str) -> Iterator[str]:
    """Terms that match a configured word. A stop word such as `has` matches exactly: `have` occurs in any question."""
    if word in stop_words(language):
        yield exact(word)
        return
    yield stem(word, language)
    if language == "de":
        yield from _verb_forms(word)


def _verb_forms(word: str) -> Iterator[str]:
    """Terms of the verb that a word or an adjective in -ig may belong to; gehört belongs to gehören, not to hören."""
    infinitive = f"{word.removesuffix('ig')}en" if word.endswith("ig") else ""
    forms = {*verb_forms(word), *verb_forms(infinitive), stem(infinitive, "de")} if infinitive else verb_forms(word)
    return (form for form in forms if word[0] in (form[0], form.removeprefix("ge")[:1]))


def _separated(word: str) -> tuple[frozenset[str], str] | None:
    for prefix in SEPARABLE:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) >= _SHORTEST_VERB_LETTERS:
            return frozenset([stem(rest, "de"), *_verb_forms(rest)]), prefix
    return None


def exact(word: str) -> str:
    return f"={word}"


# ---------------------------------------------------------------- edges that answer a question

OTHER_WAY: Final = 0.6
"""Share of an edge that leads the other way than the question asks: "Who reports to Ada?", and whom Ada reports to."""
OTHER_ORDER: Final = 0.9
"""Share of two steps of which the word of the second one is next to the name."""
ON_THE_WAY: Final = 0.3
"""Share of what lies one step from the name, if the question asks for two."""
BY_MEANING: Final = 0.8
"""How well words match that only mean the same."""

LEAST_MATCHED: Final = 1 / 3
"""Least share of the words of a question, besides names and stop words, that have to match relations."""

_QUERY_WORDS: Final = 100
"""Number of words of a question that are compared."""
_CACHED: Final = 4096

_OBJECTS: Final = frozenset(
    (
        *("whom", "where", "wen", "wem", "welchen", "welchem", "wo", "woher", "wohin", "womit", "woran", "worauf"),
        *("woraus", "wovon", "wozu", "wodurch"),
    )
)
"""Question words that ask for the object of a verb, wherever the name stands."""
_OPEN: Final = frozenset(("was", "welche", "welches"))
"""Question words that ask for the object if the German verb is in the singular, and else for the subject."""
_SMALL: Final = frozenset(
    (
        *("about", "after", "and", "are", "as", "at", "be", "been", "by", "for", "from", "in", "into", "is", "it"),
        *("of", "off", "on", "onto", "out", "over", "the", "to", "up", "was", "were", "with", "a", "an"),
        *("that", "this", "am", "auf", "aus", "bei", "das", "der", "die", "durch", "fuer", "gegen", "im"),
        *("ist", "mit", "nach", "ueber", "um", "und", "unter", "vom", "von", "vor", "war", "wird", "zu", "zum"),
        *("zur", "ab", "ein", "eine"),
    )
)
"""Words that say nothing alone, in relations and in questions."""
_AGENT: Final = frozenset(("by", "von", "vom", "durch"))
_PASSIVE_VOICE: Final = frozenset(("by", "wird", "werden", "wurde", "wurden", "worden"))
_DO: Final = frozenset(("do", "does", "did"))
_RELATIVE: Final = frozenset(("that", "which", "who", "whose"))
_STOP_WORDS: Final = stop_words("en") | stop_words("de")


# ---------------------------------------------------------------- words

_MEANINGS = """
own belong possess responsible charge care, gehören besitzen verantwortlich zuständig
maintain care responsible charge own run operate support, betreuen kümmern warten pflegen verantwortlich zuständig
lead head manage boss chief direct run supervise, leiten führen chef vorgesetzt verantwortlich
report boss manager, berichten unterstellt vorgesetzt chef
use utilise rely, nutzen benutzen verwenden einsetzen gebrauchen
depend rely need require, abhängen abhängig brauchen benötigen angewiesen
store keep where lie, lagern aufbewahren liegen wo finden
locate where situate base live sit lie, wo liegen befinden stehen wohnen sitzen
host run where, betreiben laufen hosten wo
make build manufacture produce create develop, bauen herstellen produzieren fertigen entwickeln
write author compose, schreiben verfassen autor
found establish start, gründen gründer
supply deliver provide, liefern beliefern lieferant versorgen
lead cause result trigger follow come, führen verursachen auslösen folgen folge
affect hit concern impact, betreffen treffen
train teach mentor coach, ausbilden schulen lehren anlernen einarbeiten
work employ job, arbeiten beschäftigen angestellt
replace supersede succeed successor, ersetzen ablösen nachfolger
part belong include contain, gehören bestandteil enthalten
sign agree contract partner, unterschreiben unterzeichnen abschliessen vereinbaren
call invoke, aufrufen
monitor watch observe, überwachen beobachten
inspect check examine test, prüfen kontrollieren
order commission, bestellen beauftragen
publish send emit, senden schicken veröffentlichen
consume receive read, empfangen lesen beziehen
connect link, verbinden anbinden
member join belong, mitglied angehören
marry wife husband spouse, heiraten ehefrau ehemann
pay fund finance sponsor, bezahlen finanzieren fördern
know friend, kennen freund
"""
"""A line is a meaning that relations have: English words, then German ones. Others are compared by their forms only."""

_TURNED = "belong follow come employ include contain, gehören angehören folgen folge beschäftigen enthalten"
"""Those whose subject is the object of others with the same meaning: what Ada owns belongs to her."""

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])")


@cache
def _meanings() -> Mapping[str, frozenset[str]]:
    """By term, the meanings that it has."""
    by_term: dict[str, set[str]] = {}
    for number, line in enumerate(_MEANINGS.strip().split("\n")):
        for term in _line_terms(line):
            by_term.setdefault(term, set()).add(f"#{number}")
    return {term: frozenset(numbers) for term, numbers in by_term.items()}


def _line_terms(line: str) -> Iterator[str]:
    """The terms of English words and, after a comma, of German ones."""
    for language, words in zip(("en", "de"), line.split(","), strict=True):
        for word in words.split():
            yield from _word_forms(fold(word), language)


@cache
def _turned() -> frozenset[str]:
    return frozenset(_line_terms(_TURNED))


def _word_forms(word: str, language: str) -> Iterator[str]:
    yield stem(word, language)
    yield from verb_forms(word) if language == "de" else english_verb_forms(word)


class _Terms(NamedTuple):
    forms: frozenset[str]
    meanings: frozenset[str]


@lru_cache(_CACHED)
def _terms(word: str) -> _Terms:
    """The forms of a word in both languages, so that owned and owner have one in common, and what it may mean."""
    forms = frozenset(form for language in ("en", "de") for form in _forms(word, language))
    meanings = _meanings()
    return _Terms(forms, frozenset[str]().union(*(meanings[form] for form in forms if form in meanings)))


class _Phrase(NamedTuple):
    words: tuple[str, ...]
    passive: bool
    """Whether something is done to its source: `owned by`."""


@lru_cache(_CACHED)
def _relation(spelled: str) -> _Phrase:
    every = [fold(word) for word in _WORD.findall(_HUMP.sub(" ", spelled))]
    prefixes = [word for word in every[1:] if word in SEPARABLE and word not in _AGENT]
    telling = [word for word in every if word not in _SMALL]
    main = [word for word in telling if word not in _STOP_WORDS] or telling
    if prefixes and main:  # hängt ab von
        main = [prefixes[0] + main[0], *main[1:]]
    by_agent = any(word in _AGENT and before.endswith(("t", "n", "d")) for before, word in pairwise(every))
    return _Phrase(tuple(main), by_agent)


@lru_cache(_CACHED)
def _match(asked: str, word: str) -> float:
    """How well a word of a question matches one of a relation. A stop word such as `has` matches exactly."""
    if asked == word:
        return 1.0
    if word in _STOP_WORDS:
        return 0.0
    ours, its = _terms(asked), _terms(word)
    if asked not in _STOP_WORDS and not ours.forms.isdisjoint(its.forms):
        return 1.0
    return BY_MEANING if not ours.meanings.isdisjoint(its.meanings) else 0.0


def _is_turned(word: str) -> bool:
    return not _turned().isdisjoint(_terms(word).forms)


# ---------------------------------------------------------------- the question


class _Match(NamedTuple):
    step: Relation
    place: int
    """Of the word of the question that matches best."""
    places: frozenset[int]
    """Of all words that match."""
    quality: float
    """How well it matches."""
    share: float
    """The same, less if the edge is weak or leads the other way than the question asks."""


class _Question:
    def __init__(self, text: str, named: Mapping[str, Iterable[int]]) -> None:
        """`named`: names in the question, in normal form, with their nodes."""
        self.words = folded_words(text)[:_QUERY_WORDS]
        self.places: dict[int, int] = {}
        """By node, where its name begins."""
        taken: set[int] = set()
        ends: dict[int, int] = {}
        for name, nodes in named.items():
            parts = tuple(name.split())
            for start in range(len(self.words) - len(parts) + 1):
                if self.words[start : start + len(parts)] == parts:
                    taken.update(range(start, start + len(parts)))
                    ends[start] = start + len(parts)
                    self.places.update((node, start) for node in nodes if node not in self.places)
        self._free = [place for place, word in enumerate(self.words) if place not in taken and word not in _SMALL]
        did = [end for start, end in ends.items() if start and self.words[start - 1] in _DO and end in self._free]
        self._verbs = frozenset(did)
        """Of what names do: "does Heron use"."""
        self._clause = _second_clause(text, self.words)
        """Where the second clause begins."""
        self._prefixes = [word for word in self.words if word in SEPARABLE]

    @property
    def asks(self) -> bool:
        """Whether it may ask for a relation; whether, how or when something happens is none."""
        return bool(self._free) and not asks_otherwise(self.words)

    def match(self, step: Relation, near: int, *, besides: str | None = None) -> _Match | None:
        """The words that match the relation of a step, whose start stands at `near`.

        `besides`: the relation of another step, which has the words that match it.
        """
        relation = _relation(step.relation)
        free = [place for place in self._free if besides is None or not self._fits(place, besides)]
        best = [
            max(((self._word(place, word), -abs(place - near), place) for place in free), default=_NO_PLACE)
            for word in relation.words
        ]
        if not best or not (quality := sum(fit for fit, *_ in best) / len(best)):
            return None
        place = max(best)[2]
        places = frozenset(place for fit, _, place in best if fit)
        turned = _is_turned(self.words[place]) != any(map(_is_turned, relation.words))
        forward = self._forward(near, place) ^ relation.passive ^ turned
        share = quality * min(1.0, step.weight) * (1.0 if forward == step.forward else OTHER_WAY)
        return _Match(step, place, places, quality, share)

    def has_more(self) -> bool:
        """Whether other words are left, which may match a second step."""
        return len(self._free) > 1

    def is_about(self, matches: Iterable[_Match]) -> bool:
        """Whether relations are what it says of the names: a few words may name the kind of what is asked for."""
        matched = {place for match in matches for place in match.places}
        said = [place for place in self._free if place in matched or self.words[place] not in _STOP_WORDS]
        return matched >= self._verbs and len(matched) >= LEAST_MATCHED * len(said)

    def order(self, before: _Match, after: _Match) -> float:
        """The share of two steps, of which the first belongs to the word next to the name."""
        near = self.places[before.step.node]
        return 1.0 if abs(before.place - near) < abs(after.place - near) else OTHER_ORDER

    def _fits(self, place: int, relation: str) -> bool:
        return any(self._word(place, word) for word in _relation(relation).words)

    def _word(self, place: int, word: str) -> float:
        """How well the word at a place matches one of a relation, also with a prefix that is separated from it."""
        own = self.words[place]
        return max(_match(each, word) for each in (own, *(prefix + own for prefix in self._prefixes)))

    def _forward(self, near: int, place: int) -> bool:
        """Whether what stands at `near` is the subject of the word at `place`, in the active voice."""
        main = place < self._clause
        clause = self.words[: self._clause] if main else self.words[self._clause :]
        if not _PASSIVE_VOICE.isdisjoint(clause):
            return near > 0 and self.words[near - 1] in _AGENT
        first = self.words[0]
        if main and (first in _OBJECTS or first in PREPOSITIONS):  # To whom does Emil report?
            return True
        if main and first == "wer":
            return False
        if main and first in _OPEN and near > place:
            return not self.words[place].endswith("n")
        return near < place


_NO_PLACE: Final[tuple[float, int, int]] = (0.0, 0, 0)


def _second_clause(text: str, words: Sequence[str]) -> int:
    """Where the first relative clause of a question begins; the number of words if there is none."""
    comma = len(folded_words(text[: text.find(",")])) if "," in text else len(words)
    return next((place for place, word in enumerate(words) if place > 1 and word in _RELATIVE), comma)


def answering_nodes(
    text: str, named: Mapping[str, Iterable[int]], steps: Callable[[Sequence[int]], Iterable[Relation]]
) -> dict[int, float]:
    """The nodes that a question asks for, with shares in 0..1.

    `named`: names in the question, in normal form, with their nodes. `steps`: the edges of nodes.
    """
    question = _Question(text, named)
    if not question.places or not question.asks:
        return {}
    first = _best_of_words(
        match
        for step in steps(sorted(question.places))
        if step.other not in question.places and (match := question.match(step, question.places[step.node]))
    )
    if not first:
        return {}
    by_node: dict[int, list[_Match]] = {}
    for match in first:
        by_node.setdefault(match.step.other, []).append(match)
    second = _best_of_words(
        after._replace(share=after.share * before.share * question.order(before, after))
        for step in (steps(sorted(by_node)) if question.has_more() else ())
        if step.other not in question.places
        for before in by_node[step.node]
        if (after := question.match(step, before.place, besides=before.step.relation))
    )
    if not question.is_about(first + second):
        return {}
    early = ON_THE_WAY if second else 1.0
    shares: dict[int, float] = {}
    for match in [*(match._replace(share=early * match.share) for match in first), *second]:
        shares[match.step.other] = max(shares.get(match.step.other, 0.0), match.share)
    return shares


def _best_of_words(matches: Iterable[_Match]) -> list[_Match]:
    """Of the matches of each word of the question, the best: a word that occurs in a relation means no other."""
    every_match = list(matches)
    best: dict[int, float] = {}
    for match in every_match:
        best[match.place] = max(best.get(match.place, 0.0), match.quality)
    return [match for match in every_match if match.quality == best[match.place]]

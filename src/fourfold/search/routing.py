"""Query routing (S4.3, C3): what marks a question about relations.

Either a relational word of the configuration, in any of its inflected forms; the words of a phrase may stand in any
order, and so may a German verb and its separated prefix. Or a question for something else than what it names, if that
has relations in the graph, which only the graph retriever knows: see `routed`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from fourfold.model import Plan, Ranking
from fourfold.search.weights import configured_weights
from fourfold.text.fold import fold, words
from fourfold.text.inflection import verb_forms
from fourfold.text.stems import stem
from fourfold.text.stopwords import stop_words

QueryType: TypeAlias = Literal["standard", "relational"]

RELATIONAL_DE: Final = (
    "nutzt",
    "verwendet",
    "verbunden",
    "abhängig",
    "Projekt",
    "Technologie",
    "gehört zu",
    "hat",
)
RELATIONAL_EN: Final = ("uses", "connected", "dependent", "project", "technology", "belongs to", "has")
RELATIONAL_WEIGHTS: Final[Mapping[str, float]] = {"semantic": 0.4, "keyword": 0.2, "graph": 0.4}

QUESTION_WORDS: Final = frozenset(
    (
        *("who", "whom", "whose", "which", "what", "where"),
        *("wer", "wen", "wem", "wessen", "was", "wo", "woher", "wohin", "womit", "woran", "worauf", "woraus", "wovon"),
        *("wozu", "welch", "welche", "welchem", "welchen", "welcher", "welches"),
    )
)
"""What asks for a person, a thing or a place; when, how and why do not."""
_PREPOSITIONS: Final = frozenset(
    (
        *("about", "at", "behind", "by", "for", "from", "in", "of", "on", "to", "under", "with"),
        *("an", "auf", "aus", "bei", "durch", "fuer", "gegen", "mit", "nach", "ueber", "um", "unter", "von", "zu"),
    )
)
_WORDS: Final = 500
"""Of a query are looked at."""
_CONTRACTED: Final = {"zum": "zu", "zur": "zu", "im": "in", "ins": "in", "am": "an", "beim": "bei", "vom": "von"}
_SEPARABLE: Final = (
    *("ab", "an", "auf", "aus", "bei", "ein", "fest", "fort", "her", "hin", "los", "mit", "nach", "nieder", "vor"),
    *("weg", "zu", "zurueck", "zusammen"),
)
_SHORTEST_VERB: Final = 4


@dataclass(frozen=True, slots=True)
class RoutingConfig:
    """`query_routing` of the configuration; what is left out is the seed's, weights key by key."""

    de: tuple[str, ...] = RELATIONAL_DE
    en: tuple[str, ...] = RELATIONAL_EN
    relational_weights: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        name = "query_routing.relational_weights"
        weights = configured_weights(name, RELATIONAL_WEIGHTS, self.relational_weights)
        object.__setattr__(self, "relational_weights", weights)


class _Keyword(NamedTuple):
    """A word or phrase of the configuration, and what stands for it in a query."""

    spelled: str
    language: str
    parts: tuple[frozenset[str], ...]
    """The terms of each of its words: a query has one of each, in any order."""
    separated: tuple[frozenset[str], str] | None
    """The terms of a German verb without its prefix, and the prefix, which follows it."""

    def stands_in(self, terms: Sequence[Collection[str]]) -> bool:
        found = set[str]().union(*terms)
        return all(not found.isdisjoint(part) for part in self.parts) or self._separated_in(terms)

    def _separated_in(self, terms: Sequence[Collection[str]]) -> bool:
        if self.separated is None:
            return False
        verb, prefix = self.separated
        first = next((place for place, word in enumerate(terms) if not verb.isdisjoint(word)), len(terms))
        return any(_as_it_stands(prefix) in word for word in terms[first + 1 :])


def route(text: str, config: RoutingConfig) -> tuple[QueryType, tuple[str, ...]]:
    """The type of the query, and the configured words that made it relational."""
    spelled = [_CONTRACTED.get(word, word) for word in map(fold, words(text)[:_WORDS])]
    terms = {language: [_terms(word, language) for word in spelled] for language in ("de", "en")}
    keywords = _keywords(config.de, config.en)
    matched = tuple(keyword.spelled for keyword in keywords if keyword.stands_in(terms[keyword.language]))
    return ("relational" if matched else "standard"), tuple(dict.fromkeys(matched))


def asks_for_another(text: str) -> bool:
    """Whether a text asks for a person, a thing or a place, which is then not what it names itself."""
    first, second, *_ = [*map(fold, words(text)[:2]), "", ""]
    return first in QUESTION_WORDS or (first in _PREPOSITIONS and second in QUESTION_WORDS)


def routed(plan: Plan, rankings: Mapping[str, Ranking]) -> Plan:
    """The plan, relational if what the query names has relations."""
    if plan.if_related is None or not rankings.get("graph", Ranking()).relations:
        return plan
    return replace(plan, query_type="relational", weights=plan.if_related or plan.weights)


@lru_cache(maxsize=16)
def _keywords(de: tuple[str, ...], en: tuple[str, ...]) -> tuple[_Keyword, ...]:
    named = [(keyword, "de") for keyword in de] + [(keyword, "en") for keyword in en]
    made = (_keyword(keyword, language) for keyword, language in named)
    return tuple(keyword for keyword in made if keyword.parts)


def _keyword(spelled: str, language: str) -> _Keyword:
    found = [fold(word) for word in words(spelled)]
    parts = tuple(frozenset(_forms(word, language)) for word in found)
    return _Keyword(spelled, language, parts, _separated(found[0]) if language == "de" and len(found) == 1 else None)


def _terms(word: str, language: str) -> tuple[str, str]:
    """A word of a query as it stands, and its stem."""
    return _as_it_stands(word), stem(word, language)


def _forms(word: str, language: str) -> Iterator[str]:
    """The terms that stand for a word. A stop word such as `has` stands for itself only: `have` is in any question."""
    if word in stop_words(language):
        yield _as_it_stands(word)
        return
    yield stem(word, language)
    if language == "de":
        yield from _verb_forms(word)


def _verb_forms(word: str) -> Iterator[str]:
    """Terms of the verb that a word may belong to, also an adjective in -ig; gehört belongs to gehören, not hören."""
    infinitive = f"{word.removesuffix('ig')}en" if word.endswith("ig") else ""
    forms = {*verb_forms(word), *verb_forms(infinitive), stem(infinitive, "de")} if infinitive else verb_forms(word)
    return (form for form in forms if word[0] in (form[0], form.removeprefix("ge")[:1]))


def _separated(word: str) -> tuple[frozenset[str], str] | None:
    for prefix in _SEPARABLE:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) >= _SHORTEST_VERB:
            return frozenset([stem(rest, "de"), *_verb_forms(rest)]), prefix
    return None


def _as_it_stands(word: str) -> str:
    return f"={word}"

"""Planning a search: the retrievers to run, their weights, and the fusion.

Routing recognises questions about relations. A query is relational if it contains a configured relational word in any
inflected form (the words of a phrase may occur in any order, as may a German verb and its separated prefix), or if it
asks for something other than what it names and that has relations in the graph, which is known after graph retrieval
only: see `routed`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args

from fourfold import limits
from fourfold.errors import InvalidQuery
from fourfold.frozen import value
from fourfold.ranking.factors import checked_source_weights
from fourfold.ranking.fusion import scaled_to_one
from fourfold.ranking.options import OFF, checked_rerank
from fourfold.ranking.presets import (
    ALPHA_RANGE,
    PRESETS,
    TUNED_PRESET,
    PlanSettings,
    Preset,
    RoutingConfig,
    adaptive_alpha,
    alpha_weights,
    check_weights,
    complete_pair,
    is_alpha,
)
from fourfold.ranking.retrievers import EXPANSIONS, RETRIEVERS, names_of_all
from fourfold.retrieval import FusionName, Plan, Recency
from fourfold.text.fold import folded_words
from fourfold.text.language import stem, stop_words, verb_forms

QueryType: TypeAlias = Literal["standard", "relational"]


@value
class PlanRequest:
    """Options of one search; None means the preset's value."""

    text: str
    preset: str = "auto"
    fusion: str | None = None
    weights: Mapping[str, float] | None = None
    alpha: float | None = None
    top_k: int | None = None
    only: Collection[str] | None = None
    k: int | None = None
    recency: float | None = None
    """Strength, in any preset; None: that of the preset."""
    rerank: str = OFF
    source_weights: Mapping[str, float] | None = None


@value
class StoreFacts:
    """Facts about the store that influence a plan."""

    items: int = 0
    matching_tags: int = 0
    """Number of distinct tags that the query names."""


def make_plan(request: PlanRequest, settings: PlanSettings, facts: StoreFacts) -> Plan:
    """Make the plan for a request; raise InvalidQuery or InvalidWeights if an option is not valid."""
    tuning = settings.tuned.get(request.preset)
    if (preset := PRESETS.get(request.preset if tuning is None else TUNED_PRESET)) is None:
        raise InvalidQuery(
            f"unknown preset {request.preset!r}", f"The presets are {', '.join([*PRESETS, *settings.tuned])}"
        )
    check_text(request.text)
    if request.alpha is not None:
        _check_alpha(request, request.alpha)
    fusion = _fusion(request, preset, settings)
    query_type, matched = _route(request.text, preset, settings)
    default = _default_weights(request, preset, settings, facts, fusion, query_type)
    weights = _weights(request, preset, settings, default)
    retrievers = _retrievers(request, preset, weights)
    return Plan(
        preset=preset.name,
        retrievers=retrievers,
        fusion=fusion,
        k=_count("k", request.k, preset.k),
        top_k=_count("top_k", request.top_k, _default_top_k(preset, settings), limits.TOP_K),
        weights=None if weights is None else {name: weights[name] for name in retrievers},
        fixed=_fixed(preset, facts, retrievers) if weights is None else None,
        recency=_recency(request, preset, settings, fusion),
        query_type=query_type,
        matched_keywords=matched,
        if_related=_if_related(request, preset, settings, facts, fusion, retrievers) if not matched else None,
        expand=_expands(request, fusion, retrievers),
        rerank=None if request.rerank == OFF else checked_rerank(request.rerank),
        tuning=tuning,
        source_weights=None if request.source_weights is None else checked_source_weights(request.source_weights),
    )


# ---------------------------------------------------------------- weights


def _weights(
    request: PlanRequest, preset: Preset, settings: PlanSettings, default: Mapping[str, float] | None
) -> Mapping[str, float] | None:
    """The caller's weights, else the preset's for the retrievers in `only`; None: `auto` chooses per query."""
    if request.weights is not None:
        return _callers_weights(request, request.weights, preset, settings)
    if request.only is None:
        return default
    kept = _kept(request.only, preset)
    if len(kept) == 1:
        return {kept[0]: 1.0}
    if default is None or set(kept) == set(preset.retrievers):
        return default
    return scaled_to_one(default, kept)


def _callers_weights(
    request: PlanRequest, weights: Mapping[str, float], preset: Preset, settings: PlanSettings
) -> dict[str, float]:
    """A pair of just semantic and keyword is completed where the preset has a graph that the caller did not exclude."""
    if preset.name in ("insights", "auto") and (request.only is None or "graph" in request.only):
        return complete_pair(weights, settings.insights_weights["graph"])
    return check_weights(weights)


def _default_weights(
    request: PlanRequest,
    preset: Preset,
    settings: PlanSettings,
    facts: StoreFacts,
    fusion: FusionName,
    query_type: QueryType,
) -> Mapping[str, float] | None:
    match preset.name:
        case "insights":
            relational = query_type == "relational"
            return settings.routing.relational_weights if relational else settings.insights_weights
        case "wiki":
            return settings.wiki_weights
        case "memories":
            return _memories_weights(_given_alpha(request, settings), facts, fusion)
        case "auto":
            return None if fusion == "auto" else _equal_weights(request, preset)
        case _:
            by_scores = fusion != "rrf" and preset.score_weights is not None
            return preset.score_weights if by_scores else preset.weights


def _given_alpha(request: PlanRequest, settings: PlanSettings) -> float | None:
    """The alpha of the request, else of the environment; None: adaptive."""
    return settings.memories_alpha if request.alpha is None else request.alpha


def _memories_weights(alpha: float | None, facts: StoreFacts, fusion: FusionName) -> dict[str, float] | None:
    """Weights of vectors and tags; None: `auto` also weighs keyword and graph."""
    if alpha is not None:
        return alpha_weights(alpha)
    return None if fusion == "auto" else _adaptive_weights(facts)


def _adaptive_weights(facts: StoreFacts) -> dict[str, float]:
    return alpha_weights(adaptive_alpha(facts.items), facts.matching_tags)


def _fixed(preset: Preset, facts: StoreFacts, retrievers: Collection[str]) -> dict[str, float] | None:
    """Weights of vectors and tags set by alpha while `auto` chooses the others."""
    if preset.name != "memories":
        return None
    return {name: weight for name, weight in _adaptive_weights(facts).items() if name in retrievers} or None


def _equal_weights(request: PlanRequest, preset: Preset) -> dict[str, float]:
    names = preset.retrievers if request.only is None else _kept(request.only, preset)
    return {name: 1 / len(names) for name in names}


def _if_related(
    request: PlanRequest,
    preset: Preset,
    settings: PlanSettings,
    facts: StoreFacts,
    fusion: FusionName,
    retrievers: Collection[str],
) -> Mapping[str, float] | None:
    """Weights for a question whose subject has relations; None if routing does not apply."""
    if preset.routing == "off" or "graph" not in retrievers or not asks_for_another(request.text):
        return None
    default = _default_weights(request, preset, settings, facts, fusion, "relational")
    relational = _weights(request, preset, settings, default)
    return {} if relational is None else {name: relational[name] for name in retrievers}


# ---------------------------------------------------------------- retrievers


def _retrievers(request: PlanRequest, preset: Preset, weights: Mapping[str, float] | None) -> tuple[str, ...]:
    """The retrievers in `only` that have a weight."""
    if request.only is None and weights is None:
        return tuple(RETRIEVERS) if preset.uses is None else preset.uses
    allowed = tuple(RETRIEVERS) if request.only is None else _names(request.only)
    if weights is None:
        return tuple(name for name in preset.retrievers if name in allowed)
    planned: tuple[str, ...] = tuple(name for name in allowed if weights.get(name, 0.0) > 0)
    if not planned:
        raise InvalidQuery(f"no weight is given for {' or '.join(allowed)}", "Give a weight, or leave `only` out")
    return planned


def _kept(only: Collection[str], preset: Preset) -> tuple[str, ...]:
    """The retrievers in `only`, all of which the preset must use."""
    names = _names(only)
    foreign = [name for name in names if name not in preset.retrievers]
    if foreign:
        what = f"the preset {preset.name} does not use {', '.join(foreign)}"
        raise InvalidQuery(what, "Use --preset auto, or give weights")
    return names


def _names(only: Collection[str]) -> tuple[str, ...]:
    unknown = [name for name in only if name not in RETRIEVERS]
    if unknown or not only:
        what = f"unknown retriever {unknown[0]!r}" if unknown else "`only` names no retriever"
        raise InvalidQuery(what, f"The retrievers are {names_of_all()}")
    return tuple(name for name in RETRIEVERS if name in only)


def _expands(request: PlanRequest, fusion: FusionName, retrievers: Iterable[str]) -> bool:
    """Whether graph or tags search from the best hits; a caller's weight for tags covers tags in the query only."""
    if fusion != "auto" or request.preset not in ("auto", "memories"):
        return False
    if request.only is not None and {"semantic", "keyword"}.isdisjoint(request.only):
        return False
    able = [name for name in EXPANSIONS if request.weights is None or RETRIEVERS[name].expands_weighted]
    return not set(able).isdisjoint(retrievers)


# ---------------------------------------------------------------- the rest of the request


def check_text(text: str) -> None:
    """Raise InvalidQuery for an empty query, or one of more than 32 KB."""
    if not text.strip():
        raise InvalidQuery("the query is empty", "Give at least one word")
    if len(text) <= limits.QUERY_BYTES // 4:  # no character has more bytes
        return
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.QUERY_BYTES:
        raise InvalidQuery(f"the query has {size} bytes", f"Shorten it to at most {limits.QUERY_BYTES} bytes")


def _check_alpha(request: PlanRequest, alpha: float) -> None:
    if request.preset != "memories":
        raise InvalidQuery(f"the preset {request.preset} does not use alpha", "Use it with --preset memories")
    if not is_alpha(alpha):
        raise InvalidQuery(f"alpha is {alpha!r}", ALPHA_RANGE)


def _fusion(request: PlanRequest, preset: Preset, settings: PlanSettings) -> FusionName:
    """The fusion of the request, else of the preset; an explicit alpha implies `rrf` of vectors and tags."""
    if request.fusion is None:
        by_alpha = preset.name == "memories" and _given_alpha(request, settings) is not None
        return "rrf" if by_alpha else preset.fusion
    if request.fusion not in get_args(FusionName):
        raise InvalidQuery(f"unknown fusion {request.fusion!r}", f"The fusions are {', '.join(get_args(FusionName))}")
    return cast("FusionName", request.fusion)


def _route(text: str, preset: Preset, settings: PlanSettings) -> tuple[QueryType, tuple[str, ...]]:
    if preset.routing == "off":
        return "standard", ()
    routed = route(text, settings.routing)
    return ("standard", ()) if _is_ordinary(folded_words(text), routed[1]) else routed


def _recency(request: PlanRequest, preset: Preset, settings: PlanSettings, fusion: FusionName) -> Recency | None:
    strength = request.recency
    if strength is None:
        recency = None if preset.recency is None else settings.recency(fusion)
    elif isinstance(strength, bool) or not 0 <= strength <= 1:
        raise InvalidQuery(f"recency is {strength!r}", "Give a number from 0 (age does not matter) to 1")
    else:
        recency = replace(settings.memories_recency, strength=float(strength))
    return None if recency is None or recency.decay == 0 or recency.strength == 0 else recency


def _default_top_k(preset: Preset, settings: PlanSettings) -> int:
    return settings.wiki_top_k if preset.name == "wiki" else preset.top_k


def _count(name: str, value: object, default: int, most: int | None = None) -> int:
    """Check that a value is a whole number from 1 to `most`."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most is not None and value > most):
        span = f"from 1 to {most}" if most is not None else "from 1 upwards"
        raise InvalidQuery(f"{name} is {value!r}", f"Give a whole number {span}")
    return value


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
_QUERY_WORDS: Final = 500
"""Number of words of a query that are checked."""


def route(text: str, config: RoutingConfig) -> tuple[QueryType, tuple[str, ...]]:
    """Return the type of the query, and the configured words that made it relational."""
    spelled = folded_words(text)[:_QUERY_WORDS]
    keywords, beginnings = relational_words(config.de, config.en)
    if not any(map(beginnings.__getitem__, spelled)):
        return "standard", ()
    terms = {language: [terms_of(word, language) for word in spelled] for language in ("de", "en")}
    found = {language: set[str]().union(*own) for language, own in terms.items()}
    matched = [
        keyword.spelled
        for keyword in keywords
        if (
            not found[keyword.language].isdisjoint(keyword.parts[0])
            and all(not found[keyword.language].isdisjoint(part) for part in keyword.parts[1:])
        )
        or (keyword.separated is not None and _has_separated(*keyword.separated, terms[keyword.language]))
    ]
    return ("relational" if matched else "standard"), tuple(dict.fromkeys(matched))


def asks_otherwise(words: Sequence[str]) -> bool:
    """Whether folded words ask whether, how, when or why something is so, which no relation answers."""
    return bool(words) and words[0] in _OTHERWISE and len(words) > 1


def _is_ordinary(words: Sequence[str], matched: Collection[str]) -> bool:
    """Whether words that can name a relation are used otherwise: how do I connect, who has time, what has changed."""
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


def routed(plan: Plan) -> Plan:
    """Return the plan of a query that asks for a stored relation of what it names."""
    if plan.if_related is None:
        return plan
    return replace(plan, query_type="relational", weights=plan.if_related or plan.weights)


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
    found = folded_words(spelled)
    parts = tuple(frozenset(_forms(word, language)) for word in found)
    return RelationalWord(
        spelled, language, parts, _separated(found[0]) if language == "de" and len(found) == 1 else None
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

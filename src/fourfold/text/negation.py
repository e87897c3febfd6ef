"""Negated parts of a query: "restaurants without fish", "hotels not in Berlin", "Restaurants ohne Fisch".

A negated word says what the answer is not about, so it must not pull items up. Only constraints count: "without fish",
"not in Berlin", "that do not serve fish". The negation of a whole statement does not ("aspirin does not prevent
strokes" is about aspirin and strokes, "food that Anna does not eat" about Anna and eating), nor does a fixed expression
("with or without milk", "not in sync"), the name of an action ("log out without saving"; see below), a title
("Rebel Without a Cause") or a quotation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from fourfold.text.fold import fold, word_lists
from fourfold.text.language import stop_words

# ---------------------------------------------------------------- names of actions
#
# Things are asked for by what they lack ("restaurants without fish"), but an action is named by how it is done: texts
# about it contain both words. Taken for an action: a verb or the name of an action before `without`, a gerund with an
# object after it ("without losing data"), an infinitive ("ohne zu speichern", "ohne Konto einrichten"), and what only
# actions are without ("without notice", "ohne Neustart").


def _words(listed: str) -> frozenset[str]:
    return frozenset(map(fold, listed.split()))


_ACTIONS: Final = _words(word_lists()["negation_actions"])
"""Verbs and names of actions. Words that ask for things (find, show, book, buchen) are not among them."""
_ORDERS: Final = _words(word_lists()["negation_orders"])
"""Verbs that are nouns or adjectives, too: only the first word of a query orders something."""
_MANNERS: Final = _words(word_lists()["negation_manners"])
"""An action is without them; a thing hardly ever is."""
_NOUNS_IN_ING: Final = _words(word_lists()["negation_nouns_in_ing"])
_REQUESTS: Final = _words("anzeigen auflisten buchen bestellen finden kaufen mieten suchen zeigen offen geschlossen")
"""German words in -en at the end of a query that asks for things."""
_WITHOUT_MANNER: Final = _words("without sans ohne")
_INFINITIVE: Final = re.compile("[a-zäöüß]{2,}(?:en|ern|eln)")
_ZU_INSIDE: Final = re.compile("[a-zäöüß]{2,}zu[a-zäöüß]{2,}(?:en|ern|eln)")
_PHRASE_WORDS = 3
_GERUND: Final = re.compile("[a-z]{2,}ing")


def belongs_to_action(words: Sequence[str], place: int) -> bool:
    """Whether the `without` at this place of the words (as typed, with punctuation) says how an action is done."""
    if fold(words[place]) not in _WITHOUT_MANNER:
        return False
    before, after = words[:place], words[place + 1 :]
    if not before or not after:
        return False
    if fold(before[0]) in _ORDERS or not _ACTIONS.isdisjoint(map(fold, before)):
        return True
    if not _MANNERS.isdisjoint(map(fold, after[:_PHRASE_WORDS])):
        return True
    if fold(words[place]) == "ohne":
        return _is_infinitive(before[-1]) or _has_infinitive(after)
    return _is_gerund(after[0]) and len(after) > 1 and after[1][0].isalnum()


def _is_gerund(word: str) -> bool:
    return _GERUND.fullmatch(word) is not None and word not in _NOUNS_IN_ING


def _is_infinitive(word: str) -> bool:
    """In lower case: nouns and names have capitals in German."""
    return _INFINITIVE.fullmatch(word) is not None and fold(word) not in _REQUESTS and not word.startswith("ge")


def _has_infinitive(after: Sequence[str]) -> bool:
    """Ohne neu zu starten, ohne sich abzumelden; or as the last word: ohne Konto einrichten."""
    with_zu = any(word == "zu" and _INFINITIVE.fullmatch(verb) for word, verb in pairwise(after))
    if with_zu or any(map(_ZU_INSIDE.fullmatch, after)):
        return True
    return "," not in after and len(after) > 1 and _is_infinitive(after[-1])


# ---------------------------------------------------------------- negated phrases

_MOST_WORDS = 4
"""Maximum number of content words of one negated phrase."""
_WORD = re.compile(r"[\w'’]+(?:-[\w'’]+)*|[^\w\s]")
_QUOTED = re.compile('["“„»«][^"“”„«»\n]{2,200}["”“«»]|`[^`\n]{2,200}`')

_WITHOUT: Final = _words("without sans except excluding minus ohne außer ausgenommen")
"""Negate the phrase after them."""
_ENGLISH_WITHOUT: Final = _words("without except excluding minus with")
_PAIRS: Final = frozenset(
    tuple(map(fold, pair.split()))
    for pair in (
        *("other than", "apart from", "aside from", "except for", "with no"),
        *("abgesehen von", "mit keinem", "mit keinen", "mit keiner"),
    )
)
_NOT: Final = _words("not never nicht nie niemals")
_NO: Final = _words("no kein keine keinen keinem keiner keines")
_CONTRACTED: Final = re.compile("n['’]t$")
_VERBS: Final = _words(word_lists()["negation_verbs"])
_RELATIVE: Final = _words("that which who whose der die das den dem deren dessen welche welcher welches")
_CHOICES: Final = _words("which welche welcher welches welchen")
"""Begin a question for things: which hotels are not in Berlin?"""
_QUESTIONS: Final = _words(word_lists()["negation_questions"])
_PREPOSITIONS: Final = _words(word_lists()["negation_prepositions"])
_FILLERS: Final = _words(word_lists()["negation_fillers"])
_STATES: Final = _words(word_lists()["negation_states"])
"""After a negation they are a fixed expression: not in sync, last but not least, außer Betrieb."""
_SYNTAX: Final = _words("clause block statement keyword operator")
"""Python and SQL have an `except`, too."""
_JOINTS: Final = _words("or nor and oder und noch sowie")
_TURNS: Final = _words("but aber")
_STOPS: Final = stop_words("en") | stop_words("de") | _PREPOSITIONS
_END_OF_SENTENCE: Final = frozenset(".!?;:")
_LONGEST = 20
"""Maximum number of words of a query that asks for things with a constraint."""
_LONGEST_CHARACTERS = 400
ANY_NEGATION: Final = re.compile(
    r"\b(?:without|sans|minus|exc(?:ept|luding)|o(?:ther than|hne)|a(?:part from|side from|u(?:ß|ss)er|usgenommen"
    r"|bgesehen von)|n(?:o|ot|ever|icht|ie|iemals)|kein\w*)\b|n['’]t\b",
    re.IGNORECASE,
)
"""By first letters, which makes it three times as fast: every query is searched for it."""


@dataclass(frozen=True, slots=True)
class Negated:
    """A part of a query that excludes something."""

    start: int
    end: int
    words: tuple[str, ...]
    """Its content words, as typed."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int

    @property
    def folded(self) -> str:
        return fold(self.text)

    @property
    def is_word(self) -> bool:
        return self.text[0].isalnum() or self.text[0] == "_"

    @property
    def is_content(self) -> bool:
        return self.is_word and self.folded not in _STOPS

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def negated_phrases(text: str) -> tuple[Negated, ...]:
    """Return the negated phrases of a query in order, each from its negation to its last word.

    Empty if nothing else would be left to search for.
    """
    if len(text) > _LONGEST_CHARACTERS or not ANY_NEGATION.search(text):
        return ()
    tokens = _tokens(text)
    phrases: list[Negated] = []
    free = 0
    place = 0 if _asks_for_things(tokens) else len(tokens)
    while place < len(tokens):
        length = _negation(tokens, place)
        end = _phrase_end(tokens, place, place + length) if length else 0
        if end:
            start = max(free, _first(tokens, place))
            end = max(end, _german_clause_end(tokens, start))
            words = tuple(token.text for token in tokens[place + length : end] if token.is_content)
            phrases.append(Negated(tokens[start].start, tokens[end - 1].end, words))
            free = end
        place = max(end, place + 1)
    return tuple(phrases) if any(token.is_content for token in _tokens(affirmed(text, phrases))) else ()


def negation_note(phrase: Negated) -> str:
    """Return what a search says about a phrase that it does not search for."""
    return f"not searched for, because it is negated: {' '.join(phrase.words)}"


def affirmed(text: str, phrases: Sequence[Negated] | None = None) -> str:
    """Return the query without its negated phrases, which are looked for if they are not given."""
    negated = negated_phrases(text) if phrases is None else phrases
    if not negated:
        return text
    kept, last = "", 0
    for each in negated:
        kept += text[last : each.start]
        last = each.end
    return " ".join((kept + text[last:]).split())


def _tokens(text: str) -> list[_Token]:
    """Words and punctuation; a quotation is one token."""
    quoted = {match.start(): match.end() for match in _QUOTED.finditer(text)}
    tokens: list[_Token] = []
    free = 0
    for match in _WORD.finditer(text):
        if match.start() < free:
            continue
        free = quoted.get(match.start(), match.end())
        tokens.append(_Token(text[match.start() : free], match.start()))
    return tokens


# ---------------------------------------------------------------- where a negation starts


def _asks_for_things(tokens: Sequence[_Token]) -> bool:
    """Whether a query is one short phrase or request: not a question for a fact, and not several sentences."""
    words = [token for token in tokens if token.is_word]
    ends = any(token.text in _END_OF_SENTENCE for token in tokens[:-1])
    return 1 < len(words) <= _LONGEST and not ends and words[0].folded not in _QUESTIONS | _VERBS


def _negation(tokens: Sequence[_Token], place: int) -> int:
    """Number of tokens of the negation that starts here; 0 if none does."""
    word, following = tokens[place].folded, tokens[place + 1].folded if place + 1 < len(tokens) else ""
    if _is_in_title(tokens, place) or _is_fixed(tokens, place):
        return 0
    if (word, following) in _PAIRS:
        return 2 if _is_constraint(tokens, place) else 0
    if word in _WITHOUT or (word in _NOT and following in _PREPOSITIONS):
        return 1 if _is_constraint(tokens, place) else 0
    if word in _NOT or word in _NO or _CONTRACTED.search(word):
        return 1 if _is_predicate(tokens, place) else 0
    return 0


def _is_in_title(tokens: Sequence[_Token], place: int) -> bool:
    """Rebel Without a Cause, No Country for Old Men; but Ohne Zucker, because German nouns have capitals."""
    if not tokens[place].text[0].isupper():
        return False
    followed = place + 1 < len(tokens) and tokens[place + 1].text[0].isupper()
    return place > 0 or (followed and fold(tokens[place].text) not in _GERMAN)


_GERMAN: Final = _words("ohne außer ausgenommen nicht nie niemals kein keine keinen keinem keiner keines")


def _is_fixed(tokens: Sequence[_Token], place: int) -> bool:
    """With or without milk, not in sync, try ... except, log out without saving."""
    before = [token.folded for token in tokens[max(0, place - 2) : place]]
    after = [token.folded for token in tokens[place + 1 : place + 3]]
    if len(before) == 2 and before[0] in _WITH and before[1] in _JOINTS:
        return True
    if tokens[place].folded == "except" and ("try" in before or _is_syntax(tokens[place + 1 :])):
        return True
    is_plain = tokens[place].folded in _NOT or tokens[place].folded in _GERMAN
    if is_plain and after and (after[0] in _STATES or (after[0] in _PREPOSITIONS and after[-1] in _STATES)):
        return True
    return belongs_to_action([token.text for token in tokens], place)


_WITH: Final = _words("with mit")


def _is_syntax(following: Sequence[_Token]) -> bool:
    first = following[0] if following else None
    return first is not None and (first.folded in _SYNTAX or first.text.endswith(("Error", "Exception")))


def _is_constraint(tokens: Sequence[_Token], place: int) -> bool:
    """Whether `without` or `not in` restricts what the query asks for: a main clause with a verb is a choice."""
    if tokens[0].folded in _CHOICES or _relative(tokens, place) is not None:
        return True
    return not any(token.folded in _VERBS and token.text.islower() for token in tokens)  # not May


def _is_predicate(tokens: Sequence[_Token], place: int) -> bool:
    """Whether a verb is negated for the things asked for: hotels that are not full, which hotels have no pool."""
    before = tokens[place - 1].folded if place > 0 else ""
    if _relative(tokens, place) is not None or before in _TURNS:
        return True
    return tokens[0].folded in _CHOICES and (before in _VERBS or bool(_CONTRACTED.search(tokens[place].folded)))


def _relative(tokens: Sequence[_Token], place: int) -> int | None:
    """Where the relative clause of a negation starts; None if it has a subject of its own (that Anna does not eat)."""
    start = place - 1
    while start > 0 and tokens[start].folded in _VERBS:
        start -= 1
    if start <= 0 or tokens[start].folded not in _RELATIVE:
        return None
    return start if tokens[start].folded in _ENGLISH or _is_after_comma(tokens, start) else None


_ENGLISH: Final = _words("that which who whose")


def _is_after_comma(tokens: Sequence[_Token], place: int) -> bool:
    return tokens[place - 1].text == ","


def _first(tokens: Sequence[_Token], place: int) -> int:
    """Where the part to drop starts: with the relative pronoun, the verb or the conjunction before the negation."""
    relative = _relative(tokens, place)
    start = place if relative is None else relative
    while start > 0 and (tokens[start - 1].folded in _TURNS or (tokens[start - 1].folded in _VERBS and start > 1)):
        start -= 1
    return start


# ---------------------------------------------------------------- where its phrase ends


def _phrase_end(tokens: Sequence[_Token], negation: int, start: int) -> int:
    """End of the noun phrase, or of several joined by `or`; 0 without a content word."""
    ends = _ends_english_noun if tokens[negation].folded in _ENGLISH_WITHOUT else _ends_noun
    place, end, count = start, 0, 0
    while place < len(tokens) and count < _MOST_WORDS:
        token = tokens[place]
        if token.is_content:
            end, count = place + 1, count + 1
            if ends(tokens, place):
                break
        elif not _continues(tokens, place, started=count > 0):
            break
        place += 1
    return end


def _continues(tokens: Sequence[_Token], place: int, *, started: bool) -> bool:
    """Whether a phrase continues after a word without content: an article, `or`, or the preposition of `not in`."""
    word = tokens[place].folded
    if word in _FILLERS or (not started and (word in _PREPOSITIONS or word in _VERBS)):
        return True
    following = tokens[place + 1] if place + 1 < len(tokens) else None
    return (
        started
        and following is not None
        and (word in _JOINTS or (tokens[place].text == "," and _is_listed(tokens, place)))
    )


def _german_clause_end(tokens: Sequence[_Token], start: int) -> int:
    """End of a German relative clause, whose verb comes last: , die keinen Fisch servieren. 0 for anything else."""
    if start == 0 or not _is_after_comma(tokens, start) or tokens[start].folded not in _RELATIVE:
        return 0
    return next((place for place in range(start, len(tokens)) if not tokens[place].is_word), len(tokens))


def _is_listed(tokens: Sequence[_Token], place: int) -> bool:
    """Whether a comma continues a list that ends with `or` or `and`: without fish, meat or eggs."""
    return any(token.folded in _JOINTS for token in tokens[place + 1 : place + 4])


def _ends_noun(tokens: Sequence[_Token], place: int) -> bool:
    """A capitalised word in front of one that is not: ohne Fisch geöffnet, not in Berlin open late."""
    if not tokens[place].text[0].isupper() or place + 1 >= len(tokens):
        return False
    following = tokens[place + 1]
    return following.is_content and not following.text[0].isupper()


def _ends_english_noun(tokens: Sequence[_Token], place: int) -> bool:
    """A word in lower case in front of a name: without pool Berlin."""
    following = tokens[place + 1].text[0] if place + 1 < len(tokens) else ""
    return tokens[place].text.islower() and following.isupper()

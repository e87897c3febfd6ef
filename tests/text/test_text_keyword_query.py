"""Keyword queries: words that are remembered are the same as words that are looked up again."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.analysis import analyse
from fourfold.text.compounds import SortedLexicon
from fourfold.text.keyword_query import KnownWords, keyword_query

ENGLISH = ("The contract of the tenants", "Contracts are signed twice", "def get_user(name): return name")
GERMAN = ("Der Mietvertrag läuft ab", "Vertragspartner sind Mieter", "Der Vertrag wurde unterschrieben")
TYPED = "contract contracts contrakt get_user getUser Vertrag Verträge Mietvertrag gelaufen the der 2024 zzz"
TERMS = [set(analyse(text, "en")) for text in ENGLISH] + [set(analyse(text, "de")) for text in GERMAN]
COUNTS = Counter(term for found in TERMS for term in found)
LEXICON = SortedLexicon(term for text in GERMAN for term in analyse(text, "de"))


QUERIES = st.lists(st.sampled_from(TYPED.split()), max_size=6).map(" ".join)


@given(st.lists(QUERIES, max_size=6), st.sampled_from([3, 400]))
def test_remembered_words_give_the_same_queries(texts: list[str], english: int):
    """With 400 English items, only queries in German are expanded by compounds."""
    store = ({"en": english, "de": 3}, LEXICON, lambda terms: [COUNTS[term] for term in terms], english + 3, 0.1)
    known = KnownWords()
    for text in texts:
        assert keyword_query(text, *store, known) == keyword_query(text, *store)


def test_known_words_are_not_looked_up_again():
    asked: list[str] = []

    def frequencies(terms):
        asked.extend(terms)
        return [COUNTS[term] for term in terms]

    known = KnownWords()
    for text in ("contract user", "user contract name", "name"):
        keyword_query(text, {"en": 3}, None, frequencies, 3, known=known)
    assert asked == ["contract", "user", "name"]

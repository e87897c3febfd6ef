"""German compounds are found by their parts at query time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.analysis import analyse, query_words
from fourfold.text.compounds import LONG_TERM_LETTERS, RELATIVES, SortedLexicon, relatives, with_relatives

pytestmark = pytest.mark.spec("S1.9")


def lexicon(*words):
    return SortedLexicon(term for word in words for term in analyse(word, "de"))


def related(word, *others):
    (term,) = analyse(word, "de")
    return [other for other, _ in relatives(term, lexicon(*others))]


@pytest.mark.parametrize(
    ("word", "compound"),
    [
        ("Vertrag", "Mietvertrag"),
        ("Verträge", "Arbeitsverträge"),
        ("Versicherung", "Krankenversicherung"),
        ("Vertrag", "Vertragspartner"),
        ("Sonne", "Sonnenschein"),
        ("Versicherung", "Versicherungsfall"),
        ("Kinder", "Kindergarten"),
        ("Versicherung", "Krankenversicherungskarte"),
        ("Preise", "Mietpreisbremse"),
        ("Mieten", "Mietpreisbremse"),
        ("Bremse", "Mietpreisbremse"),
    ],
)
def test_a_word_finds_the_compounds_it_is_part_of(word, compound):
    assert related(word, compound) == analyse(compound, "de")


def test_a_compound_finds_its_parts():
    assert related("Mietvertrag", "Vertrag", "Miete") == ["vertrag", "miet"]
    assert related("Mietverträge", "Vertrag") == ["vertrag"]
    assert related("Impfstoffmangel", "Mangel", "Impfstoff", "Stoff") == ["mangel", "impfstoff"]
    assert related("Krankenversicherungskarte", "Karte", "Versicherung") == ["kart", "versicher"]


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("Schaft", "Freundschaft"),
        ("stellen", "bestellen"),
        ("Vertrag", "vertraglich"),
        ("Eis", "Reis"),
        ("Rat", "Vorrat"),
        ("Land", "Strand"),
    ],
)
def test_similar_looking_words_are_not_related(word, other):
    assert related(word, other) == []


def test_inner_parts_are_searched_on_request_only():
    words = lexicon("Krankenversicherungskarte")
    assert relatives("versicher", words) != []
    assert relatives("versicher", words, inner=False) == []


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        ("spielen", "spielten"),
        ("spielten", "spielen"),
        ("spielt", "gespielt"),
        ("laufen", "läuft"),
        ("läuft", "laufen"),
        ("gelaufen", "liefen"),
        ("abgelaufen", "ablaufen"),
        ("verlief", "verlaufen"),
        ("versichern", "Versicherung"),
        ("wandern", "gewandert"),
        ("gekündigt", "kündigen"),
        ("eingekauft", "einkaufen"),
        ("einzukaufen", "eingekauft"),
        ("bringt", "gebracht"),
        ("zurückgegangen", "zurückgehen"),
    ],
)
def test_a_verb_finds_its_other_forms(asked, stored):
    (word,) = query_words(asked, ["de"])
    found = dict(with_relatives(word, lexicon(stored)).variants)
    (term,) = analyse(stored, "de")
    assert term in found
    assert 0 < found[term] < 1


@pytest.mark.parametrize(
    ("asked", "stored"),
    [("verträgt", "Verträge"), ("Vertrag", "verträgt"), ("versteht", "Verstand"), ("hält", "Gehalt")],
)
def test_a_verb_does_not_find_a_noun_with_the_stem_of_one_of_its_forms(asked, stored):
    (word,) = query_words(asked, ["de"])
    (term,) = analyse(stored, "de")
    assert term not in dict(with_relatives(word, lexicon(stored)).variants)


@pytest.mark.parametrize(("asked", "stored"), [("Hund", "hundert"), ("Bericht", "berichtigen"), ("wandern", "winden")])
def test_other_words_are_not_forms_of_the_verb(asked, stored):
    (word,) = query_words(asked, ["de"])
    assert with_relatives(word, lexicon(stored)) == word


def test_relatives_have_less_weight_and_a_maximum_number():
    many = lexicon(*(f"{a}{b}vertrag" for a in ("Miet", "Kauf", "Werk", "Dienst") for b in "abcdefghijkl"), "Vertrag")
    found = relatives("vertrag", many)
    assert len(found) == RELATIVES
    assert all(0 < weight < 1 for _, weight in found)
    assert "vertrag" not in dict(found)


def test_relatives_get_a_share_of_the_weight_of_the_query_word():
    (word,) = query_words("Vertrag und Verträge", ["en", "de"])[:1]
    found = dict(with_relatives(word, lexicon("Mietvertrag", "Vertrag")).variants)
    own = dict(word.variants)
    assert own.items() <= found.items()
    assert 0 < found["mietvertrag"] < own["vertrag"]


def test_a_word_without_a_german_stem_has_no_relatives():
    (word,) = query_words("contracts", ["en"])
    assert with_relatives(word, lexicon("contracts")) == word


@given(st.text("aehnrstu", min_size=1), st.sets(st.text("aehnrstu", min_size=1)))
def test_relatives_are_deterministic_terms_of_the_lexicon(term, terms):
    found = relatives(term, SortedLexicon(terms))
    assert found == relatives(term, SortedLexicon(sorted(terms, reverse=True)))
    assert {relative for relative, _ in found} <= terms - {term}


_TERMS = st.text(st.characters(exclude_characters=" "), min_size=1)


@given(
    st.sets(_TERMS | _TERMS.map(lambda term: term * 3)),
    st.text("ab", min_size=1, max_size=2) | _TERMS,
    st.integers(0, 5),
)
def test_a_lexicon_finds_terms_by_prefix_suffix_and_part(terms, part, limit):
    book = SortedLexicon(terms)
    starting, ending, containing = (find(part, 1000) for find in (book.starting, book.ending, book.containing))
    assert set(starting) == {term for term in terms if term.startswith(part)}
    assert set(ending) == {term for term in terms if term.endswith(part)}
    assert containing == sorted(term for term in terms if part in term and len(term) >= LONG_TERM_LETTERS)
    assert book.starting(part, limit) == starting[:limit]
    assert book.containing(part, limit) == containing[:limit]
    assert book.ending(part, limit) == ending[:limit]
    assert all(term in book for term in terms)

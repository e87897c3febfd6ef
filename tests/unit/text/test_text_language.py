"""Languages: detection, German compounds and verbs, real German and English collections."""

import json
import re
import tarfile
from collections import Counter
from functools import cache
from math import log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import saturation

from fourfold.native.texts import LANGUAGES, LanguageTable
from fourfold.text import language
from fourfold.text.analysis import analyse, analyse_item, query_words
from fourfold.text.bm25 import idf
from fourfold.text.compounds import LONG_TERM_LETTERS, RELATIVES, SortedLexicon, relatives, with_relatives
from fourfold.text.language import _ALGORITHMS, CODES, detect, detect_many, stop_words

pytestmark = pytest.mark.spec("S1.9")


# ---------------------------------------------------------------- detection


SHORT_TEXTS = [
    line.split("\t") for line in (Path(__file__).parent / "short_texts.tsv").read_text(encoding="utf-8").splitlines()
]
"""Everyday notes and queries of a few words, most without function words, with their languages."""


def test_short_notes_and_queries_are_judged_by_their_content_words():
    total = Counter(expected for expected, _ in SHORT_TEXTS)
    right = Counter(expected for expected, text in SHORT_TEXTS if detect(text) == expected)
    assert right["en"] >= 0.97 * total["en"]
    assert right["de"] >= 0.95 * total["de"]
    others = total.keys() - {"en", "de"}
    assert len(others) == 18
    assert sum(right[each] for each in others) >= 0.85 * sum(total[each] for each in others)


@pytest.mark.parametrize(("language", "text"), [
    ("de", "Der Mietvertrag für die Wohnung in Hamburg läuft Ende März aus."), ("de", "Rechnung bis Freitag bezahlen"),
    ("de", "Zahnarzt Termin Mittwoch"), ("de", "Meeting mit Anna"), ("de", "Kündigung"), ("de", "Steuererklärung"),
    ("de", "Fuer die Pruefung brauchen wir den Schluessel"), ("de", "DAS IST NUR EIN TEST"),
    ("en", "The lease of the flat in Hamburg ends in March."), ("en", "docker compose up -d"),
    ("en", "def area(width: float) -> float:\n    return width ** 2"), ("en", "SELECT name FROM users WHERE id = 3"),
    ("en", "getUserName"), ("en", "call Anna"), ("en", "IT and ER admission"),
    ("en", "Obese mice with a mutation of the ob gene"), ("en", ""), ("en", "42"), ("en", "kitchen recipe"),
    ("fr", "Le chat est sur la table et le chien dort dans le jardin."),
    ("es", "El perro duerme en la cocina y no quiere salir a la calle."),
    ("it", "Il gatto dorme sul tavolo e non vuole uscire con questa pioggia."),
    ("nl", "De kat slaapt op de tafel en wil niet naar buiten."),
    ("pt", "O gato dorme na mesa e não quer sair com esta chuva."),
    ("sv", "Jag heter Anna och har bott i Stockholm sedan många år tillbaka."), ("ru", "Это просто заметка"),
    ("ja", "これはメモです"), ("ko", "한국어로 쓴 메모"), ("pl", "Kot śpi na stole i nie chce wyjść na deszcz."),
    ("nb", "Katten sover på bordet og vil ikke ut i regnet."),
    ("da", "Katten sover på bordet og vil ikke gå ud i regnvejret."),
    ("cs", "Kočka spí na stole a nechce jít ven do deště."),
    ("ro", "Pisica doarme pe masă și nu vrea să iasă în ploaie."),
    ("uk", "Кіт спить на столі й не хоче виходити під дощ."),
    ("tr", "Kedi masanın üzerinde uyuyor ve yağmurda dışarı çıkmak istemiyor."),
    ("hu", "A macska az asztalon alszik, és nem akar kimenni az esőbe."),
    ("fi", "Kissa nukkuu pöydällä eikä halua mennä ulos sateeseen."),
    ("el", "Η γάτα κοιμάται στο τραπέζι και δεν θέλει να βγει στη βροχή."),
    ("ca", "El gat dorm damunt la taula i no vol sortir amb aquesta pluja."),
])  # fmt: skip
def test_notes_queries_and_code_are_detected(language, text):
    assert detect(text) == language


def test_an_ambiguous_text_gets_a_known_language():
    assert detect("42") == "en"
    assert detect("42", ["de", "fr"]) == "de"
    assert detect("42", ["de", "en"]) == "en"


def test_known_languages_do_not_override_clear_evidence():
    assert detect("Wo ist der Schlüssel für die Garage?", ["en"]) == "de"


@given(st.text(st.characters()), st.sampled_from([(), ("de",), ("en", "de"), ("fr", "xx")]))
def test_detection_is_deterministic_for_any_text(text, known):
    language = detect(text, known)
    assert language == detect(text, known)
    assert language in CODES


@given(st.lists(st.text(st.characters()) | st.sampled_from([text for _, text in SHORT_TEXTS]), max_size=6))
def test_batch_detection_gives_the_same_languages_as_single_detection(texts):
    assert detect_many(texts) == [detect(text) for text in texts]


SEPARATOR = re.compile("[\x00-`{-\x7f\u0080-\u00bf\u2000-\u207f\u3000-\u303f]+")


def rows(text, bits):
    """The rows of the table for a text, as the kernel computes them."""
    for spaced in (f" {word} " for word in SEPARATOR.split(text) if word):
        longest = [spaced[start : start + 4] for start in range(len(spaced) - 1)]
        parts = [part[:end] for part in longest for end in range(1, len(part) + 1)]
        yield from (row(part, bits) for part in parts if part != " ")
        if len(spaced) > 4:
            yield row(spaced, bits)


def row(part, bits):
    found = 0x811C9DC5
    for byte in part.encode("utf-8", "replace"):
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return (found ^ found >> 16) & ((1 << bits) - 1)


def weight(number, language):
    return (number * 31 + language * 17) % 255 - 127


@given(st.text(st.sampled_from("aäßbж你 \u2019.\u00bb\u3002z") | st.characters(exclude_characters="\0"), max_size=50))
def test_scores_are_sums_over_the_parts_of_words(text):
    text, bits = text.lower(), 6
    table = LanguageTable(bytes(weight(each, i) & 255 for each in range(1 << bits) for i in range(LANGUAGES)))
    priors = list(range(LANGUAGES))
    found = list(rows(text, bits))
    scores = [prior + sum(weight(each, i) for each in found) for i, prior in enumerate(priors)]
    first = scores.index(max(scores))
    second = max(score for i, score in enumerate(scores) if i != first)
    assert table.best([text], table.scores(priors)) == [(first, scores[first] - second)]


def test_only_the_beginning_of_a_long_text_is_read():
    german, english = "Der Mietvertrag läuft im März aus. ", "The lease of the flat ends in March. "
    assert detect(10 * german + 100 * english) == "de"
    assert detect(10 * english + 100 * german) == "en"


@pytest.mark.parametrize("damaged", [b"", b"00000000 en de\nabc", b"not a number\n"])
def test_a_damaged_model_is_refused_with_a_remedy(damaged, tmp_path, monkeypatch):
    monkeypatch.setattr(language, "_FILE", tmp_path / "languages.bin")
    language._FILE.write_bytes(damaged)
    with pytest.raises(ImportError, match="reinstall the package"):
        language._model.__wrapped__()


def test_every_language_with_a_stemmer_has_stop_words():
    assert [each for each in _ALGORITHMS if len(stop_words(each)) < 40] == []


# ---------------------------------------------------------------- compounds and verbs


def lexicon(*words):
    return SortedLexicon(term for word in words for term in analyse(word, "de"))


def related(word, *others):
    (term,) = analyse(word, "de")
    return [other for other, _ in relatives(term, lexicon(*others))]


@pytest.mark.parametrize(("word", "compound"), [
    ("Vertrag", "Mietvertrag"), ("Verträge", "Arbeitsverträge"), ("Versicherung", "Krankenversicherung"),
    ("Vertrag", "Vertragspartner"), ("Sonne", "Sonnenschein"), ("Versicherung", "Versicherungsfall"),
    ("Kinder", "Kindergarten"), ("Versicherung", "Krankenversicherungskarte"), ("Preise", "Mietpreisbremse"),
    ("Mieten", "Mietpreisbremse"), ("Bremse", "Mietpreisbremse"),
])  # fmt: skip
def test_a_word_finds_the_compounds_it_is_part_of(word, compound):
    assert related(word, compound) == analyse(compound, "de")


@pytest.mark.parametrize(("word", "other"), [
    ("Schaft", "Freundschaft"), ("stellen", "bestellen"), ("Vertrag", "vertraglich"), ("Eis", "Reis"),
    ("Rat", "Vorrat"), ("Land", "Strand"),
])  # fmt: skip
def test_similar_looking_words_are_not_related(word, other):
    assert related(word, other) == []


def test_a_compound_finds_its_parts():
    assert related("Mietvertrag", "Vertrag", "Miete") == ["vertrag", "miet"]
    assert related("Mietverträge", "Vertrag") == ["vertrag"]
    assert related("Impfstoffmangel", "Mangel", "Impfstoff", "Stoff") == ["mangel", "impfstoff"]
    assert related("Krankenversicherungskarte", "Karte", "Versicherung") == ["kart", "versicher"]


def test_inner_parts_are_searched_on_request_only():
    words = lexicon("Krankenversicherungskarte")
    assert relatives("versicher", words) != []
    assert relatives("versicher", words, inner=False) == []


@pytest.mark.parametrize(("asked", "stored"), [
    ("spielen", "spielten"), ("spielten", "spielen"), ("spielt", "gespielt"), ("laufen", "läuft"), ("läuft", "laufen"),
    ("gelaufen", "liefen"), ("abgelaufen", "ablaufen"), ("verlief", "verlaufen"), ("versichern", "Versicherung"),
    ("wandern", "gewandert"), ("gekündigt", "kündigen"), ("eingekauft", "einkaufen"), ("einzukaufen", "eingekauft"),
    ("bringt", "gebracht"), ("zurückgegangen", "zurückgehen"),
])  # fmt: skip
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


# ---------------------------------------------------------------- real collections


DATA = Path(__file__).parents[4] / "shared" / "data"


@cache
def collection(name):
    """Documents and queries by id, and the relevant documents of each query."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        lines = {kind: archive.extractfile(f"{name}/{kind}").read().decode().splitlines() for kind in FILES}
    documents = {row["_id"]: (row["title"], row["text"]) for row in map(json.loads, lines["corpus.jsonl"])}
    queries = {row["_id"]: row["text"] for row in map(json.loads, lines["queries.jsonl"])}
    relevant = {}
    for line in lines["qrels.tsv"][1:]:
        query, document, _ = line.split("\t")
        relevant.setdefault(query, set()).add(document)
    return documents, queries, relevant


FILES = ("corpus.jsonl", "queries.jsonl", "qrels.tsv")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"test collections are not at {DATA}")
@pytest.mark.parametrize(("name", "language"), [("xquad-de", "de"), ("xquad-en", "en"), ("covid-faq-de", "de")])
def test_the_language_is_detected(name, language):
    documents, queries, _ = collection(name)
    assert share(map(" ".join, documents.values()), language) >= 0.99
    assert share(queries.values(), language) >= 0.97


def share(texts, language):
    found = Counter(map(detect, texts))
    return found[language] / found.total()


@pytest.mark.skipif(not DATA.is_dir(), reason=f"test collections are not at {DATA}")
@pytest.mark.parametrize(
    ("name", "language", "bar"), [("xquad-de", "de", 0.94), ("xquad-en", "en", 0.96), ("covid-faq-de", "de", 0.34)]
)
def test_questions_find_their_answers(name, language, bar):
    documents, queries, relevant = collection(name)
    ranker = Ranker(documents, language)
    scores = [ndcg(ranker.rank(queries[query])[:10], ids) for query, ids in relevant.items()]
    assert sum(scores) / len(scores) >= bar


def ndcg(ranked, relevant):
    gained = sum(1 / log2(place + 2) for place, document in enumerate(ranked) if document in relevant)
    return gained / sum(1 / log2(place + 2) for place in range(min(10, len(relevant))))


class Ranker:
    """BM25 as a store computes it."""

    def __init__(self, documents, language):
        self.language = language
        self.postings = {}
        self.lengths = {}
        for name, (title, text) in documents.items():
            terms = analyse_item(title, text, language)
            self.lengths[name] = len(terms)
            for term, count in Counter(terms).items():
                self.postings.setdefault(term, {})[name] = count
        self.average = sum(self.lengths.values()) / len(self.lengths)
        self.lexicon = SortedLexicon(self.postings)

    def rank(self, query):
        scores = Counter()
        for word in self.words(query):
            best = Counter()
            for term, weight in word.variants:
                found = self.postings.get(term, {})
                for name, count in found.items():
                    score = idf(len(found), len(self.lengths)) * saturation(count, self.lengths[name], self.average)
                    best[name] = max(best[name], weight * score)
            scores.update(best)
        return [name for name, _ in scores.most_common()]

    def words(self, query):
        found = query_words(query, [self.language])
        return [with_relatives(word, self.lexicon) for word in found] if self.language == "de" else found

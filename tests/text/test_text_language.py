"""Language detection."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.native.texts import LANGUAGES, LanguageTable
from fourfold.text import language
from fourfold.text.language import _ALGORITHMS, CODES, detect, detect_many, stop_words

pytestmark = pytest.mark.spec("S1.9")

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


def test_english_words_that_look_german_are_english():
    assert detect("kitchen recipe") == "en"


@pytest.mark.parametrize(
    "text",
    [
        "Der Mietvertrag für die Wohnung in Hamburg läuft Ende März aus.",
        "Rechnung bis Freitag bezahlen",
        "Zahnarzt Termin Mittwoch",
        "Meeting mit Anna",
        "Kündigung",
        "Steuererklärung",
        "Fuer die Pruefung brauchen wir den Schluessel",
        "DAS IST NUR EIN TEST",
    ],
)
def test_german_notes_are_detected(text):
    assert detect(text) == "de"


@pytest.mark.parametrize(
    "text",
    [
        "The lease of the flat in Hamburg ends in March.",
        "docker compose up -d",
        "def area(width: float) -> float:\n    return width ** 2",
        "SELECT name FROM users WHERE id = 3",
        "getUserName",
        "call Anna",
        "IT and ER admission",
        "Obese mice with a mutation of the ob gene",
        "",
        "42",
    ],
)
def test_english_notes_and_code_are_detected(text):
    assert detect(text) == "en"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Le chat est sur la table et le chien dort dans le jardin.", "fr"),
        ("El perro duerme en la cocina y no quiere salir a la calle.", "es"),
        ("Il gatto dorme sul tavolo e non vuole uscire con questa pioggia.", "it"),
        ("De kat slaapt op de tafel en wil niet naar buiten.", "nl"),
        ("O gato dorme na mesa e não quer sair com esta chuva.", "pt"),
        ("Jag heter Anna och har bott i Stockholm sedan många år tillbaka.", "sv"),
        ("Это просто заметка", "ru"),
        ("これはメモです", "ja"),
        ("한국어로 쓴 메모", "ko"),
        ("Kot śpi na stole i nie chce wyjść na deszcz.", "pl"),
        ("Katten sover på bordet og vil ikke ut i regnet.", "nb"),
        ("Katten sover på bordet og vil ikke gå ud i regnvejret.", "da"),
        ("Kočka spí na stole a nechce jít ven do deště.", "cs"),
        ("Pisica doarme pe masă și nu vrea să iasă în ploaie.", "ro"),
        ("Кіт спить на столі й не хоче виходити під дощ.", "uk"),
        ("Kedi masanın üzerinde uyuyor ve yağmurda dışarı çıkmak istemiyor.", "tr"),
        ("A macska az asztalon alszik, és nem akar kimenni az esőbe.", "hu"),
        ("Kissa nukkuu pöydällä eikä halua mennä ulos sateeseen.", "fi"),
        ("Η γάτα κοιμάται στο τραπέζι και δεν θέλει να βγει στη βροχή.", "el"),
        ("El gat dorm damunt la taula i no vol sortir amb aquesta pluja.", "ca"),
    ],
)
def test_other_languages_are_detected(text, language):
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
    assert table.best([text], priors) == [(first, scores[first] - second)]


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

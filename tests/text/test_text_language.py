"""Language detection."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.native.text import Automaton
from fourfold.text.fold import words
from fourfold.text.language import _MODEL_LANGUAGES, _german_surplus, _letters, _model, detect, detect_many
from fourfold.text.stopwords import LANGUAGES, stop_words

pytestmark = pytest.mark.spec("S1.9")


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
    ],
)
def test_other_languages_are_detected(text, language):
    assert detect(text) == language


def test_an_ambiguous_text_gets_a_known_language():
    assert detect("Xylotron 7") == "en"
    assert detect("Xylotron 7", ["de", "fr"]) == "de"
    assert detect("Xylotron 7", ["de", "en"]) == "en"


def test_known_languages_do_not_override_clear_evidence():
    assert detect("Wo ist der Schlüssel für die Garage?", ["en"]) == "de"


@given(st.text(st.characters()), st.sampled_from([(), ("de",), ("en", "de"), ("fr", "xx")]))
def test_detection_is_deterministic_for_any_text(text, known):
    language = detect(text, known)
    assert language == detect(text, known)
    assert len(language) == 2


COMMON = sorted(word for language in LANGUAGES for word in stop_words(language))
SPELLED = (
    st.sampled_from(COMMON)
    | st.sampled_from(COMMON).map(str.upper)
    | st.sampled_from(["it's", "(der)", "über", "x\x1fy"])
)
NOTES = st.lists(SPELLED, min_size=1, max_size=70).map(" ".join)


@given(st.lists(NOTES | NOTES.map(str.upper) | st.text(st.characters(exclude_categories=["Cs"])), max_size=6))
def test_batch_detection_gives_the_same_languages_as_single_detection(texts):
    assert detect_many(texts) == [detect(text) for text in texts]


@given(st.text(st.characters(max_codepoint=127), min_size=200) | NOTES.filter(str.isascii).map(lambda text: text * 40))
def test_trigrams_of_a_long_text_are_those_of_its_words(text):
    assert _german_surplus(text) == sum(map(_german_surplus, words(text)))


@cache
def library():
    from py3langid import langid

    model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    model.set_languages(_MODEL_LANGUAGES.split())
    return model


WORDS_OF_LANGUAGES = st.lists(
    st.sampled_from([word for language in LANGUAGES for word in sorted(stop_words(language))]), max_size=60
)


@given(WORDS_OF_LANGUAGES.map(" ".join) | WORDS_OF_LANGUAGES.map(" ".join).map(str.upper) | st.text(max_size=300))
def test_the_model_answers_as_its_library_does(text):
    text = text.encode("utf-8", "replace").decode()
    assert _model().classify(text) == library().classify(text)


@given(st.text())
def test_letters_are_counted(text):
    assert _letters(text) == sum(map(str.isalpha, text))


def test_features_are_counted_once_and_a_damaged_model_is_refused():
    moves = np.zeros(512, np.uint32)
    moves[[ord("a"), 256 + ord("b")]] = 1, 2
    rows, outputs = np.array([0, 1, 0], np.uint32), np.array([-1, 0, 1], np.int32)
    features, counts = Automaton(moves, rows, outputs).features(b"ab aab a")
    assert (features.tolist(), counts.tolist()) == ([0, 1], [3.0, 1.0])
    for damaged in ((moves + 3, rows, outputs), (moves, rows + 9, outputs), (moves[:40], rows, outputs)):
        automaton = Automaton(*damaged)
        with pytest.raises(ValueError, match="damaged"):
            automaton.features(b"ab aab a")

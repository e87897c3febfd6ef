"""What the training of the encoder computes without PyTorch."""

import sys
from pathlib import Path

import numpy as np
import pytest

from fourfold.embed.builtin import bert_vocabulary
from fourfold.embed.wordpiece import WordPiece

TRAINING = Path(__file__).parents[3] / "training"
SENTENCES = (
    ("de", "the house is big", "das Haus ist groß"), ("de", "the house is small", "das Haus ist klein"),
    ("de", "the night train is late", "der Nachtzug ist verspätet"), ("ru", "the house is big", "дом большой"),
    ("ru", "the house is small", "дом маленький"), ("el", "the sea is blue", "η θάλασσα είναι γαλάζια"),
    ("tr", "the tea is ready", "çay hazır, İstanbul'da"),
)  # fmt: skip


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(TRAINING))
    for name in ("data", "texts", "vocabulary"):
        sys.modules.pop(name, None)
    return TRAINING


@pytest.mark.usefixtures("training")
def test_pieces_are_translated_to_the_words_they_occur_with() -> None:
    from vocabulary import translations

    # 10 means 20 and 11 means 21; 12 occurs with both, as does 22
    others = [np.array([10, 12, 0]), np.array([11, 12, 0]), np.array([10, 0]), np.array([11, 0])] * 20
    englishes = [np.array([20, 22]), np.array([21, 22]), np.array([20]), np.array([21])] * 20
    piece, english, probability = translations(others, englishes, 100)
    best = {int(each): int(english[piece == each][probability[piece == each].argmax()]) for each in (10, 11, 12)}
    assert best == {10: 20, 11: 21, 12: 22}


@pytest.mark.usefixtures("training")
def test_the_product_cuts_texts_into_the_pieces_that_were_trained() -> None:
    from texts import PREFIXES, Pair, fold
    from vocabulary import bodies, new_pieces, tokenizer

    known = bert_vocabulary().decode().split("\n")
    pairs: dict[str, list[Pair]] = {}
    for language, english, other in SENTENCES:
        pairs.setdefault(language, []).extend([Pair(language, "test", english, other)] * 5)
    pieces = known + new_pieces(pairs, known, 1.0)
    assert {"nachtzug", "большои"} <= set(pieces[len(known) :])
    texts = [PREFIXES[0] + fold(other) for *_, other in SENTENCES]
    trained = [[101, *ids.tolist(), 102] for ids in bodies(tokenizer(pieces), texts).rows()]
    assert WordPiece("\n".join(pieces).encode(), 256).encode(texts) == trained


@pytest.fixture
def stored(training: Path, tmp_path: Path) -> tuple[Path, list[str]]:
    """Two sentences with translations, and a passage longer than a window, as `prepare.py` writes them."""
    import data
    from texts import fold
    from vocabulary import bodies, tokenizer

    pieces = [*bert_vocabulary().decode().split("\n"), "nachtzug", "##burg"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n", "utf-8")
    split = tokenizer(pieces)
    english = ["The night train to Hamburg is late.", "It leaves at nine o'clock from platform two", "word " * 400]
    others = ["Der Nachtzug nach Hamburg ist verspätet.", "Er fährt um neun Uhr von Gleis zwei ab"]
    data.write(
        tmp_path / "texts.npz",
        {"english": bodies(split, english), "other": bodies(split, [fold(text) for text in others])},
        {"meaning": np.array([0, 1]), "language": np.ones(2, np.int8), "source": np.zeros(2, np.int8)},
    )
    return tmp_path, pieces


def read(folder: Path, pieces: list[str], *, teachers: bool) -> tuple[list[str], list[int]]:
    import data

    texts = data.read(folder, 1, teachers=teachers)
    rows = [texts.ids[start : start + length] for start, length in zip(texts.starts, texts.lengths, strict=True)]
    return [" ".join(pieces[each] for each in row) for row in rows], texts.meaning.tolist()


def test_teachers_read_english_sentences_and_paragraphs_in_the_pieces_of_bert(stored: tuple[Path, list[str]]) -> None:
    texts, meanings = read(*stored, teachers=True)
    bodies = [text.split(" : ", 1)[1] for text in texts]
    assert meanings == [0, 1, 2, 3]
    assert bodies[0] == "the night train to hamburg is late . [SEP]"
    assert bodies[3] == "the night train to hamburg is late . it leaves at nine o ' clock from platform two [SEP]"
    assert len(texts[2].split()) == 256
    assert texts[2].endswith("word [SEP]")
    assert {text.split()[1] for text in texts} <= {"query", "passage"}


def test_the_student_reads_translations_with_the_prefix_of_what_they_mean(stored: tuple[Path, list[str]]) -> None:
    texts, meanings = read(*stored, teachers=False)
    assert meanings == [0, 1, 2, 3, 0, 1, 3]
    assert "der nachtzug" in texts[4]
    whole = texts[6].replace(" ##", "").split(" : ")[1]
    assert whole == "der nachtzug nach hamburg ist verspaetet . er faehrt um neun uhr von gleis zwei ab [SEP]"
    for text, meaning in zip(texts, meanings, strict=True):
        assert text.split()[1] == texts[meaning].split()[1]


@pytest.mark.usefixtures("training")
def test_everyday_questions_and_notes_share_no_word_that_carries_meaning() -> None:
    from fourfold.text.language import stop_words

    rows = [line.split("\t") for line in (TRAINING / "everyday-german.tsv").read_text("utf-8").splitlines()[1:]]
    assert len(rows) == 60
    for question, note in rows:
        words = [{word.strip(".,:?") for word in text.lower().split()} for text in (question, note)]
        assert not words[0] & words[1] - stop_words("de"), question

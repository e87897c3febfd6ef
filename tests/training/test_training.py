"""What the training of the encoder computes without PyTorch."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from fourfold.embed.wordpiece import WordPiece

TRAINING = Path(__file__).parents[2] / "training"
BASE = TRAINING.parent / "src" / "fourfold" / "embed" / "wordpiece-vocab.txt"
SENTENCES = (
    ("de", "the house is big", "das Haus ist groß"),
    ("de", "the house is small", "das Haus ist klein"),
    ("de", "the night train is late", "der Nachtzug ist verspätet"),
    ("ru", "the house is big", "дом большой"),
    ("ru", "the house is small", "дом маленький"),
    ("el", "the sea is blue", "η θάλασσα είναι γαλάζια"),
    ("tr", "the tea is ready", "çay hazır, İstanbul'da"),
)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(TRAINING))
    for name in ("texts", "vocabulary"):
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
    from texts import Pair, fold, prefix_of
    from vocabulary import encode, new_pieces, tokenizer

    known = BASE.read_text("utf-8").removesuffix("\n").split("\n")
    pairs: dict[str, list[Pair]] = {}
    for language, english, other in SENTENCES:
        pairs.setdefault(language, []).extend([Pair(language, "test", english, other)] * 5)
    pieces = known + new_pieces(pairs, known, 1.0)
    assert {"nachtzug", "большои"} <= set(pieces[len(known) :])
    texts = [prefix_of(english) + fold(other) for _, english, other in SENTENCES]
    trained = [ids.tolist() for ids in encode(tokenizer(pieces), texts)]
    assert WordPiece("\n".join(pieces).encode(), 256).encode(texts) == trained


@pytest.mark.usefixtures("training")
def test_everyday_questions_and_notes_share_no_word_that_carries_meaning() -> None:
    from fourfold.text.stems import stop_words

    rows = [line.split("\t") for line in (TRAINING / "everyday-german.tsv").read_text("utf-8").splitlines()[1:]]
    assert len(rows) == 60
    for question, note in rows:
        words = [{word.strip(".,:?") for word in text.lower().split()} for text in (question, note)]
        assert not words[0] & words[1] - stop_words("de"), question

"""`builtin`: one encoder for English and nineteen other languages, made by `training/`. Nothing is downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fourfold import threads
from fourfold.embed.session import CPU, LocalEmbedder, Recipe, Session, check, checked
from fourfold.embed.wordpiece import WordPiece
from fourfold.limits import MODEL_TOKENS

ENCODERS: Final = Path(__file__).with_name("encoders")
MODEL, WORDS, VOCABULARY = "encoder.onnx", "words.bin", "vocab.txt"
SHA256: Final = {
    MODEL: "f0716ce65385aaeadb178cc3122f48037d887e5887456320a6dc7ad48b21f9dd",
    WORDS: "8ec796f8088e2416265a0f85a31bd072e964604dc9c62bbe7c92b35cdc6babe5",
    VOCABULARY: "771cfc1dcf169578cc424e7e3dd7117fc839ac9f88b26073d7275e3f9d6c906a",
}
DIMENSION: Final = 384
QUERY_PREFIX: Final = "query: "
PASSAGE_PREFIX: Final = "passage: "
FINGERPRINT: Final = f"builtin/{SHA256[MODEL][:16]}+{SHA256[WORDS][:16]}/query+passage/mean/{MODEL_TOKENS}/{DIMENSION}"
REPLACED: Final = (
    "minilm/all-MiniLM-L6-v2-int8@",
    "builtin/1e7666a69fd104ba+23a030f2dfbfbe15/",
    "builtin/1de7cd9c2889daa3+ef7662ccd81658f/",
)
"""How the fingerprints of earlier built-in encoders begin. The one that is replaced next has to be added."""
BERT_PIECES: Final = 30_522
"""The vocabulary begins with that of bert-base-uncased."""
REMEDY: Final = "Run `pip install --force-reinstall fourfold`"


def built_in_model(provider: str = CPU) -> LocalEmbedder:
    return LocalEmbedder(lambda: FINGERPRINT, lambda: Session(recipe(), provider), DIMENSION, REPLACED)


def recipe() -> Recipe:
    """The vectors of words, which are only data for the model, are checked while it is read and opened."""
    words = (ENCODERS / WORDS).resolve()  # onnxruntime follows no link out of the folder; some installers make links
    checking = threads.start(lambda: check(words, SHA256[WORDS], REMEDY), "fourfold-check")
    pieces = WordPiece(built_in(VOCABULARY), MODEL_TOKENS, german=True)
    model = built_in(MODEL)
    return Recipe(model, pieces, MODEL_TOKENS, "mean", QUERY_PREFIX, PASSAGE_PREFIX, words.parent, checking.result)


def built_in(name: str) -> bytes:
    """The content of a file of the encoder."""
    return checked(ENCODERS / name, SHA256[name], REMEDY)


def bert_vocabulary() -> bytes:
    """For other models that read the pieces of BERT."""
    return b"\n".join(built_in(VOCABULARY).split(b"\n", BERT_PIECES)[:BERT_PIECES])

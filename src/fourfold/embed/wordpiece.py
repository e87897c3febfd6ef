"""BERT's tokenizer from its vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fourfold.errors import EmbedderUnavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL = ("[UNK]", "[SEP]", "[CLS]")


def wordpiece(vocabulary: bytes, *, lowercase: bool = True) -> Tokenizer:
    """From the content of a `vocab.txt`. A `[SEP]` inside a text is text like any other."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import BertProcessing

    ids = ids_of(vocabulary)
    tokenizer = Tokenizer(WordPiece(ids, unk_token=SPECIAL[0]))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return tokenizer


def ids_of(vocabulary: bytes) -> dict[str, int]:
    """One word a line; its id is the line's number. (Unicode line separators are words of this vocabulary.)"""
    words = vocabulary.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n").split("\n")
    ids = {word: index for index, word in enumerate(words)}
    missing = [word for word in SPECIAL if word not in ids]
    if missing:
        message = f"the vocabulary has no {', '.join(missing)}, so it is not one of a WordPiece model"
        raise EmbedderUnavailable(message, "Put the model's own tokenizer.json beside it")
    return ids

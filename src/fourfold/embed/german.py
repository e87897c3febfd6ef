"""The German encoder, in the vector space of the built-in model: see training/README.md."""

from __future__ import annotations

import unicodedata

_FOLDED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss", "ẞ": "SS"})


def fold(text: str) -> str:
    """Writes umlauts with two letters, because the tokenizer would remove their dots ("schon", "schön")."""
    return unicodedata.normalize("NFC", text).translate(_FOLDED)

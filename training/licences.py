"""Sort Debian packages by what their licence asks of a work that learns from them."""

from __future__ import annotations

import re
from pathlib import Path

# Permissive, or copyleft that ends at the file or the library. Everything else counts as strong copyleft.
WEAK = re.compile(
    r"^(expat|mit|x11|isc|zlib|bsd|apache|artistic|psf|python|cc0|cc-by-[0-9.]+$|public-domain|lgpl|mpl|epl|cddl|boost|bsl|wtfpl"
    r"|unlicense|wordnet|ofl|fsf|permissive|w3c|openssl|curl|ntp|hpnd|vim|tcl|icu|unicode)",
    re.I,
)
# Packages whose licence is known although their copyright file is not machine-readable.
KNOWN_WEAK = ("libreoffice",)  # MPL-2.0
STANZA_END = re.compile(r"\n\s*\n")


def is_weak(copyright_file: Path) -> bool:
    """Return whether the package's own files, and its translations where listed, carry a permissive or weak licence.

    Only machine-readable files are trusted; a choice ("GPL-2 or MIT") counts by its weakest part.
    """
    if copyright_file.parent.name.startswith(KNOWN_WEAK):
        return True
    try:
        text = copyright_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    stated: list[str] = []
    for stanza in STANZA_END.split(text):
        files = re.search(r"^Files:\s*(.+(?:\n .+)*)", stanza, re.M)
        licence = re.search(r"^License:\s*(\S.*)$", stanza, re.M)
        if files and licence and re.search(r"(^|\s)\*(\s|$)|\bpo\b|\bde\b|locale|i18n|help|\bdoc", files[1]):
            stated.append(licence[1])
    return bool(stated) and all(_choice_is_weak(licence) for licence in stated)


def _choice_is_weak(licence: str) -> bool:
    choices = re.split(r"\s+or\s+", licence.replace(",", " "))
    return any(
        all(WEAK.match(part.strip("() ")) for part in re.split(r"\s+and\s+", choice) if part.strip("() "))
        for choice in choices
    )

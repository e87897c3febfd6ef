"""Stored items as the terms that they are indexed by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import apsw

from fourfold.courtesy import paced
from fourfold.search import bm25
from fourfold.stores.sqlite import items
from fourfold.text.many import Terms, analyse_items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Row = tuple[int, str, str, str]
_TOGETHER = 100
_FILLER = "~ " * bm25.BASE_LENGTH
"""Makes tantivy count lengths as we do; no term is spelled like that."""


class Analysed(NamedTuple):
    id: int
    language: str
    hashes: NDArray[np.uint32]
    """Of its terms in order."""
    letters: str
    """The terms themselves, with a space after each."""

    @property
    def terms(self) -> list[str]:
        return self.letters.split()

    @property
    def tantivy_body(self) -> str:
        return self.letters + _FILLER


def analysed(db: apsw.Connection, ids: Sequence[int]) -> Iterator[Analysed]:
    """The terms of these items; those that are gone are left out."""
    return analysed_texts(list(items.texts(db, ids)))


def analysed_texts(texts: Sequence[Row]) -> Iterator[Analysed]:
    """The terms of texts as `items.texts` gives them."""
    for rows in paced(items.chunks(texts, _TOGETHER)):
        found: dict[int, Terms] = {}
        for language in dict.fromkeys(language for *_, language in rows):
            own = [(item, title, text) for item, title, text, spoken in rows if spoken == language]
            terms = analyse_items([(title, text) for _, title, text in own], language)
            found.update(zip((item for item, *_ in own), terms, strict=True))
        yield from (Analysed(item, language, *found[item]) for item, _, _, language in rows)

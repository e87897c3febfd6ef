"""The two built-in encoders: which one reads a text, and what they share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fourfold.embed import bilingual, german, onnx_runtime
from fourfold.embed.base import shares_space
from fourfold.embed.bilingual import ENGLISH, GERMAN, BilingualEmbedder, encoder_of
from fourfold.embed.minilm import FINGERPRINT, built_in_model
from fourfold.errors import EmbedderUnavailable

PAIRS = (
    ("Der Schlüssel liegt bei der Nachbarin im zweiten Stock", "The key is with the neighbour on the second floor"),
    ("Die Rechnung muss bis Freitag bezahlt werden", "The invoice has to be paid by Friday"),
    ("Unsere Katze hat Angst vor Gewittern", "Our cat is afraid of thunderstorms"),
)


@pytest.fixture(scope="module")
def both() -> Iterator[BilingualEmbedder]:
    embedder = BilingualEmbedder()
    yield embedder
    embedder.close()


def test_a_german_text_lies_where_its_translation_is(both: BilingualEmbedder) -> None:
    left, right = (both.embed(texts) for texts in zip(*PAIRS, strict=True))
    cosines = left @ right.T
    assert np.diag(cosines).min() > 0.6
    assert (cosines - np.eye(len(PAIRS))).max() < np.diag(cosines).min()


def test_each_text_is_read_by_the_encoder_of_its_language(both: BilingualEmbedder) -> None:
    texts = [text for pair in PAIRS for text in pair]
    rows = both.embed(texts)
    for text, row in zip(texts, rows, strict=True):
        expected = both.embed_as(GERMAN if text in dict(PAIRS) else ENGLISH, [text])[0]
        np.testing.assert_allclose(row, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "encoder"),
    [
        (PAIRS[0][0], GERMAN),
        (PAIRS[0][1], ENGLISH),
        ("Les réponses arrivent toujours le lundi matin, avant neuf heures", ENGLISH),
        ("", ENGLISH),
        ("AX-5400", ENGLISH),
        (f"{PAIRS[1][0]}. " * 12 + f"{PAIRS[1][1]}. " * 4, GERMAN),
        (f"{PAIRS[1][0]}. " * 4 + f"{PAIRS[1][1]}. " * 12, ENGLISH),
    ],
)
def test_the_larger_part_of_a_text_decides(text: str, encoder: str) -> None:
    assert encoder_of(text) == encoder


@pytest.mark.parametrize(
    ("query", "encoders"),
    [
        ("Wann ist die Miete fällig?", (GERMAN,)),
        ("when is the rent due", (ENGLISH,)),
        ("Schlüssel", (GERMAN,)),
        ("Lady Gaga", (ENGLISH, GERMAN)),
        ("E4021", (ENGLISH, GERMAN)),
        ("где ключ", (ENGLISH,)),
    ],
)
def test_a_query_in_an_uncertain_language_is_read_by_both(
    both: BilingualEmbedder, query: str, encoders: tuple[str, ...]
) -> None:
    assert both.query_encoders(query) == encoders


def test_english_texts_keep_their_vectors_and_load_no_second_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("the German encoder was loaded")

    monkeypatch.setattr(german, "recipe", never)
    embedder = BilingualEmbedder()
    embedder.load()
    texts = [english for _, english in PAIRS]
    np.testing.assert_array_equal(embedder.embed(texts), built_in_model().embed(texts))


@pytest.mark.spec("B8")
def test_vectors_of_earlier_versions_are_in_the_same_space() -> None:
    embedder = BilingualEmbedder()
    assert embedder.fingerprint == bilingual.FINGERPRINT != FINGERPRINT
    assert shares_space(embedder, FINGERPRINT)
    assert not shares_space(embedder, "onnx/another")
    assert not shares_space(built_in_model(), bilingual.FINGERPRINT)


@pytest.mark.spec("B8")
@pytest.mark.parametrize("name", ["model_file", "VOCABULARY"])
def test_a_damaged_file_never_reaches_native_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    file = tmp_path / "damaged"
    file.write_bytes((german.VOCABULARY if name == "VOCABULARY" else german.model_file()).read_bytes()[:-1])
    monkeypatch.setattr(german, name, file if name == "VOCABULARY" else lambda: file)
    monkeypatch.setattr(onnx_runtime, "open_native", lambda _: pytest.fail("native code saw a damaged file"))
    with pytest.raises(EmbedderUnavailable, match=r"is damaged.*pip install --force-reinstall fourfold"):
        german.german_model().load()


@pytest.mark.parametrize(("text", "folded"), [("Größe", "Groesse"), ("u\u0308ber", "ueber"), ("STRAẞE", "STRASSE")])
def test_umlauts_are_written_with_two_letters(text: str, folded: str) -> None:
    assert german.fold(text) == folded

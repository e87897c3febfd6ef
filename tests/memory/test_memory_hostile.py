"""Hostile text is returned exactly as stored, or refused; a query of such text is safe."""

from __future__ import annotations

import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from engine_support import Opener, texts
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fourfold import limits, wire
from fourfold.errors import InvalidItem
from fourfold.memory import Memory
from fourfold.model import NewItem

_PIECES = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(), max_size=10),  # includes surrogates
    st.sampled_from(
        ["\x00", "\ud800", "\udfff\ud800", "\ufeff", "\u202e", "\u2066", "\u200d", "\u00ad", "\x1b[2J", "\x7f"]
    ),
    st.sampled_from(
        ["👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "e\u0301", "\u1100\u1161\u11a8", "Å", "ﬁ", "½", "שלום", "مرحبا", "नमस्ते", "\u2028", "\r\n"]
    ),
    st.builds(lambda letter, count: letter + "\u0301" * count, st.sampled_from("aeo"), st.integers(1, 60)),
    st.sampled_from(
        ["' OR 1=1 --", "[[", "]]", "# ", "](javascript:x)", "%00", "{{", "\\", "```", "**", "NULL", "body:"]
    ),
    st.text(st.characters(categories=["Cc", "Cf", "Co", "Zs", "Zl", "Zp", "Mn", "Me"]), max_size=12),
)
_TEXTS = st.lists(_PIECES, min_size=1, max_size=3).map("".join)
BATCH = 250
"""Texts per example; 20 examples make 5,000 texts."""
QUICK = settings(
    max_examples=20,
    phases=[Phase.generate],  # no shrinking: an example is a batch, and shrinking it would take longer than reading it
    suppress_health_check=list(HealthCheck),
    database=None,
)


def storable(text: str) -> bool:
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.spec("B10", "B4")
def test_5000_texts_come_back_identical_or_are_refused(tmp_path: Path) -> None:
    """Stores batches of texts, each in turn as title, text, tag, kind, key and metadata."""
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        count = 0

        @QUICK
        @given(st.lists(_TEXTS, min_size=BATCH, max_size=BATCH))
        def store_and_read(found: list[str]) -> None:
            nonlocal count
            items = []
            for text in found:
                count += 1
                key = f"{count} {text}"[:200]
                item = NewItem(text, title=text[:5], key=key, metadata={"m": text, f"k{text}": 1})
                if count % 50 == 0:
                    with suppress(InvalidItem):
                        memory.add(NewItem(text, tags=(text,), kind=text))
                if storable(text) and (text.strip() or text[:5].strip()):
                    items.append(item)
                else:
                    with pytest.raises(InvalidItem):
                        memory.add(item)
            for item, stored in zip(items, memory.add_many(items), strict=True):
                assert stored.text == unicodedata.normalize("NFC", item.text)
                assert stored.title == unicodedata.normalize("NFC", item.title)
                assert stored.key == unicodedata.normalize("NFC", item.key or "").strip()
                assert dict(stored.metadata) == dict(item.metadata)

        store_and_read()
        assert count >= 5000
        assert memory.check() == []
        for page in range(5):
            for item in memory.list(limit=20, offset=page * 20):
                response = memory.search(item.text[:1000] or item.title)
                assert response.degraded[1:] == ()  # without `semantic`, which needs an embedder
                wire.dumps(wire.response_json(response)).encode()


@pytest.mark.spec("B4")
def test_queries_of_hostile_text_are_safe(office: Memory) -> None:
    queries: list[str] = []

    @settings(QUICK, max_examples=2)
    @given(st.lists(_TEXTS, min_size=75, max_size=75))
    def make(found: list[str]) -> None:
        queries.extend(found)

    make()
    for query in queries:
        if query.strip():
            response = office.search(query)
            assert response.degraded == ()
            wire.dumps(wire.response_json(response)).encode("utf-8")


@pytest.mark.spec("B4")
def test_a_response_to_half_a_surrogate_pair_is_valid_json(office: Memory) -> None:
    """A query may contain a lone surrogate, which UTF-8 cannot encode; the response must still be printable."""
    answer = wire.dumps(wire.response_json(office.search("printer \ud83d")))
    answer.encode("utf-8")


def test_ten_megabytes_in_one_line_are_refused_quickly_and_a_megabyte_is_stored(opened: Opener) -> None:
    memory = opened(embedder="none")
    with pytest.raises(InvalidItem, match="bytes"):
        memory.add("word " * 2_000_000)
    with pytest.raises(InvalidItem, match="bytes"):
        memory.add(NewItem(title="x" * 10_000_000))
    text = ("a" + "\u0301" * 20 + " ") * (limits.ITEM_BYTES // 45)
    stored = memory.add(text.strip())
    assert stored.text == unicodedata.normalize("NFC", text.strip())
    memory.add("heron " * 1000)
    assert len(texts(memory.search("heron"))) == 1


@pytest.mark.spec("B11")
def test_links_and_headings_of_a_hostile_text_are_processed_quickly(opened: Opener) -> None:
    memory = opened(embedder="none")
    memory.add("[[" * 50_000)
    memory.add("# \n" * 50_000 + "x")
    memory.add("[a](" * 50_000)
    memory.add("\n".join(f"# Heading {number}" for number in range(10_000)))
    assert memory.count() == 4
    assert memory.check() == []

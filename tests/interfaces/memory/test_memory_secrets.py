"""Hostile text is stored exactly or refused, and secrets in text are masked, refused or allowed."""

import json
import random
import string
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest
from engine_support import Opener, WordEmbedder, files_with, texts
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fourfold import ItemPatch, Memory, NewItem, Settings, limits, wire
from fourfold.errors import InvalidItem
from fourfold.wire import encode

# ---------------------------------------------------------------- secrets


KEY = "ghp_" + "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=36))
"""A key assembled here, so that secret scanners do not report the repository."""
MASK = "[secret: github token]"


def stored_everywhere(memory: Memory, folder: Path) -> list[str]:
    """The stored contents of every method that writes, as one text each."""
    memory.add(f"add: {KEY}")
    memory.add_many([NewItem(f"many: {KEY}", title=f"title {KEY}", tags=(f"tag-{KEY}",), metadata={"a": [KEY]})])
    changed = memory.add("update: nothing yet")
    memory.update(changed.id, ItemPatch(text=f"update: {KEY}", metadata={"token": KEY}))
    memory.update(changed.id, ItemPatch(add_tags=("changed",)))
    memory.add_raw(f"raw: {KEY}", metadata={"header": KEY})
    memory.add_node("Router", properties={"note": KEY})
    (folder / "docs").mkdir()
    (folder / "docs" / "notes.md").write_text(f"# Deploy\n\nfile: {KEY}\n")
    memory.index_folders([folder / "docs"])
    (folder / "rows.jsonl").write_text(json.dumps({"text": f"row: {KEY}"}) + "\n")
    memory.import_file(folder / "rows.jsonl")
    memory.export(folder / "export.jsonl")
    return (folder / "export.jsonl").read_text().splitlines()


@pytest.mark.spec("C16")
def test_every_method_that_writes_masks_secrets(opened: Opener, tmp_path: Path) -> None:
    lines = stored_everywhere(opened(), tmp_path)
    assert not [line for line in lines if KEY in line]
    for way in ("add", "many", "update", "raw", "file", "row"):
        assert [line for line in lines if f"{way}: {MASK}" in line], way


def named(memory: Memory) -> list[object]:
    """What the methods that store names return."""
    fact = memory.add("fact", kind=f"kind {KEY}", subject=f"subject {KEY}", attribute=f"attribute {KEY}")
    return [
        memory.add_edge(f"from {KEY}", f"relation {KEY}", f"to {KEY}"),
        memory.add_node("Router", label=f"label {KEY}"),
        memory.add_raw("raw", f"speaker {KEY}"),
        (fact.kind, fact.subject, fact.attribute),
    ]


@pytest.mark.spec("C16")
def test_names_of_nodes_edges_facts_and_speakers_are_masked(opened: Opener, tmp_path: Path) -> None:
    memory = opened()
    shown = "\n".join(map(str, named(memory)))
    memory.export(tmp_path / "export.jsonl")
    for text in (shown, (tmp_path / "export.jsonl").read_text()):
        assert KEY not in text
        for name in ("from", "relation", "to", "label", "speaker", "kind", "subject", "attribute"):
            assert f"{name} {MASK}" in text, name


@pytest.mark.spec("C16")
def test_an_export_with_secret_names_is_imported_masked(opened: Opener, tmp_path: Path) -> None:
    memory = opened(settings=Settings(secrets="allow"))
    named(memory)
    memory.export(tmp_path / "export.jsonl")
    copy = opened("copy")
    copy.import_file(tmp_path / "export.jsonl")
    copy.export(tmp_path / "copy.jsonl")
    assert KEY not in (tmp_path / "copy.jsonl").read_text()
    assert f"relation {MASK}" in (tmp_path / "copy.jsonl").read_text()
    assert copy.check() == []


@pytest.mark.spec("C16")
def test_a_private_key_that_is_longer_than_a_chunk_is_masked_to_its_end(opened: Opener, tmp_path: Path) -> None:
    letters = random.Random(8).choices(string.ascii_letters + string.digits + "+/", k=64 * 50)
    lines = ["".join(letters[start : start + 64]) for start in range(0, len(letters), 64)]
    key = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])
    (tmp_path / "notes.md").write_text(f"# Deploy\n\nBefore.\n\n```\n{key}\n```\n\nAfter.\n")
    (tmp_path / "settings.py").write_text(f'KEY = """{key}"""\n\n\ndef after():\n    return KEY\n')
    memory = opened()
    memory.index_folders([tmp_path])
    texts = [item.text for item in memory.list(limit=100)]
    assert len(texts) > 4
    assert not [line for line in lines for text in texts if line in text]
    assert [text for text in texts if "Before." in text]
    assert [text for text in texts if "After." in text]
    assert [text for text in texts if "def after()" in text]


@pytest.mark.spec("C16")
def test_an_export_with_secrets_is_imported_masked(opened: Opener, tmp_path: Path) -> None:
    lines = stored_everywhere(opened(settings=Settings(secrets="allow")), tmp_path)
    assert [line for line in lines if KEY in line]
    copy = opened("copy")
    copy.import_file(tmp_path / "export.jsonl")
    copy.export(tmp_path / "copy.jsonl")
    assert KEY not in (tmp_path / "copy.jsonl").read_text()
    assert copy.check() == []


@pytest.mark.spec("C16")
def test_the_result_names_what_was_masked(opened: Opener) -> None:
    memory = opened()
    item = memory.add(f"the key is {KEY}")
    assert item.text == f"the key is {MASK}"
    assert encode(item)["masked"] == ["github token"]
    assert "masked" not in encode(memory.add("no key here"))


@pytest.mark.spec("C16")
def test_refusing_names_the_kind_and_stores_nothing(opened: Opener, tmp_path: Path) -> None:
    memory = opened(settings=Settings(secrets="refuse"))
    kept = memory.add("without")
    for write in (
        lambda: memory.add_many([NewItem("fine"), NewItem(f"key {KEY}")]),
        lambda: memory.update(kept.id, ItemPatch(text=KEY)),
        lambda: memory.add_raw(KEY),
        lambda: memory.add_node("n", properties={"k": KEY}),
        lambda: memory.add_edge("n", "uses", KEY),
        lambda: memory.add("fact", subject=KEY, attribute="is"),
    ):
        with pytest.raises(InvalidItem, match="github token") as raised:
            write()
        assert KEY not in str(raised.value)
    (tmp_path / "secret.md").write_text(KEY)
    report = memory.index_folders([tmp_path / "secret.md"])
    assert [reason for reason in report.skipped if "github token" in reason]
    assert memory.count() == 1


@pytest.mark.spec("C16")
def test_a_scan_finds_stored_secrets_and_masks_every_byte(either: Path | str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Memory.open(either, embedder=WordEmbedder(), settings=Settings(secrets="allow")) as memory:
        stored_everywhere(memory, tmp_path)
        memory.within("other").add(f"elsewhere: {KEY}", wait=True)
        memory.embed_pending()
        memory.index()
        found = memory.scan_secrets()
        assert {line.split(": ")[0] for line in found} == {"default", "other"}
        assert {line.split(": ")[1].split()[0] for line in found} >= {"item", "raw", "node", "version"}
        assert not [line for line in found if KEY in line]
        done = memory.scan_secrets(mask=True)
        assert len([line for line in done if line.startswith("masked: ")]) == len(found)
        assert memory.scan_secrets() == []
        assert memory.check() == []
        assert memory.count() == 5
        memory.export(tmp_path / "after.jsonl")
        assert KEY not in (tmp_path / "after.jsonl").read_text()
        assert files_with(folder, KEY) == []
    assert files_with(folder, KEY) == []


@pytest.mark.spec("C16")
def test_masking_also_removes_secrets_that_were_forgotten_or_superseded_and_old_copies(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    fact = {"subject": "router", "attribute": "password"}
    with Memory.open(folder, embedder=WordEmbedder(), settings=Settings(secrets="allow")) as memory:
        forgotten = memory.add(f"forgotten: {KEY}", wait=True)
        memory.index()
        memory.forget([forgotten.id])
        (folder / "before-schema-2.db").write_text(f"a copy from before a migration: {KEY}")
        assert memory.scan_secrets() == []
        assert files_with(folder, KEY)
        memory.scan_secrets(mask=True)
        assert files_with(folder, KEY) == []
        memory.add(NewItem(f"old value: {KEY}", **fact), wait=True)
        memory.add(NewItem("the new value", **fact), wait=True)
        memory.index()
        assert len([line for line in memory.scan_secrets(mask=True) if line.startswith("masked: ")]) == 1
        assert files_with(folder, KEY) == []
        assert memory.check() == []
    assert files_with(folder, KEY) == []


# ---------------------------------------------------------------- hostile text


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

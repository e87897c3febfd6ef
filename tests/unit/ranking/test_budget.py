"""Token estimates and budgets."""

import base64
import json
import random
from pathlib import Path

import pytest

from fourfold import wire
from fourfold.serve.budget import fitting, shortened, tokens

ROOT = Path(__file__).parents[3]
CHOOSER = random.Random(1)
SAMPLES = {
    "prose": (ROOT / "docs" / "ranking.md").read_text("utf-8"),
    "code": (ROOT / "src" / "fourfold" / "memory.py").read_text("utf-8"),
    "C": (ROOT / "src" / "fourfold" / "native" / "terms.c").read_text("utf-8"),
    "JSON": (ROOT / "tests" / "interfaces" / "mcp" / "snapshots" / "tools-all.jsonl").read_text("utf-8"),
    "German": "Die Krankenversicherung übernimmt die Kosten der Behandlung, sofern ein Antrag gestellt wurde. " * 9,
    "answer": json.dumps([{"id": n, "title": "Note", "content": "a spare key", "score": 0.1} for n in range(50)]),
    "Chinese": "系统在启动时会加载模型，并且在内存中保留索引。用户可以随时删除记录。",
    "Russian": "Система загружает модель при запуске и хранит индекс в памяти.",
    "emoji": "👨‍👩‍👧 🎉🚀😀 " * 20,
    "hexadecimal": " ".join(f"{CHOOSER.getrandbits(128):032x}" for _ in range(50)),
    "base64": base64.b64encode(CHOOSER.randbytes(3000)).decode(),
    "digits": " ".join(str(CHOOSER.getrandbits(60)) for _ in range(100)),
    "signs": "".join(CHOOSER.choice("!@#$%^&*()_+-=[]{}|;:,./<>?`~") for _ in range(2000)),
    "spaces": " " * 5000 + "\n" * 500,
}


@pytest.mark.spec("C5")
@pytest.mark.parametrize("name", SAMPLES)
def test_the_estimate_is_at_least_the_number_of_tokens_of_a_model(name: str) -> None:
    """Compared with o200k, the vocabulary of OpenAI's models."""
    o200k = pytest.importorskip("rs_bpe.bpe").openai.o200k_base()
    read = len(o200k.encode(SAMPLES[name]))
    assert 0.95 * read <= tokens(SAMPLES[name])
    if name in ("prose", "code", "C", "JSON", "answer"):
        assert tokens(SAMPLES[name]) <= 1.3 * read


def entry(number: int, length: int) -> list[dict[str, object]]:
    """Three forms: bare, with a snippet, in full."""
    bare: dict[str, object] = {"id": number}
    return [bare, {**bare, "snippet": "some words"}, {**bare, "content": "word " * length}]


def size(forms: list[dict[str, object]]) -> int:
    return tokens(wire.compact(forms))


@pytest.mark.spec("B12", "C5")
@pytest.mark.parametrize("budget", [100, 130, 200, 400, 1_000, 5_000])
def test_all_entries_fit_and_the_first_ones_are_complete(budget: int) -> None:
    entries = [entry(number, 100) for number in range(10)]
    kept = fitting(entries, budget)
    assert [form["id"] for form in kept] == list(range(10))
    assert size(kept) <= budget
    full = ["content" in form for form in kept]
    assert full == sorted(full, reverse=True)
    if any(full):
        assert all("content" in form or "snippet" in form for form in kept)
    if budget == 5_000:
        assert all(full)


@pytest.mark.spec("B12")
def test_entries_are_dropped_only_if_their_smallest_forms_do_not_fit() -> None:
    kept = fitting([entry(number, 5) for number in range(100)], 100)
    assert 5 < len(kept) < 100
    assert [form["id"] for form in kept] == list(range(len(kept)))
    assert fitting([entry(7, 5)], 1) == [{"id": 7}]
    assert fitting([], 100) == []


@pytest.mark.spec("B12")
@pytest.mark.parametrize(
    "text", ["word " * 3000, "\n" * 3000, 'a "quoted" \\ word\t' * 500, "系统在启动" * 500, " " * 9000]
)
def test_a_text_is_cut_to_its_budget(text: str) -> None:
    part = shortened(text, 200)
    assert text.startswith(part)
    assert 0 < len(part) < len(text)
    assert tokens(wire.compact(part)) <= 200 < tokens(wire.compact(text[: len(part) + 20]))
    assert shortened(part, 200) == part

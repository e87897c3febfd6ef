"""`fourfold tune` and `fourfold presets`: a setting is kept only if it helps, and can be removed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
SYLLABLES = ("ka", "lo", "mi", "ru", "te", "vo", "sa", "ne")
PRESETS = Path("home", "config", "fourfold", "presets.json")


def collection(folder: Path, questions: int) -> str:
    """A collection of invented words, of which the answer has two and a decoy one, so that only words can decide."""
    draw = random.Random(3)

    def word() -> str:
        return "".join(draw.choice(SYLLABLES) for _ in range(3))

    rows: list[dict[str, Any]] = []
    asked: list[dict[str, Any]] = []
    judged = ["query-id\tcorpus-id\tscore"]
    for number in range(questions):
        first, second = word(), word()
        rows += [
            {"_id": f"a{number}", "text": f"{first} {word()} {word()} {word()} {second} {word()} {word()}"},
            {"_id": f"d{number}", "text": f"{first} {first}"},
        ]
        asked.append({"_id": f"q{number}", "text": f"{first} {second}"})
        judged.append(f"q{number}\ta{number}\t1")
    folder.mkdir()
    for name, lines in (("corpus", rows), ("queries", asked)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (folder / "qrels.tsv").write_text("\n".join(judged) + "\n", encoding="utf-8")
    return str(folder)


def test_a_useful_setting_is_saved_used_listed_and_removed(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    folder, cache = collection(home / "judged", 100), str(home / "cache")
    found = cli("tune", folder, "--cache", cache, "--save", "office", "--json")
    assert found.code == 0, found.err
    fitted = found.json["fitted"]
    assert fitted["helps"]
    assert fitted["preset"] == "office"
    assert fitted["constants"]["balance"] < 0
    before, after = (
        cli("eval", folder, "--cache", cache, "--preset", name, "--json").json for name in ("auto", "office")
    )
    assert after["ndcg@10"] > before["ndcg@10"]
    listed = cli("presets", "--json").json["presets"]["office"]
    assert listed["explained"] == fitted["explained"]
    assert listed["gain"] == pytest.approx(fitted["held_out"]["difference"])
    assert "office" in cli("presets").out
    assert cli("presets", "--remove", "office").code == 0
    assert json.loads((home / PRESETS).read_text("utf-8"))["presets"] == {}
    refused = cli("eval", folder, "--cache", cache, "--preset", "office")
    assert refused.code == 1
    assert "unknown preset 'office'" in refused.err
    assert cli("presets", "--remove", "office").code == 1


def test_a_setting_that_does_not_help_is_refused(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    folder = home / "judged"
    collection(folder, 24)
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()]
    alone = [json.dumps(row) for row in rows if row["_id"].startswith("a")]
    (folder / "corpus.jsonl").write_text("\n".join(alone) + "\n", encoding="utf-8")
    done = cli("tune", str(folder), "--cache", str(home / "cache"), "--save", "office")
    assert done.code == 1
    assert "nothing was kept" in done.err
    assert "| alpha | nDCG@10 train |" in done.out
    assert cli("tune", str(folder), "--cache", str(home / "cache")).code == 0, "without --save it only reports"
    assert not (home / PRESETS).exists()
    assert "no tuned presets" in cli("presets").out


def test_a_name_of_a_built_in_preset_is_refused_before_anything_is_measured(cli: Cli, home: Path) -> None:
    done = cli("tune", str(home / "missing"), "--save", "wiki")
    assert done.code == 1
    assert "a tuned preset cannot be called 'wiki'" in done.err
    done = cli("tune", str(home / "missing"), "--save", "office", "--preset", "wiki")
    assert (done.code, "--save keeps constants of auto" in done.err) == (1, True)

"""eval and tune."""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

GARDEN = str(Path(__file__).parents[2] / "unit" / "evaluation" / "garden")
FIELDS = [
    *("dataset", "queries", "ndcg@10", "recall@10", "recall@100", "hit@1", "hit@5", "hit@10", "mrr"),
    *("all_relevant@5", "all_relevant@10", "latency_ms"),
]


@pytest.fixture
def garden(home: Path) -> list[str]:
    return [GARDEN, "--cache", str(home / "cache")]


@pytest.mark.spec("S5.7")
def test_eval_reports_every_metric_of_the_specification(cli: Cli, home: Path, garden: list[str]) -> None:
    done = cli("eval", *garden, "--json")
    assert done.code == 0
    assert list(done.json)[:13] == ["status", *FIELDS]
    assert (done.json["dataset"], done.json["queries"]) == ("garden", 16)
    assert set(done.json["latency_ms"]) == {"p50", "p95"}
    assert set(done.json["by_category"]) == {"paraphrase", "exact", "relational", "german", "tag", "typo"}
    assert done.json["by_category"]["exact"]["hit@10"] == 1.0
    assert done.json["plan"]["preset"] == "auto"
    assert "no embedder" in done.json["degraded"][0]
    assert not (home / "store").exists(), "eval must not use the user's store"


@pytest.mark.spec("S5.7")
def test_eval_weighs_results_by_their_source(cli: Cli, garden: list[str]) -> None:
    done = cli("eval", *garden, "--source-weights", "user=0.5", "--json")
    assert (done.code, done.json["plan"]["source_weights"]) == (0, {"user": 0.5})
    refused = cli("eval", *garden, "--source-weights", "nobody=0.5")
    assert (refused.code, "nobody" in refused.err) == (1, True)


@pytest.mark.spec("S5.7")
def test_eval_with_the_model_in_lines(cli: Cli, garden: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    done = cli("eval", *garden)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split("\t")[:3] == ["", "queries", "ndcg@10"], "a pipe gets the header, too"
    assert next(line for line in lines if line.startswith("garden\t16\t"))
    assert float(lines[-3].split("\t")[7]) >= 0.75, "hits are among the first ten"
    assert lines[-2].startswith("latency p50 ")
    assert "AUC" in lines[-1]
    assert "degraded" not in done.err


@pytest.mark.spec("S5.7")
def test_a_baseline_fails_on_a_significant_loss_only(cli: Cli, home: Path, garden: list[str]) -> None:
    saved = home / "run.jsonl"
    assert cli("eval", *garden, "--save", str(saved)).code == 0
    header, *rows = [json.loads(line) for line in saved.read_text("utf-8").splitlines()]
    assert (header["type"], header["dataset"]) == ("fourfold-eval", "garden")
    assert len(rows) == 18
    assert {"query", "category", "ndcg@10", "confidence", "ms", "ranked"} <= rows[0].keys()
    assert "ndcg@10" not in rows[-1], "unanswerable questions have no relevance metric"
    same = cli("eval", *garden, "--baseline", str(saved), "--json")
    assert same.code == 0
    assert same.json["comparison"]["ndcg@10"]["difference"] == 0.0
    worse = cli("eval", *garden, "--only", "tags", "--baseline", str(saved))
    assert worse.code == 1
    assert "below the baseline" in worse.err
    assert "ndcg@10" in worse.out


@pytest.mark.spec("S5.7")
@pytest.mark.parametrize(
    ("text", "said"),
    [("", "does not contain a run"), ('{"type": "other"}\n', "is not a saved run"), ("{", "run.jsonl:1: not JSON")],
)
def test_a_file_that_is_not_a_run_is_refused_before_measuring(cli, home, garden, text, said):
    (home / "run.jsonl").write_text(text, "utf-8")
    done = cli("eval", *garden, "--baseline", str(home / "run.jsonl"))
    assert (done.code, said in done.err) == (1, True), done.err
    assert not (home / "cache").exists()


@pytest.mark.spec("S5.7")
def test_a_table_of_every_variant(cli: Cli, garden: list[str]) -> None:
    done = cli("eval", *garden, "--table", "--json")
    assert done.code == 0
    variants = done.json["variants"]
    presets = {"insights-basic", "insights", "wiki", "files", "memories"}
    assert variants.keys() == {
        "keyword",
        "graph",
        "tags",
        "auto",
        "auto without graph",
        *presets,
        "rrf .5/.5",
        "weighted .5/.5",
    }
    assert "semantic" not in variants, "there is no embedder here"
    best = done.json["best_single"]
    assert variants[best]["ndcg@10"] == max(variants[name]["ndcg@10"] for name in ("keyword", "graph", "tags"))
    assert variants[best]["beside_best_single"]["difference"] == 0.0
    refused = cli("eval", *garden, "--table", "--only", "keyword")
    assert (refused.code, "--only" in refused.err) == (1, True)


@pytest.mark.spec("S5.7")
def test_tune_chooses_on_one_half_and_plots(cli, home, garden, monkeypatch):
    """The Markdown form is executed in docs/quality.md."""
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    done = cli("tune", *garden, "--plot", str(home / "grids.svg"), "--json")
    assert done.code == 0
    assert "<svg" in (home / "grids.svg").read_text("utf-8")
    form = done.json
    assert form["queries"]["train"] + form["queries"]["held_out"] == 16
    assert list(form["grids"]) == ["alpha", "weight of semantic", "weight of graph", "weight of tags"]
    assert [point["value"] for point in form["grids"]["alpha"]["points"]] == [0.3, 0.5, 0.6, 0.7, 0.8, 1.0]
    assert all(point["p95_ms"] > 0 for one in form["grids"].values() for point in one["points"])
    for one in form["grids"].values():
        train = {point["value"]: point["train"]["ndcg@10"] for point in one["points"]}
        assert train[one["chosen"]] == max(train.values())
        held = {point["value"]: point["held_out"]["ndcg@10"] for point in one["points"]}
        gain = held[one["chosen"]] - form["auto"]["held_out"]["ndcg@10"]
        assert one["held_out_beside_auto"]["difference"] == pytest.approx(gain, abs=2e-4)


@pytest.mark.spec("S5.7")
@pytest.mark.parametrize(
    ("options", "name", "points"),
    [
        (["--preset", "insights-basic"], "weights of insights-basic, rrf", 11),
        (["--preset", "files", "--fusion", "weighted"], "weights of files, weighted", 11),
        (["--preset", "memories", "--fusion", "rrf"], "alpha", 6),
    ],
)
def test_tune_over_the_weights_of_a_preset_by_a_fusion(cli, home, garden, monkeypatch, options, name, points):
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "builtin")
    done = cli("tune", *garden, *options, "--plot", str(home / "grids.svg"), "--json")
    assert done.code == 0, done.err
    (found,) = done.json["grids"].values()
    assert ([*done.json["grids"]], len(found["points"])) == ([name], points)
    assert all(point["p95_ms"] > 0 for point in found["points"])
    preset = options[1]
    gain = found[f"held_out_beside_{preset}"]["difference"]
    chosen = next(point for point in found["points"] if point["value"] == found["chosen"])
    assert gain == pytest.approx(chosen["held_out"]["ndcg@10"] - done.json[preset]["held_out"]["ndcg@10"], abs=2e-4)


@pytest.mark.spec("S5.7")
def test_eval_asks_the_users_own_store_or_an_export(cli: Cli, home: Path) -> None:
    for text, key in (("A heron stands in the river", "heron"), ("An otter swims", "otter")):
        assert cli("add", text, "--key", key).code == 0
    questions = home / "questions.tsv"
    questions.write_text("heron\tkey:heron\tbirds\notter\t2\nrathole\t2\tops\tknown failure\n", "utf-8")
    done = cli("eval", "--store-items", str(questions), "--json")
    assert done.code == 0, done.err
    assert (done.json["dataset"], done.json["queries"], done.json["hit@10"]) == ("questions", 2, 1.0)
    assert done.json["known_failures"]["queries"] == 1
    lines = cli("eval", "--store-items", str(questions)).out.splitlines()
    assert lines[0].split("\t")[1:3] == ["queries", "ndcg@10"], "a pipe gets the headings, too"
    assert "known failures: 1, hit@10 0.000; answered by now: none" in lines
    assert cli("export", str(home / "store.jsonl")).code == 0
    copy = cli("eval", str(home / "store.jsonl"), "--store-items", str(questions), "--json")
    assert (copy.json["dataset"], copy.json["ndcg@10"]) == ("store", done.json["ndcg@10"])
    table = cli("eval", "--store-items", str(questions), "--table", "--json")
    assert table.json["variants"]["keyword"]["hit@10"] == 1.0


@pytest.mark.spec("S5.7")
def test_options_that_eval_refuses_with_the_users_store(cli: Cli, home: Path, garden: list[str]) -> None:
    questions = home / "questions.tsv"
    questions.write_text("heron\tkey:heron\n", "utf-8")
    assert "no questions are given" in cli("eval").err
    assert "cannot be combined with --store-items" in cli("eval", GARDEN, "--store-items", str(questions)).err
    assert "cannot be combined with --store-items" in cli("eval", "--plain", "--store-items", str(questions)).err
    assert "no store in" in cli("eval", "--store-items", str(questions)).err
    assert not (home / "store").exists()


@pytest.mark.spec("S5.7")
def test_options_that_tune_refuses(cli: Cli, home: Path, garden: list[str]) -> None:
    assert "no embedder" in cli("tune", *garden).err
    assert "unsupported image format '.txt'" in cli("tune", *garden, "--plot", str(home / "grids.txt")).err
    assert "no folder" in cli("tune", *garden, "--plot", str(home / "none" / "grids.png")).err
    assert not (home / "cache").exists()


@pytest.mark.spec("S5.7")
def test_a_malformed_collection_and_an_invalid_plan_exit_with_1(cli: Cli, home: Path, garden: list[str]) -> None:
    done = cli("eval", str(home / "none"), "--json")
    assert (done.code, done.json["status"]) == (1, "error")
    assert cli("eval", *garden, "--weights", "semantic=0.5").code == 1
    assert cli("eval", *garden, "--preset", "nonsense").code == 1


@pytest.mark.spec("S5.7")
def test_a_plot_without_the_extra_names_the_package_to_install(cli, home, garden, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = cli("tune", *garden, "--plot", str(home / "grids.png"))
    assert done.code == 3
    assert "fourfold[eval]" in done.err


# ---------------------------------------------------------------- `fourfold tune` and `fourfold presets`


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


def test_a_useful_setting_is_saved_used_listed_and_removed(cli, home, monkeypatch):
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

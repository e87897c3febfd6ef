"""Fill the tables of docs/benchmarks.md about quality: collections and required figures, measured with this engine.

    python benchmarks/quality.py [--data FOLDER] [--questions N] [NAME ...]

FOLDER holds collections as NAME.tar.xz or NAME/ (corpus.jsonl, queries.jsonl, qrels.tsv); `demo` is the demo's own.
Without names: all of them. Figures of collections that are not named stay as they were (benchmarks/quality.json,
benchmarks/quality-odds.json). With the demo, each preset is measured and timed on its questions.
Vectors are cached, so a second run embeds only what changed. What is measured is what `fourfold eval DIR --table`
measures: one search per question yields the candidates from which the rankings of the variants follow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from statistics import mean, median
from typing import Any

from replay import column_means, held_out_table, keep_odds, kept_odds, replayed

from fourfold import Settings
from fourfold.evaluation.bench import Variant, open_bench, percentile
from fourfold.evaluation.collection import Collection, read_collection
from fourfold.evaluation.metrics import MAIN, VARIANTS, Run, Scores, compared, means, measure
from fourfold.evaluation.tune import STEPS
from fourfold.ranking.plan import PRESETS
from fourfold.ranking.retrievers import RETRIEVERS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "benchmarks" / "quality.json"
DEMO = "demo"
MULTI_HOP = "2wikimultihopqa"


def main() -> None:
    """Measure, keep the figures, write the tables."""
    options = read_options()
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for name in options.names or names_in(options.data):
        with collection(options.data, name) as found:
            results[name] = figures(cut(found, options.questions), options.cache)
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        print(f"{name}: auto {results[name]['variants']['auto']['ndcg@10']:.3f}", flush=True)
    if not options.names or DEMO in options.names:
        results["bars"] = bars(options.cache)
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write_page(results)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    parser.add_argument(
        "--questions", type=int, help="the maximum number of questions per collection, always the same ones"
    )
    parser.add_argument("--cache", type=Path, help="where vectors are kept; default: the user's cache")
    parser.add_argument("names", nargs="*", metavar="NAME")
    return parser.parse_args()


def names_in(data: Path) -> list[str]:
    """All collections of a folder, and the demo."""
    if not data.is_dir():
        print(f"no collections in {data}: only the demo; name their folder with --data", flush=True)
        return [DEMO]
    found = {path.name.removesuffix(".tar.xz") for path in data.iterdir() if path.name.endswith(".tar.xz")}
    return [DEMO, *sorted(found | {path.parent.name for path in data.glob("*/qrels.tsv")})]


@contextmanager
def collection(data: Path, name: str) -> Iterator[Collection]:
    """A collection by its name, unpacked if need be."""
    if name == DEMO:
        yield read_collection(Path(str(files("fourfold"))) / "demo")
    elif (data / name).is_dir():
        yield read_collection(data / name)
    else:
        with tempfile.TemporaryDirectory() as folder, tarfile.open(data / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
            yield read_collection(Path(folder) / name)


def cut(found: Collection, questions: int | None) -> Collection:
    """Fewer questions, chosen by their ids."""
    kept = sorted(found.questions, key=lambda question: hashlib.sha256(question.id.encode()).digest())[:questions]
    ids = {question.id for question in kept}
    judged = {question: items for question, items in found.judgements.items() if question in ids}
    return replace(found, questions=tuple(kept), judgements=judged)


# ---------------------------------------------------------------- measuring


def figures(found: Collection, cache: Path | None) -> dict[str, Any]:
    """Every variant but the presets, and `auto` compared with what it has to beat."""
    with open_bench(found, Settings(), cache) as bench:
        bench.fill()
        replay = replayed(bench)
        variants = replay.variants
        variants["graph"] = dict(measure(bench, Variant("graph", {"only": ("graph",)})).scores)
        variants["auto without graph"] = variants["auto"]
        if any(replay.connected):
            only = ("semantic", "keyword", "tags")
            variants["auto without graph"] = dict(measure(bench, Variant("", {"only": only})).scores)
    fixed = column_means(replay.fixed)
    single = max(RETRIEVERS, key=lambda name: summary(variants[name])[MAIN])
    keep_odds(found.name, column_means(replay.odds))
    return {
        "items": len(found.items),
        "queries": len(variants["auto"]),
        "variants": {name: summary(rows) for name, rows in variants.items()},
        "best_single": single,
        "beside_best_single": beside(variants, single),
        "beside_rrf": beside(variants, "rrf .5/.5"),
        "beside_no_graph": beside(variants, "auto without graph"),
        "best_weight": {"semantic": STEPS[fixed.index(max(fixed))], MAIN: max(fixed)},
        "measured": datetime.now(UTC).date().isoformat(),
    }


def summary(rows: Mapping[str, Scores]) -> dict[str, float]:
    """The mean of each metric that is kept."""
    found = means(rows.values())
    return {metric: found[metric] for metric in METRICS}


def beside(variants: Mapping[str, Mapping[str, Scores]], other: str) -> dict[str, float]:
    """`auto` compared with another variant, question by question."""
    old, new = ({question: row[MAIN] for question, row in variants[name].items()} for name in (other, "auto"))
    return compared(old, new).form()


def p95(run: Run) -> float:
    """The time that 95 % of the searches need at most."""
    return percentile([answer.milliseconds for answer in run.answers], 0.95)


METRICS = (MAIN, "hit@10", "recall@10", "mrr", "all_relevant@10")


def bars(cache: Path | None) -> dict[str, Any]:
    """The demo's questions, asked by the preset of the source document that sets the bar, with vectors by the model."""
    with collection(Path(), DEMO) as demo:
        (small,) = timed(replace(demo, items=demo.items[:100], links=()), cache, "insights-basic")
        runs = dict(zip(PRESETS, timed(demo, cache, *PRESETS), strict=True))
    return {
        "p95_100_items": p95(small),
        "wiki_p50": percentile([answer.milliseconds for answer in runs["wiki"].answers], 0.5),
        "graph_p95": percentile([answer.timings_ms["graph"] for answer in runs["insights"].answers], 0.95),
        "presets": {name: summary(run.scores) | {"p95": p95(run)} for name, run in runs.items()},
    }


def timed(found: Collection, cache: Path | None, *presets: str) -> list[Run]:
    """Each preset, after a first round that warms everything up."""
    with open_bench(found, Settings(), cache) as bench:
        bench.fill()
        bench.run(Variant("auto"))
        return [measure(bench, Variant(name, {"preset": name}), fresh=True) for name in presets]


# ---------------------------------------------------------------- the page


def write_page(results: dict[str, Any]) -> None:
    """Put the tables between the marks of docs/benchmarks.md."""
    text = PAGE.read_text("utf-8")
    for mark, table in tables(results).items():
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda found, table=table: f"{found[1]}{table}{found[2]}", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


def tables(results: dict[str, Any]) -> dict[str, str]:
    """By the mark in the page."""
    names = sorted(results.keys() - {"bars"}, key=lambda name: (name != DEMO, name))
    collections = {name: results[name] for name in names}
    return {
        "presets": presets_table(results["bars"]["presets"]),
        "variants": variants_table(collections),
        "auto": auto_table(collections),
        "held-out": held_out_table({name: found for name, found in collections.items() if name != DEMO}, kept_odds()),
        "bars": bars_table(results, collections),
    }


def presets_table(presets: dict[str, dict[str, float]]) -> str:
    """A row for each preset, on the demo's questions."""
    rows = [
        f"| `{name}` | {found['hit@10']:.3f} | {found['mrr']:.3f} | {found[MAIN]:.3f} | {found['p95']:.0f} ms |\n"
        for name, found in sorted(presets.items())
    ]
    return "| preset | Hit@10 | MRR | nDCG@10 | p95 |\n|---|--:|--:|--:|--:|\n" + "".join(rows)


def variants_table(collections: dict[str, Any]) -> str:
    """nDCG@10 of every variant, a row for each; the best single retriever of a collection is marked."""
    names = list(collections)
    head = f"| | {' | '.join(names)} |\n|---|{'--:|' * len(names)}\n"
    sizes = " | ".join(f"{found['items']:,} / {found['queries']:,}" for found in collections.values())
    rows = [f"| items / questions | {sizes} |\n"]
    for variant in VARIANTS:
        if variant.name in PRESETS and variant.name != "auto":
            continue
        rows.append(f"| {variant.name} | {' | '.join(cell(found, variant.name) for found in collections.values())} |\n")
    best = " | ".join(
        f"{found['best_weight']['ndcg@10']:.3f} ({found['best_weight']['semantic']:g})"
        for found in collections.values()
    )
    return head + "".join(rows) + f"| best fixed weight, by label (of vectors) | {best} |\n"


def cell(found: dict[str, Any], variant: str) -> str:
    """One value; the best single retriever in bold."""
    value = f"{found['variants'][variant]['ndcg@10']:.3f}"
    return f"**{value}**" if variant == found["best_single"] else value


def auto_table(collections: dict[str, Any]) -> str:
    """`auto` beside what it has to beat, with 95 % intervals, and the means and medians over collections."""
    titles = (
        "best single",
        "RRF .5/.5",
        "best fixed weight",
        "auto without graph",
        "all relevant in ten, without / with graph",
    )
    head = f"| `auto` compared with | {' | '.join(titles)} |\n|---|{'--:|' * len(titles)}\n"
    rows = [auto_row(name, found) for name, found in collections.items()]
    others = {name: found for name, found in collections.items() if name != DEMO}
    rows += [over("mean", others, mean), over("median", others, median)]
    if MULTI_HOP in others:
        rest = {name: found for name, found in others.items() if name != MULTI_HOP}
        rows.append(over(f"mean without {MULTI_HOP}", rest, mean))
    return head + "".join(rows)


def auto_row(name: str, found: dict[str, Any]) -> str:
    """One collection."""
    parts = [interval(found[key]) for key in ("beside_best_single", "beside_rrf")]
    variants = found["variants"]
    whole = [f"{variants[variant]['all_relevant@10']:.2f}" for variant in ("auto without graph", "auto")]
    return (
        f"| {name} | {parts[0]} | {parts[1]} | {to_best_weight(found):+.3f} | {interval(found['beside_no_graph'])} "
        f"| {' / '.join(whole)} |\n"
    )


def to_best_weight(found: dict[str, Any]) -> float:
    """How far `auto` is from the best fixed weight."""
    return found["variants"]["auto"]["ndcg@10"] - found["best_weight"]["ndcg@10"]


def interval(form: dict[str, float]) -> str:
    """+0.012 (-0.001 to +0.025)"""
    return f"{form['difference']:+.3f} ({form['low']:+.3f} to {form['high']:+.3f})"


def over(title: str, collections: dict[str, Any], middle: Any) -> str:
    """A row over all collections but the demo."""
    if not collections:
        return ""
    listed = list(collections.values())
    single, rrf, graph = (
        middle([found[key]["difference"] for found in listed])
        for key in ("beside_best_single", "beside_rrf", "beside_no_graph")
    )
    weight = middle([to_best_weight(found) for found in listed])
    return f"| *{title}* | {single:+.3f} | {rrf:+.3f} | {weight:+.3f} | {graph:+.3f} | |\n"


def bars_table(results: dict[str, Any], collections: dict[str, Any]) -> str:
    """Required and measured figures."""
    found, demo = results["bars"], collections[DEMO]
    presets = found["presets"]
    times = f"{demo['items']} items: p50 {found['wiki_p50']:.0f} ms, p95 {presets['wiki']['p95']:.0f} ms"
    rows = [
        ("p95 < 1 s at 100 items", "`insights-basic`", f"p95 {found['p95_100_items']:.0f} ms"),
        ("< 100 ms", "`wiki`", times),
        ("fusion ranks better than either list", "`auto`", better(collections)),
        ("graph < 200 ms", "`insights`", f"p95 {found['graph_p95']:.1f} ms"),
        ("whole search < 1 s", "`insights`", f"p95 {presets['insights']['p95']:.0f} ms"),
        ("Hit@10 above 85 %", "`memories`", f"{presets['memories']['hit@10']:.1%}"),
        ("p95 < 120 ms", "`memories`", f"p95 {presets['memories']['p95']:.0f} ms"),
    ]
    head = "| required | preset | measured |\n|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def better(collections: dict[str, Any]) -> str:
    """On how many collections `auto` is above both lists."""
    above = [beats(found["variants"], ("semantic", "keyword")) for found in collections.values()]
    every = [beats(found["variants"], RETRIEVERS) for found in collections.values()]
    return f"above semantic and keyword on {sum(above)} of {len(above)} collections, above all four on {sum(every)}"


def beats(variants: dict[str, Any], names: Sequence[str]) -> bool:
    """Whether `auto` is above all of these."""
    return variants["auto"]["ndcg@10"] > max(variants[name]["ndcg@10"] for name in names)


if __name__ == "__main__":
    main()

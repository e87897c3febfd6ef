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
import math
import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fourfold import Settings
from fourfold.engine.pipeline import highest
from fourfold.evaluation.bench import Bench, Variant, open_bench, percentile
from fourfold.evaluation.collection import Collection, read_collection
from fourfold.evaluation.metrics import MAIN, VARIANTS, Run, Scores, compared, means, measure, scores
from fourfold.evaluation.tune import STEPS
from fourfold.limits import TOP_K
from fourfold.ranking.fusion import (
    TEXT_ODDS,
    TEXTS,
    AutoInputs,
    TextEvidence,
    TextOdds,
    columns,
    rrf,
    text_evidence,
    weighted,
)
from fourfold.ranking.plan import PRESETS
from fourfold.ranking.retrievers import RETRIEVERS
from fourfold.retrieval import Candidates, Hit, Ranking

GRID = tuple(
    TextOdds(nearness=nearness, coverage=coverage, fall=fall, code=code, prior=prior)
    for nearness, coverage, fall, code, prior in product(
        (3.0, 4.0, 5.0), (-0.5, -1.0, -1.5), (-0.5, -1.0, -2.0), (1.0, 2.0, 3.0), (-0.5, -1.0, -1.5)
    )
)
HALVES = dict.fromkeys(TEXTS, 0.5)
STEP = 0.2
"""Log odds are rounded to this, which changes a weight by 0.025 at most."""
FAMILIES = ("xquad",)
"""Collections whose names begin so have texts in common."""
ODDS_FILE = Path(__file__).with_name("quality-odds.json")
"""By collection, a line each: the mean nDCG@10 for each point of GRID."""


@dataclass(frozen=True)
class Replay:
    """The candidates of one question."""

    found: Candidates
    relevant: Mapping[str, int]

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """Ascending: ties are ordered by id."""
        return np.unique(np.concatenate([np.fromiter(scaled, np.int64) for scaled in self.found.scaled.values()]))

    @cached_property
    def columns(self) -> dict[str, NDArray[np.float64]]:
        """By list: what its weight multiplies, for each of the ids."""
        made = {name: np.zeros(len(self.ids)) for name in self.found.scaled}
        for name, scaled in self.found.scaled.items():
            places = np.searchsorted(self.ids, np.fromiter(scaled, np.int64))
            made[name][places] = np.fromiter(scaled.values(), np.float64)
        return made

    def value(self, weights: Mapping[str, float]) -> float:
        """The nDCG@10 with these weights of the lists."""
        total = sum((weights.get(name, 0.0) * column for name, column in self.columns.items()), np.zeros(len(self.ids)))
        return self._scores(self.ids[np.argsort(-total, kind="stable")[:10]].tolist())[MAIN]

    def variants(self) -> dict[str, Scores]:
        """The metrics of each list alone, of both texts fused by fixed rules, and of `auto`."""
        lists: dict[str, Sequence[Hit]] = {name: ranking.hits for name, ranking in self.found.lists.items()}
        texts = {name: lists.get(name, ()) for name in TEXTS}
        rankings = {name: columns(lists.get(name, ())).ids.tolist() for name in (*TEXTS, "tags")}
        rankings |= {"rrf .5/.5": rrf(texts, HALVES).ids, "weighted .5/.5": weighted(texts, HALVES).ids}
        rankings["auto"] = [hit.id for hit in self.found.order]
        return {name: self._scores(ids[:TOP_K]) for name, ids in rankings.items()}

    def _scores(self, ids: Sequence[int]) -> Scores:
        return scores(self.relevant, [str(self.found.items[item].key) for item in ids])

    @cached_property
    def has_both(self) -> bool:
        return all(name in self.found.lists and len(self.found.lists[name].hits) for name in TEXTS)

    @cached_property
    def evidence(self) -> TextEvidence | None:
        """None: there is no balance to choose."""
        if not self.has_both:
            return None
        vectors, words = (self.found.lists[name] for name in TEXTS)
        other_vectors, other_words = (self.found.unlisted.get(name, Ranking()) for name in TEXTS)
        inputs = AutoInputs(
            {},
            average=vectors.background,
            coverage=highest({**words.evidence, **other_words.evidence}),
            unknown=words.unknown,
            items=words.items,
            code=words.code,
            foreign=words.foreign,
        )
        return text_evidence(inputs, columns(words.hits), (columns(vectors.hits), columns(other_vectors.hits)))

    def by_odds(self) -> list[float]:
        """The nDCG@10 for each point of GRID."""
        if self.evidence is None:
            return [self.value(self.found.weights)] * len(GRID)
        steps = [round(odds.log_odds(self.evidence) / STEP) for odds in GRID]
        known = {step: self.value(self._balanced(step * STEP)) for step in set(steps)}
        return [known[step] for step in steps]

    def by_fixed_weight(self) -> list[float]:
        """The nDCG@10 of vectors and words with the same weights for every question, for each of STEPS."""
        return [self.value({"semantic": semantic, "keyword": 1 - semantic}) for semantic in STEPS]

    def _balanced(self, log_odds: float) -> dict[str, float]:
        """The weights with another balance of vectors and words; all others keep their share."""
        weights, share = self.found.weights, 1 / (1 + math.exp(-log_odds))
        both = math.fsum(weights[name] for name in TEXTS)
        return {**weights, "semantic": both * share, "keyword": both * (1 - share)}


@dataclass(frozen=True, slots=True)
class Replayed:
    """Every question of a collection."""

    variants: dict[str, dict[str, Scores]] = field(default_factory=dict[str, dict[str, Scores]])
    """By variant and question."""
    odds: list[list[float]] = field(default_factory=list[list[float]])
    """By question, for each point of GRID."""
    fixed: list[list[float]] = field(default_factory=list[list[float]])
    """By question, for each of STEPS."""
    connected: list[bool] = field(default_factory=list[bool])
    """By question: whether the graph had a part in the ranking."""

    def add(self, question: str, replay: Replay) -> None:
        for name, values in replay.variants().items():
            self.variants.setdefault(name, {})[question] = values
        self.odds.append(replay.by_odds())
        self.fixed.append(replay.by_fixed_weight())
        self.connected.append(not {"graph", "walk"}.isdisjoint(replay.found.weights))


def replayed(bench: Bench) -> Replayed:
    """Search for every question that has an answer."""
    found = Replayed()
    for question in bench.collection.questions:
        if question.id in bench.collection.judgements:
            candidates = bench.search(question, candidates=True).candidates
            assert candidates is not None
            found.add(question.id, Replay(candidates, bench.collection.judgements[question.id]))
    return found


def column_means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [round(mean(column), 5) for column in zip(*rows, strict=True)]


def kept_odds() -> dict[str, list[float]]:
    return json.loads(ODDS_FILE.read_text("utf-8")) if ODDS_FILE.exists() else {}


def keep_odds(name: str, values: list[float]) -> None:
    """Replace the line of one collection."""
    known = {**kept_odds(), name: values}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known))
    ODDS_FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


# ---------------------------------------------------------------- the table


def held_out_table(collections: Mapping[str, Any], odds: Mapping[str, Sequence[float]]) -> str:
    """A row for each collection: its gain with the coefficients in use, and with those chosen on the others."""
    known = {name: _gains(collections[name], values) for name, values in odds.items() if name in collections}
    if not known:
        return ""
    used = GRID.index(TEXT_ODDS)
    rows, held = list[str](), list[float]()
    for name, gains in known.items():
        rest = [other for key, other in known.items() if _family(key) != _family(name)] or [gains]
        chosen = max(range(len(GRID)), key=lambda point: mean(other[point] for other in rest))
        held.append(gains[chosen])
        rows.append(f"| {name} | {gains[used]:+.3f} | {gains[chosen]:+.3f} | {_coefficients(GRID[chosen])} |\n")
    titles = ("gain over the best single", "in use", "chosen on the others", "nearness, coverage, fall, code, prior")
    head = f"| {' | '.join(titles)} |\n|---|--:|--:|---|\n"
    in_use = mean(gains[used] for gains in known.values())
    return head + "".join(rows) + f"| *mean* | {in_use:+.3f} | {mean(held):+.3f} | |\n"


def _coefficients(odds: TextOdds) -> str:
    return ", ".join(f"{value:g}" for value in (odds.nearness, odds.coverage, odds.fall, odds.code, odds.prior))


def _gains(found: Mapping[str, Any], values: Sequence[float]) -> Sequence[float]:
    single = found["variants"][found["best_single"]][MAIN]
    return [value - single for value in values]


def _family(name: str) -> str:
    return next((family for family in FAMILIES if name.startswith(family)), name)


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

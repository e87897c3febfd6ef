"""Fill the tables of docs/quality-embedders.md: what other embedders gain and cost beside the built-in one.

    python benchmarks/embedders.py quality [--beside EMBEDDER ...] [--data FOLDER] [--questions N] [NAME ...]
    python benchmarks/embedders.py rate [--beside EMBEDDER ...] [--data FOLDER] [--texts N]

EMBEDDER: as in the setting, such as onnx:FOLDER, with a title for the tables: TITLE=onnx:FOLDER. `quality`: collections
as for quality.py; every item is embedded, a sample of the questions is asked. `rate`: texts per CPU second, the
embedders in turns. Figures that are not measured again stay as they were (benchmarks/embedders.json).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from quality import DEMO, ROOT, collection, cut, interval, names_in

from fourfold import Settings
from fourfold.embed import OpenAISettings, create
from fourfold.embed.windows import embedded_text
from fourfold.evaluation.bench import Variant, cache_folder, open_bench
from fourfold.evaluation.collection import Collection
from fourfold.evaluation.metrics import Run, compared, measure

PAGE = ROOT / "docs" / "quality-embedders.md"
RESULTS = ROOT / "benchmarks" / "embedders.json"
BUILT_IN = "builtin"
VARIANTS = (Variant("vectors", {"only": ["semantic"]}), Variant("auto"))
ROUNDS = 3
RATED = {"English": "xquad-en", "German": "xquad-de"}
"""The collections whose texts are embedded for the rate."""


def main() -> None:
    """Measure, keep the figures, write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("quality", "rate"))
    parser.add_argument("--beside", nargs="*", default=[], metavar="[TITLE=]EMBEDDER", help="embedders to compare")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="where the collections are")
    parser.add_argument("--questions", type=int, default=120, help="of each collection, always the same ones")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="where vectors are kept")
    parser.add_argument("--texts", type=int, default=100, help="to embed for the rate")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_intermixed_args()
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"quality": {}}
    specs = {BUILT_IN: BUILT_IN, **{each.partition("=")[0]: each.rpartition("=")[2] for each in options.beside}}
    if options.what == "rate":
        results["rate"] = {
            what: rates(texts_of(options.data, name, options.texts), specs) for what, name in RATED.items()
        }
        keep(results)
        return
    for name in options.names or names_in(options.data):
        with collection(options.data, name) as found:
            results["quality"][name] = figures(cut(found, options.questions), specs, options.cache)
        print(f"{name}: {json.dumps(results['quality'][name])}", flush=True)
        keep(results)


def keep(results: dict[str, Any]) -> None:
    """Write the file and the page."""
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    text = PAGE.read_text("utf-8")
    for mark, table in (("vectors", 0), ("auto", 1)) if results["quality"] else ():
        made = quality_table(results["quality"], VARIANTS[table].name)
        text = re.sub(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", rf"\g<1>{made}\g<2>", text, flags=re.DOTALL)
    if "rate" in results:
        made = rate_table(results)
        text = re.sub(r"(<!-- rate -->\n).*?(<!-- end -->)", rf"\g<1>{made}\g<2>", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- quality


def figures(found: Collection, specs: dict[str, str], cache: Path) -> dict[str, Any]:
    """The mean of each variant with each embedder, and how sure the difference to the built-in one is."""
    runs = {name: measured(found, spec, cache) for name, spec in specs.items()}
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
    titles = [title for title in quality[names[0]] if title not in ("items", "questions", BUILT_IN)]
    rows = [f"| nDCG@10 | questions | {' | '.join((BUILT_IN, *titles))} |\n|---|--:|--:|{'--:|' * len(titles)}\n"]
    for name in names:
        found = quality[name]
        cells = [f"{found[BUILT_IN][variant]['ndcg@10']:.3f}", *(cell(found[other][variant]) for other in titles)]
        rows.append(f"| {name} | {found['questions']} | {' | '.join(cells)} |\n")
    others = [quality[name] for name in names if name != DEMO]
    means = [mean(found[each][variant]["ndcg@10"] for found in others) for each in (BUILT_IN, *titles)]
    return "".join(rows) + f"| *mean without demo* | | {' | '.join(f'{value:.3f}' for value in means)} |\n"


def cell(found: dict[str, float]) -> str:
    """0.688, +0.027 (+0.011 to +0.043)"""
    return f"{found['ndcg@10']:.3f}, {interval(found)}"


# ---------------------------------------------------------------- rate and size


def texts_of(data: Path, name: str, count: int) -> list[str]:
    """The first texts of a collection."""
    with collection(data, name) as found:
        return [embedded_text(item.title, item.text) for item in found.items[:count]]


def rates(texts: Sequence[str], specs: dict[str, str]) -> dict[str, float]:
    """Texts per CPU second; the best of some rounds in which the embedders take turns."""
    models = {name: create(spec, openai=OpenAISettings()) for name, spec in specs.items()}
    spent: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS + 1):
        for name, model in models.items():
            begin = time.process_time()
            if model is not None:
                model.embed(texts)
            spent[name].append(time.process_time() - begin)
    return {name: len(texts) / min(times[1:]) for name, times in spent.items()}  # the first round loads


def rate_table(results: dict[str, Any]) -> str:
    """A row for each embedder: its rate, and in brackets beside the built-in one."""
    rows = [f"| embedder | {' | '.join(RATED)} |\n|---|{'--:|' * len(RATED)}\n"]
    for name in next(iter(results["rate"].values())):
        cells = [f"{rate[name]:.0f} ({rate[name] / rate[BUILT_IN]:.2f})" for rate in results["rate"].values()]
        rows.append(f"| {name} | {' | '.join(cells)} |\n")
    return "".join(rows)


if __name__ == "__main__":
    main()

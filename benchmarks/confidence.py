"""Fit the confidence of results, measure it on data that was not used in the fit, and plot its calibration.

    python benchmarks/confidence.py gather [--data FOLDER] [--rows FOLDER] [--cache FOLDER] [NAME ...]
    python benchmarks/confidence.py fit [--rows FOLDER]

`gather` asks every collection, whose judged items are stored but for 40 % of them, three kinds of questions: those that
stored items answer, near misses whose judged items are all missing, and far-off ones of other collections. The demo is
stored whole. `near_misses.py` adds made-up things, and questions about things of the demo. The evidence of the first
ten results of each question is written to FOLDER. Needs the extra `rerank`, whose model reads the results once more.

`fit` prints the logistic fit to all of them (`BOTH` and others of engine/confidence.py), writes the tables of
docs/benchmarks.md, and docs/confidence.svg. Every figure is of data outside of the fit: a collection is left
out (all languages of XQuAD at once, and all questions about the demo), and the made-up things are halved by their
names. Only the demo has questions for relations, so these have no figures. Kinds of questions weigh the same in every
collection, half of a question's weight is that of its first result, and made-up things weigh more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import relations
from near_misses import FOREIGN, THINGS, made_up
from numpy.typing import NDArray
from quality import DEMO, ROOT, collection

from fourfold import Settings
from fourfold.engine.confidence import Evidence, Judge
from fourfold.evaluation.bench import Bench, open_bench
from fourfold.evaluation.collection import Collection, Question

ROWS = Path("build") / "confidence"
PAGE, PLOT = ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "confidence.svg"
NAMES = (
    *(DEMO, "xquad-en", "xquad-de", "xquad-es", "xquad-ru", "xquad-de2en", "xquad-mix-de-en", "covid-faq-de"),
    *("lihua-world", "piaf-fr", "hotpotqa", "2wikimultihopqa", "cacm", "realmem", "scifact-train"),
)
MADE_UP, SMALL, FOREIGN_NAME = "made-up things", "made-up things in small stores", "demo near misses"
RELATIONS = "relations of the demo"
STORES = 10
"""Small stores, with about six things each."""
STORED = 0.6
"""Share of the judged items that are stored."""
QUESTIONS, ITEMS, SCOPED_ITEMS, FAR = 200, 1500, 4000, 4
"""Questions and items of a collection, and far-off questions of each other one."""
TOP = 10
MODES: dict[str, dict[str, Any]] = {
    "all": {},
    "vectors": {"only": ("semantic",)},
    "words": {"only": ("keyword", "graph", "tags")},
    "read": {"rerank": "ms-marco"},
}
PATIENCE = Settings(rerank_seconds=60.0)
ANSWERED, NEAR, OFF = "answered", "near", "far"
SHARES = {ANSWERED: 0.55, NEAR: 0.27, OFF: 0.18}
"""Weights of the kinds of questions: what confidence assumes of those that are asked."""
TIMES = {f"{name}, half {number}": 2 for name in (MADE_UP, SMALL) for number in (1, 2)} | {FOREIGN_NAME: 2}
"""Weights of sources that are not 1: only these ask about names for what is not stored."""
RIDGE = 1e-4
PLAUSIBLE = 0.3
BINS = 10

Floats = NDArray[np.float64]


class Row(NamedTuple):
    """One result of one question."""

    source: str
    """The collection, or the part of it, that is left out together."""
    question: str
    kind: str
    mode: str
    place: int
    right: bool
    near: bool
    """Whether it has a cosine."""
    evidence: tuple[float, ...]


def main() -> None:
    """Gather or fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("gather", "fit"))
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_intermixed_args()
    if options.step == "fit":
        fit([row for file in sorted(options.rows.glob("*.json")) for row in read(file)])
        return
    options.rows.mkdir(parents=True, exist_ok=True)
    recorded = record()
    for name in options.names or (*NAMES, MADE_UP, SMALL, FOREIGN_NAME, RELATIONS):
        rows = list(gathered(name, options.data, options.cache, recorded))
        (options.rows / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
        firsts = [row for row in rows if not row.place and row.mode == "all"]
        right = sum(row.right for row in firsts)
        print(f"{name}: {len(rows)} rows, {dict(Counter(row.kind for row in firsts))}, {right} first right", flush=True)


def read(file: Path) -> Iterator[Row]:
    """The rows of a file."""
    for row in json.loads(file.read_text("utf-8")):
        yield Row(*row[:-1], tuple(row[-1]))


# ---------------------------------------------------------------- gathering

Recorded = dict[int, tuple[float | None, Evidence]]


def record() -> Recorded:
    """Let searches leave the cosine and the evidence of their results in a table, by item."""
    recorded: Recorded = {}
    judged = Judge.evidence

    def recording(self: Judge, ids: Any) -> list[tuple[int, float | None, Evidence]]:
        found = judged(self, ids)
        recorded.update({item: (cosine, evidence) for item, cosine, evidence in found})
        return found

    Judge.evidence = recording
    return recorded


class Asked(NamedTuple):
    """A question with the keys of the items that answer it, asked of what is stored."""

    question: Question
    kind: str
    right: frozenset[str]
    source: str


def gathered(name: str, data: Path, cache: Path | None, recorded: Recorded) -> Iterator[Row]:
    """All rows of one collection."""
    if name in (MADE_UP, SMALL):
        yield from rows_of(*things(name), cache, recorded)
        return
    with collection(data, DEMO if name in (FOREIGN_NAME, RELATIONS) else name) as found:
        if name in (FOREIGN_NAME, RELATIONS):
            asked = foreign(found) if name == FOREIGN_NAME else related(found)
            yield from rows_of(found, list(asked), cache, recorded)
            return
        chosen = smaller(found)
        judged = {key for grades in chosen.judgements.values() for key, grade in grades.items() if grade > 0}
        gone = set[str]() if name == DEMO else {key for key in judged if digest(key) >= STORED}
        asked = [*own(chosen, gone), *far_off(chosen, data)]
        links = tuple(link for link in chosen.links if gone.isdisjoint(link))
        items = tuple(item for item in chosen.items if item.key not in gone)
        yield from rows_of(replace(chosen, items=items, links=links), asked, cache, recorded)


def things(name: str) -> tuple[Collection, list[Asked]]:
    """The made-up things, in one store or each few in their own."""
    items, questions = made_up()
    asked = [
        Asked(
            Question(str(number), each.text, scope=scope(each.thing) if name == SMALL else None),
            ANSWERED if each.answer else NEAR,
            frozenset([each.answer] if each.answer else []),
            f"{name}, half {1 + half(each.thing)}",
        )
        for number, each in enumerate(questions)
    ]
    if name == SMALL:
        items = [replace(item, metadata={"scope": scope((item.key or "").partition("/")[0])}) for item in items]
    return Collection(name, tuple(items), tuple(each.question for each in asked), {}), asked


def scope(thing: str) -> str:
    """The small store of a thing."""
    return str(int(digest(f"{thing} in a small store") * STORES))


def rows_of(stored: Collection, asked: Sequence[Asked], cache: Path | None, recorded: Recorded) -> Iterator[Row]:
    """Ask all questions in all modes."""
    with open_bench(stored, PATIENCE, cache) as bench:
        bench.fill()
        for one in asked:
            for mode, options in MODES.items():
                yield from results_of(bench, one, mode, options, recorded)


def results_of(bench: Bench, asked: Asked, mode: str, options: dict[str, Any], recorded: Recorded) -> Iterator[Row]:
    """The first results of one question."""
    recorded.clear()
    for place, result in enumerate(bench.search(asked.question, top_k=TOP, **options).results):
        cosine, evidence = recorded[result.id]
        right, numbers = result.key in asked.right, tuple(round(number, 5) for number in evidence)
        yield Row(asked.source, asked.question.id, asked.kind, mode, place, right, cosine is not None, numbers)


def smaller(found: Collection) -> Collection:
    """Some questions with all of their items, and others up to a number, chosen by their ids."""
    judged = [question for question in found.questions if question.unanswerable or found.judgements.get(question.id)]
    questions = judged if found.name == DEMO else sorted(judged, key=lambda question: digest(question.id))[:QUESTIONS]
    needed = {key for question in questions for key in found.judgements.get(question.id, {})}
    if found.scoped:
        scopes = {question.scope for question in questions}
        items = [item for item in found.items if item.metadata.get("scope") in scopes][:SCOPED_ITEMS]
    else:
        others = sorted((item.key or "" for item in found.items if item.key not in needed), key=digest)
        kept = {*needed, *others[: max(0, ITEMS - len(needed))]}
        items = [item for item in found.items if item.key in kept]
    keys = {item.key for item in items}
    links = tuple(link for link in found.links if keys.issuperset(link))
    judgements = {question.id: found.judgements.get(question.id, {}) for question in questions}
    return replace(found, items=tuple(items), questions=tuple(questions), judgements=judgements, links=links)


def own(found: Collection, gone: set[str]) -> Iterator[Asked]:
    """The questions of a collection."""
    stored = {item.key for item in found.items} - gone
    for question in found.questions:
        right = frozenset(key for key, grade in found.judgements[question.id].items() if grade > 0)
        kind = OFF if question.unanswerable else ANSWERED if right & stored else NEAR
        yield Asked(question, kind, right, family(found.name))


def far_off(found: Collection, data: Path) -> Iterator[Asked]:
    """Questions of other collections."""
    scopes = sorted({str(question.scope) for question in found.questions if question.scope is not None})
    for name in NAMES:
        if family(name) == family(found.name):
            continue
        with collection(data, name) as other:
            asked = sorted(
                (each for each in other.questions if not each.unanswerable), key=lambda each: digest(each.id)
            )
        for number, each in enumerate(asked[:FAR]):
            scope = scopes[number % len(scopes)] if scopes else None
            question = Question(f"{name} {each.id}", each.text, scope=scope, session_no=1e6 if scopes else None)
            yield Asked(question, OFF, frozenset(), family(found.name))


def foreign(found: Collection) -> Iterator[Asked]:
    """Questions about things of the demo that it does not answer."""
    for item in found.items:
        if item.kind == "person" or item.title in THINGS:
            for number, text in enumerate(FOREIGN["person" if item.kind == "person" else "thing"]):
                question = Question(f"{item.key} {number}", text.format(item.title))
                yield Asked(question, NEAR, frozenset(), FOREIGN_NAME)


def related(found: Collection) -> Iterator[Asked]:
    """Questions for relations of the demo."""
    for number, each in enumerate(relations.questions()):
        right = frozenset(item.key or "" for item in found.items if item.title in each.titles)
        yield Asked(Question(f"{RELATIONS} {number}", each.text), ANSWERED, right, RELATIONS)


def family(name: str) -> str:
    """Collections with the same texts are left out together."""
    return name.partition("-")[0] if name.startswith("xquad") else name


def digest(key: str) -> float:
    """A number in 0..1 that depends on the key alone."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32


def half(thing: str) -> int:
    return int(digest(thing) < 1 / 2)


# ---------------------------------------------------------------- fitting

VARIANTS = {
    "BOTH": ("all", ("nearness", "words", "lead", "alone", "asked", "first")),
    "VECTORS": ("vectors", ("nearness", "lead", "first")),
    "WORDS": ("words", ("words", "lead_words", "asked", "first")),
    "READ": ("read", ("nearness", "words", "lead", "alone", "asked", "first", "read")),
}
"""By the name of the constant: the mode of the searches whose results are fitted, and the evidence."""


def fit(rows: Sequence[Row]) -> None:
    """Print the constants, and write page and plot."""
    for constant, (mode, names) in VARIANTS.items():
        chosen = [row for row in rows if row.mode == mode and ("read" not in names or Evidence(*row.evidence).read)]
        slopes = logistic(matrix(chosen, names), right(chosen), weights(chosen))
        told = ", ".join(f"{name}={slope:.2f}" for name, slope in zip(names, slopes[1:], strict=True))
        print(f"{constant}: Final = Fit({slopes[0]:.2f}, Evidence({told}))")
        chosen = [row for row in chosen if row.source != RELATIONS]
        guessed = held_out(chosen, names)
        if constant == "BOTH":
            PLOT.write_text(plot(calibration_of_firsts(chosen, guessed)), encoding="utf-8")
        if constant in TABLES:
            write(TABLES[constant], chosen, guessed)
        print(*table(chosen, guessed), sep="\n")


def matrix(rows: Sequence[Row], names: Sequence[str]) -> Floats:
    """A column of ones, then the named evidence."""
    places = [Evidence._fields.index(name) for name in names]
    return np.array([[1.0, *(row.evidence[place] for place in places)] for row in rows])


def right(rows: Sequence[Row]) -> Floats:
    return np.array([row.right for row in rows], np.float64)


def weights(rows: Sequence[Row]) -> Floats:
    """The weight of each row: sources and, within each, kinds and places as described at the top."""
    counts = Counter((row.source, row.kind, row.place == 0) for row in rows)
    return np.array(
        [TIMES.get(row.source, 1) * SHARES[row.kind] / counts[row.source, row.kind, row.place == 0] for row in rows]
    )


def logistic(inputs: Floats, outcomes: Floats, weights: Floats) -> Floats:
    """Weighted logistic regression with a small ridge on the slopes, by Newton's method."""
    found, weights = np.zeros(inputs.shape[1]), weights / weights.sum()
    ridge = np.diag([0.0, *[RIDGE] * (inputs.shape[1] - 1)])
    for _ in range(50):
        guessed = odds(inputs @ found)
        slope = inputs.T @ (weights * (guessed - outcomes)) + ridge @ found
        curve = (inputs * (weights * guessed * (1 - guessed))[:, None]).T @ inputs + ridge
        found -= np.linalg.solve(curve, slope)
    return found


def odds(log_odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-log_odds))


def store(source: str) -> str:
    """Sources with the same items are left out together."""
    return DEMO if source in (FOREIGN_NAME, RELATIONS) else source.replace(SMALL, MADE_UP)


def held_out(rows: Sequence[Row], names: Sequence[str]) -> Floats:
    """The confidence of every row by a fit to the other sources."""
    inputs, outcomes, every = matrix(rows, names), right(rows), weights(rows)
    sources = np.array([store(row.source) for row in rows])
    guessed = np.zeros(len(rows))
    for source in np.unique(sources):
        out = sources == source
        guessed[out] = odds(inputs[out] @ logistic(inputs[~out], outcomes[~out], every[~out]))
    return guessed


# ---------------------------------------------------------------- figures

HEAD = (
    "| | first right | AUC far-off | AUC near misses | ECE | right below 0.3 | near misses below 0.3 "
    "| far-off below 0.3 |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)


def table(rows: Sequence[Row], guessed: Floats) -> list[str]:
    """A line for each source, and one for all."""
    firsts = [number for number, row in enumerate(rows) if row.place == 0]
    sources = dict.fromkeys(rows[number].source for number in firsts)
    lines = [
        line(source, [each for each in firsts if rows[each].source == source], rows, guessed) for source in sources
    ]
    return [HEAD, *lines, line("**all**", firsts, rows, guessed)]


def line(title: str, places: Sequence[int], rows: Sequence[Row], guessed: Floats) -> str:
    """The figures of first results."""
    of = {kind: [each for each in places if rows[each].kind == kind] for kind in SHARES}
    answers = guessed[[each for each in of[ANSWERED] if rows[each].right]]
    near, off = guessed[of[NEAR]], guessed[of[OFF]]
    figures = (
        len(answers) / len(of[ANSWERED]) if of[ANSWERED] else None,
        auc(answers, off),
        auc(answers, near),
        calibration_error([rows[each] for each in places], guessed[list(places)]),
        share_below(answers),
        share_below(near),
        share_below(off),
    )
    return f"| {title} | {' | '.join('' if each is None else f'{each:.3f}' for each in figures)} |"


def auc(right: Floats, wrong: Floats) -> float | None:
    """How often a right answer has more confidence than a wrong one."""
    if not len(right) or not len(wrong):
        return None
    return float(np.mean((right[:, None] > wrong) + 0.5 * (right[:, None] == wrong)))


def share_below(values: Floats) -> float | None:
    return float((values < PLAUSIBLE).mean()) if len(values) else None


def calibration_error(rows: Sequence[Row], guessed: Floats) -> float:
    """Mean distance of confidence and frequency over ten bins (ECE)."""
    return sum(weight * abs(said - seen) for said, seen, weight in calibration(rows, guessed))


def calibration(rows: Sequence[Row], guessed: Floats) -> list[tuple[float, float, float]]:
    """For each bin: the mean confidence, the share that answers, and the weight."""
    every, outcomes = weights(rows), right(rows)
    bins = np.minimum((guessed * BINS).astype(int), BINS - 1)
    return [
        (
            float(np.average(guessed[bins == number], weights=every[bins == number])),
            float(np.average(outcomes[bins == number], weights=every[bins == number])),
            float(every[bins == number].sum() / every.sum()),
        )
        for number in range(BINS)
        if every[bins == number].sum()
    ]


def calibration_of_firsts(rows: Sequence[Row], guessed: Floats) -> list[tuple[float, float, float]]:
    firsts = [number for number, row in enumerate(rows) if row.place == 0]
    return calibration([rows[each] for each in firsts], guessed[firsts])


TABLES = {"BOTH": "figures", "READ": "read"}
"""By the name of the constant: the table of the page."""


def write(name: str, rows: Sequence[Row], guessed: Floats) -> None:
    """Put the table into the page."""
    lines = "\n".join(table(rows, guessed))
    marked = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    PAGE.write_text(marked.sub(lambda part: f"{part[1]}{lines}{part[2]}", PAGE.read_text("utf-8")), encoding="utf-8")


SIDE, EDGE = 320, 40


def plot(points: Sequence[tuple[float, float, float]]) -> str:
    """Confidence to the right, the share of results that answer upwards; the area of a point is its weight."""
    ticks = [each / 5 for each in range(6)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE + 2 * EDGE} {SIDE + 2 * EDGE}" '
        'font-family="sans-serif" font-size="11" text-anchor="middle">',
        f'<rect width="{SIDE + 2 * EDGE}" height="{SIDE + 2 * EDGE}" fill="white"/>',
        *(f'<text x="{x(tick):.0f}" y="{y(0) + 16:.0f}">{tick:g}</text>' for tick in ticks),
        *(f'<text x="{x(0) - 14:.0f}" y="{y(tick) + 4:.0f}">{tick:g}</text>' for tick in ticks),
        f'<path d="M{x(0)} {y(1)}V{y(0)}H{x(1)}M{x(0)} {y(0)}L{x(1)} {y(1)}" fill="none" stroke="#999"/>',
        *(
            f'<circle cx="{x(said):.1f}" cy="{y(seen):.1f}" r="{24 * weight**0.5:.1f}" fill="#3465a4" opacity="0.7"/>'
            for said, seen, weight in points
        ),
        f'<text x="{x(0.5):.0f}" y="{y(0) + 32:.0f}">confidence of the first result</text>',
        f'<text x="{x(0):.0f}" y="{y(1) - 12:.0f}" text-anchor="start">share of these that answer</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def x(share: float) -> float:
    return EDGE + SIDE * share


def y(share: float) -> float:
    return EDGE + SIDE * (1 - share)


if __name__ == "__main__":
    main()

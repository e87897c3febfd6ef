"""How many of the memories that a search returns answer it: PrecisionMemBench, and collections with judged items.

    python benchmarks/precision.py [--data FOLDER] [--show] [NAME ...]

PrecisionMemBench (tenurehq/precisionMemBench, MIT) has beliefs of one user and 77 queries, with what each must and must
not return. Beliefs are stored with their names as titles and their aliases as aliases of nodes and in the text;
`why_it_matters` is not stored. An update supersedes by subject and attribute, a resolved question has expired, and
scopes are a filter. As in the published runners, pinned beliefs and open questions have tiers of their own, which no
search fills, and the participants of a relation follow it.

Precision and recall of a case, and what makes it pass, follow the rules of the authors. Precision is undefined if
nothing is expected and nothing returned, and 0 if something is returned then; recall is undefined if nothing is
expected. A second mean takes only the cases that expect something.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import mean
from typing import Any

from quality import DEMO, ROOT, collection, cut

from fourfold import Memory, NewItem, Settings
from fourfold.evaluation.bench import open_bench

BENCH = "precisionmembench"
USER = "test-user"
MOST = 20
"""Beliefs that a case may return, unless it says otherwise."""
STRUCTURAL = frozenset(
    (
        *("Scope disambiguation", "Supersession chain exclusion", "Type routing and open questions"),
        *("Budget eviction and capacity", "Cross-user isolation", "Ranking stability", "Persona prelude content"),
    )
)
"""Categories in which a pass without a precision above 0 is structural; in others it is trivially empty."""
OTHERS = (DEMO, "lihua-world")
QUESTIONS = 200
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judged:
    """What one case returned, judged."""

    name: str
    category: str
    precision: float | None
    recall: float | None
    passed: bool
    told: str

    @property
    def kind(self) -> str:
        if self.precision:
            return "active"
        return "structural" if self.category in STRUCTURAL else "empty"


def main() -> None:
    """Run the cases, then questions of other collections, each with and without a cut."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--show", action="store_true", help="print every case that did not pass")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    for name in options.names or (BENCH, *OTHERS):
        for cutting in ("off", "auto"):
            if name == BENCH:
                judged = run(options.data / BENCH, cutting)
                print(f"{name}, cut {cutting}: {summary(judged)}", flush=True)
                if options.show and cutting == "auto":
                    print(*(f"  {each.name}: {each.told}" for each in judged if not each.passed), sep="\n")
            else:
                print(f"{name}, cut {cutting}: {of_collection(options.data, name, cutting)}", flush=True)


# ---------------------------------------------------------------- PrecisionMemBench


def run(folder: Path, cutting: str) -> list[Judged]:
    """Store the beliefs, and ask the query of every case."""
    beliefs = {row["_id"]: row for row in json.loads((folder / "beliefs.seed.json").read_text("utf-8"))}
    cases = json.loads((folder / "retrieval.cases.json").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as store, Memory.open(store, background=False) as memory:
        fill(memory, beliefs)
        return [ask(memory, beliefs, case, cutting) for case in cases]


def fill(memory: Memory, beliefs: Mapping[str, Row]) -> None:
    """Each user has a namespace; beliefs are stored in the order in which they replace each other."""
    for belief in sorted(beliefs.values(), key=lambda row: -depth(row, beliefs)):
        memory.within(belief["user_id"]).add(item(belief, last(belief, beliefs)))
    for user in {belief["user_id"] for belief in beliefs.values()}:
        memory.within(user).embed_pending()


def depth(belief: Row, beliefs: Mapping[str, Row]) -> int:
    """How many later versions a belief has."""
    return 1 + depth(beliefs[belief["superseded_by"]], beliefs) if belief["superseded_by"] else 0


def last(belief: Row, beliefs: Mapping[str, Row]) -> Row:
    """The current version."""
    return last(beliefs[belief["superseded_by"]], beliefs) if belief["superseded_by"] else belief


def item(belief: Row, current: Row) -> NewItem:
    """A belief as a user of Fourfold would store it."""
    resolved, aliases = belief.get("resolved_at"), ", ".join(belief["aliases"])
    return NewItem(
        f"{belief['content']} ({aliases})" if aliases else belief["content"],
        title=belief["canonical_name"].replace("_", " "),
        key=belief["_id"],
        kind=belief["type"],
        subject=belief["user_id"],
        attribute=current["canonical_name"],
        expires_at=datetime.fromisoformat(resolved) if resolved else None,
        metadata={"aliases": belief["aliases"], "scope": belief["scope"], "pinned": belief["pinned"]},
    )


def ask(memory: Memory, beliefs: Mapping[str, Row], case: Row, cutting: str) -> Judged:
    """One case, with the tiers as its authors fill them."""
    user, scope, most = case.get("userId", USER), case["scope"], case.get("budget", {}).get("maxBeliefs", MOST)
    pinned = [row["_id"] for row in beliefs.values() if is_open(row, user, scope) and row["type"] != "open_question"]
    questions = [row["_id"] for row in beliefs.values() if is_open(row, user, scope) and row["type"] == "open_question"]
    found: list[str] = []
    if case["query"].strip() and most:
        filters = {"scope": {"in": scope}, "pinned": {"ne": True}, "kind": {"ne": "open_question"}}
        response = memory.within(user).search(case["query"], top_k=min(most, MOST), filters=filters, cut=cutting)
        found = [str(result.key) for result in response.results]
        told = {part for key in found for part in beliefs[key].get("participants", ())}
        found += [
            key for key in sorted(told) if key not in {*found, *pinned, *questions} and in_scope(beliefs[key], scope)
        ]
    pinned = pinned[:most]
    return judged(case, found[: max(0, most - len(pinned))], pinned, questions, beliefs)


def is_open(row: Row, user: str, scope: Sequence[str]) -> bool:
    """Whether a belief is listed without a search."""
    current = row["pinned"] and not row["superseded_by"] and not row.get("resolved_at")
    return current and row["user_id"] == user and in_scope(row, scope)


def in_scope(row: Row, scope: Sequence[str]) -> bool:
    return not set(row["scope"]).isdisjoint(scope)


def judged(
    case: Row, found: Sequence[str], pinned: Sequence[str], questions: Sequence[str], beliefs: Mapping[str, Row]
) -> Judged:
    """The metrics of one case, and whether everything that it asserts of beliefs, pins and questions holds."""
    expect = case["expect"]
    wanted = expect.get("relevantBeliefs", {})
    only = wanted.get("shouldOnlyInclude")
    needed = set(only if only is not None else [])
    if only is None:
        needed = {key for key in wanted.get("mustInclude", ()) if not beliefs[key]["pinned"]}
    problems = [
        *(f"lacks {key}" for key in tier(wanted, "mustInclude", "shouldInclude") if key not in {*found, *pinned}),
        *(f"has {key}" for key in tier(wanted, "mustExclude") if key in {*found, *pinned}),
        *(f"lacks {key}" for key in only or () if key not in found),
        *(f"has {key}" for key in found if only is not None and key not in only),
        *_tier_problems(expect.get("pinnedFacts", {}), pinned),
        *_tier_problems(expect.get("openQuestions", {}), questions),
    ]
    hits = len(needed.intersection(found))
    precision = hits / len(found) if found else (0.0 if needed else None)
    recall = hits / len(needed) if needed else None
    return Judged(case["caseId"], case["category"], precision, recall, not problems, ", ".join(problems))


def tier(wanted: Row, *names: str) -> Iterable[str]:
    return (key for name in names for key in wanted.get(name, ()))


def _tier_problems(wanted: Row, found: Sequence[str]) -> list[str]:
    return [
        *(f"lacks {key} in its tier" for key in wanted.get("mustInclude", ()) if key not in found),
        *(f"has {key} in its tier" for key in wanted.get("mustExclude", ()) if key in found),
    ]


def summary(judged: Sequence[Judged]) -> str:
    """The figures that the authors publish, and the means of the cases that expect something."""
    kinds = [each.kind for each in judged if each.passed]
    expecting = [each for each in judged if each.recall is not None]
    passes = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("active", "structural", "empty"))
    return (
        f"{len(kinds)} of {len(judged)} pass ({passes}); precision {mean_of(judged, 'precision')}, "
        f"recall {mean_of(judged, 'recall')}; of the {len(expecting)} that expect something: "
        f"precision {mean_of(expecting, 'precision')}"
    )


def mean_of(judged: Iterable[Judged], name: str) -> str:
    return f"{mean(value for each in judged if (value := getattr(each, name)) is not None):.3f}"


# ---------------------------------------------------------------- judged collections


def of_collection(data: Path, name: str, cutting: str) -> str:
    """Mean precision and recall of the results, recall of what ten results contain, and answers to no question."""
    with collection(data, name) as found, open_bench(cut(found, QUESTIONS), Settings()) as bench:
        bench.fill()
        rows: list[tuple[float, float]] = []
        empty = vain = 0
        for question in bench.collection.questions:
            keys = [result.key for result in bench.search(question, top_k=10, cut=cutting).results]
            if question.unanswerable:
                vain, empty = vain + 1, empty + (not keys)
                continue
            right = {key for key, grade in bench.collection.judgements[question.id].items() if grade > 0}
            hits = len(right.intersection(keys))
            rows.append((hits / len(keys) if keys else 0.0, hits / len(right)))
    precision, recall = (mean(row[place] for row in rows) for place in (0, 1))
    nothing = f"; {empty} of {vain} unanswerable questions get no result" if vain else ""
    return f"{len(rows)} questions, precision {precision:.3f}, recall {recall:.3f}{nothing}"


if __name__ == "__main__":
    main()

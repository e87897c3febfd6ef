"""Precision of near-duplicates, with a threshold that was chosen on the other collections.

    python benchmarks/near_duplicates.py --data DIR [--cache DIR] [--show] [NAME ...]

DIR has collections as folders or as NAME.tar.xz. Two items are known to say the same if their words are equal, or if
the collection says so: notes of realmem with a second wording, questions of covid-faq-de with the same answer,
papers of cacm with the same title and author. In the others every text is different, so each reported pair is
wrong. All other pairs count as wrong, too, although a reader would accept some of them: `--show` prints these.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quality import ROOT, collection

from fourfold import Memory, NewItem
from fourfold.engine import duplicates
from fourfold.evaluation.collection import Collection
from fourfold.model import NO_FILTERS, Item
from fourfold.storage.protocols import Snapshot

NAMES = (
    *(
        "realmem",
        "covid-faq-de",
        "cacm",
        "cosqa-valid",
        "xquad-en",
        "xquad-de",
        "lihua-world",
        "scifact-train",
        "hotpotqa",
    ),
    "2wikimultihopqa",
)
READ_SECONDS = 3600.0
GRID = (0.80, 0.85, 0.90, 0.95)
BAR = 0.95


@dataclass(frozen=True, slots=True)
class Pair:
    """Two items with the same statement."""

    cosine: float
    known: bool
    same: bool
    """Whether their words are equal."""
    texts: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Found:
    pairs: Sequence[Pair]
    rewordings: int
    """Known pairs with different words."""

    def at(self, cosine: float) -> list[Pair]:
        return [pair for pair in self.pairs if pair.cosine >= cosine]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--cache", type=Path, help="folder that keeps the stores, so that vectors are made once")
    parser.add_argument("--show", action="store_true", help="print reported pairs that are not known to say the same")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    found: dict[str, Found] = {}
    for name in options.names or NAMES:
        with collection(options.data, name) as given:
            found[name] = pairs_of(name, given, options.cache)
    shipped = duplicates.COSINE
    print("| collection | least cosine | reported | same words | known rewordings | precision | found of rewordings |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for name, each in found.items():
        others = [other for key, other in found.items() if key != name]
        print(row(name, each, chosen(others), "chosen on the others"))
        print(row(name, each, shipped, "as shipped"))
    for point, told in ((chosen(list(found.values())), "chosen on all"), (shipped, "as shipped")):
        print(row("all", merged(list(found.values())), point, told))
    if options.show:
        for name, each in found.items():
            for pair in each.at(shipped):
                if not pair.known:
                    print(f"{name} {pair.cosine:.3f}\n  {pair.texts[0]!r}\n  {pair.texts[1]!r}")


def row(name: str, found: Found, point: float, told: str) -> str:
    reported = found.at(point)
    same = sum(pair.same for pair in reported)
    reworded = sum(pair.known and not pair.same for pair in reported)
    right = precision(reported)
    shown = "-" if right is None else f"{right:.3f}"
    figures = (len(reported), same, reworded, shown, f"{reworded} of {found.rewordings}")
    return f"| {name} | {point:.2f} ({told}) | {' | '.join(map(str, figures))} |"


def precision(pairs: Sequence[Pair]) -> float | None:
    return sum(pair.known for pair in pairs) / len(pairs) if pairs else None


def merged(found: Sequence[Found]) -> Found:
    return Found([pair for each in found for pair in each.pairs], sum(each.rewordings for each in found))


def chosen(found: Sequence[Found]) -> float:
    """The point that finds most known pairs with enough precision; the strictest one if none is precise enough."""
    every = merged(found)

    def gain(point: float) -> tuple[bool, int, float]:
        reported = every.at(point)
        right = precision(reported)
        return right is None or right >= BAR, sum(pair.known for pair in reported), point

    best = max(GRID, key=gain)
    return best if gain(best)[0] else GRID[-1]


# ---------------------------------------------------------------- collections


def pairs_of(name: str, given: Collection, cache: Path | None) -> Found:
    labels = LABELS.get(name, by_id)(given)
    with (
        tempfile.TemporaryDirectory() as scratch,
        Memory.open((cache or Path(scratch)) / name, background=False) as memory,
    ):
        pairs: list[Pair] = []
        for scope, items in texts_of(name, given).items():
            view = memory.within(scope)
            stored = view.add_many(items)
            view.embed_pending()
            with view.store.snapshot(scope, seconds=READ_SECONDS) as snapshot:
                pairs += scope_pairs(snapshot, stored, labels)
        count = sum(1 for items in texts_of(name, given).values() for _ in known_rewordings(items, labels))
    return Found(pairs, count)


def texts_of(name: str, given: Collection) -> Mapping[str, Sequence[NewItem]]:
    """The items by namespace: notes of one user are compared with each other only."""
    if name == "covid-faq-de":
        return {"questions": [NewItem(question.text, key=question.id) for question in given.questions]}
    scopes: dict[str, list[NewItem]] = {}
    for item in given.items:
        new = NewItem(item.text, item.title, key=item.key)
        scopes.setdefault(str(item.metadata.get("scope", name)), []).append(new)
    return scopes


def scope_pairs(snapshot: Snapshot, items: Sequence[Item], labels: Mapping[str, str]) -> Iterator[Pair]:
    by_number = {item.id: item for item in items}
    vectors = snapshot.stored_vectors(list(by_number))
    for item in items:
        if item.id not in vectors:  # a long one, which has several
            continue
        near = snapshot.vectors.begin_nearest(vectors[item.id], duplicates.SIMILAR_ITEMS + 1, NO_FILTERS)()
        for hit in near.hits:
            other = by_number[hit.id]
            if hit.id > item.id and duplicates.saying_the_same(item)(other):
                same = words_of(item) == words_of(other)
                known = same or labels[str(item.key)] == labels[str(other.key)]
                yield Pair(hit.score, known, same, (words_of(item), words_of(other)))


def known_rewordings(items: Sequence[NewItem], labels: Mapping[str, str]) -> Iterator[tuple[NewItem, NewItem]]:
    groups: dict[str, list[NewItem]] = {}
    for item in items:
        groups.setdefault(labels[str(item.key)], []).append(item)
    for group in groups.values():
        for place, item in enumerate(group):
            yield from ((item, other) for other in group[place + 1 :] if words_of(item) != words_of(other))


def words_of(item: Item | NewItem) -> str:
    return " ".join(re.findall(r"\w+", f"{item.title} {item.text}".casefold()))


def by_id(given: Collection) -> dict[str, str]:
    return {str(item.key): str(item.key) for item in given.items}


def by_wording(given: Collection) -> dict[str, str]:
    """realmem: a note with a second wording has the id of the first one and #2."""
    return {str(item.key): str(item.key).partition("#")[0] for item in given.items}


def by_answer(given: Collection) -> dict[str, str]:
    return {question.id: "+".join(sorted(given.judgements[question.id])) for question in given.questions}


def by_paper(given: Collection) -> dict[str, str]:
    spelled = {str(item.key): re.findall(r"\w+", item.title.casefold()) for item in given.items}
    authors = {str(item.key): str(item.metadata.get("author", "")) for item in given.items}
    return {key: f"{' '.join(words)}|{authors[key]}" if authors[key] else key for key, words in spelled.items()}


LABELS: Mapping[str, Callable[[Collection], dict[str, str]]] = {
    "realmem": by_wording,
    "covid-faq-de": by_answer,
    "cacm": by_paper,
}


if __name__ == "__main__":
    main()

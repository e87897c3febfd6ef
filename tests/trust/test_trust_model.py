"""Random operations by two processes on one store: it always answers like the oracle."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from oracle import faults
from trust_model import (
    FILTERS,
    FIRST,
    NAMES,
    NAMESPACES,
    PROFILES,
    TAGS,
    WAYS,
    WORDS,
    Call,
    Other,
    Patches,
    agree,
    damage,
    delete_indexes,
    engine,
    forgiven,
    oracle,
    tuned,
)

from fourfold.model import ItemPatch, NewItem

CHECK_EVERY = 6

# ---------------------------------------------------------------- random values

words = st.sampled_from(WORDS)
names = st.sampled_from(NAMES)
marked = st.builds(str.format, st.sampled_from(("{}", "{}", "[[{}]]", "# {}\n", "„{}“")), names)
texts = st.lists(st.one_of(words, words, words, marked), min_size=1, max_size=7).map(" ".join)
tags = st.lists(st.sampled_from(TAGS), max_size=2).map(tuple)
metadata = st.sampled_from(({}, {"n": 1}, {"n": 2.5, "word": "eins"}, {"list": [1, "b"]}))
filters = st.sampled_from(FILTERS)
namespaces = st.sampled_from((*NAMESPACES, NAMESPACES[0], NAMESPACES[0]))
sides = st.sampled_from(("here", "there"))
picks = st.integers(0, 1 << 16)

places = st.sampled_from(
    (
        {}, {}, {}, {"key": "k1"}, {"key": "k2"}, {"path": "docs/a.md", "chunk_index": 0},
        {"path": "docs/a.md", "chunk_index": 1}, {"path": "docs/deep/b.md"}, {"key": "k3", "path": "src/main.py"},
    )
)  # fmt: skip
spoken = st.sampled_from(({}, {}, {}, {"language": "de"}, {"language": "en"}))
dated = st.sampled_from(({}, {}, {"created_at": FIRST}, {"created_at": FIRST - timedelta(days=30)}))
kinds = st.sampled_from((None, None, "note", "task"))
titles = st.one_of(st.just(""), names)


@st.composite
def new_items(draw: st.DrawFn) -> NewItem:
    more = {**draw(places), **draw(spoken), **draw(dated)}
    return NewItem(draw(texts), draw(titles), tags=draw(tags), kind=draw(kinds), metadata=draw(metadata), **more)


patches = st.builds(
    ItemPatch,
    text=st.one_of(st.none(), texts),
    title=st.one_of(st.none(), titles),
    add_tags=tags,
    remove_tags=tags,
    metadata=st.one_of(st.none(), st.just({"n": None, "word": "zwei"})),
)
queries = st.lists(st.one_of(words, words, names), min_size=1, max_size=4).map(" ".join)

# ---------------------------------------------------------------- the state machine


class Life(RuleBasedStateMachine):
    """`here` and `there` are two processes that share a folder; both must agree with `oracle`."""

    tuning: ClassVar[Patches]
    done: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.oracle = oracle()
        self.here = engine(self.folder / "store")
        self.there = Other(self.folder / "store", self.tuning)
        self.now = FIRST
        self.steps = 0
        self.damaged = self.harmed = False

    def teardown(self) -> None:
        try:
            if not self.damaged:
                self._check(self.here)
                agree(self.here.whole(), self.oracle.whole(), "the whole")
                for namespace in NAMESPACES:
                    assert faults(self.here.records(namespace), removals=True) == []
        finally:
            for side in (self.there, self.here, self.oracle):
                with suppress(AssertionError):
                    side.end()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------ doing and comparing

    def _call(self, namespace: str, method: str, *args: Any, **kwargs: Any) -> Call:
        self.now += timedelta(hours=1)
        return Call(namespace, self.now, method, args, kwargs)

    def _same(self, call: Call, *asked: str) -> None:
        """Makes the call on the oracle and on each of the named sides, and compares the results."""
        self.done[call.method] += 1
        wanted = self.oracle.do(call)
        for name in asked:
            found = getattr(self, name).do(call)
            agree(forgiven(found) if self.harmed else found, wanted, f"{name} {call.method}")

    def _item(self, namespace: str, pick: int) -> int:
        """The id of an existing item, or an unknown id if the namespace is empty."""
        known = self.oracle.do(self._call(namespace, "list", limit=1000))
        return known[pick % len(known)]["id"] if known else 999

    def _check(self, side: Any) -> None:
        assert side.do(self._call(NAMESPACES[0], "check")) == []

    @invariant()
    def holds_the_same(self) -> None:
        self.steps += 1
        side = ("here", "there")[self.steps % 2]
        if self.steps % CHECK_EVERY < 2:
            for namespace in NAMESPACES:
                self._same(self._call(namespace, "list", limit=1000), side)
            if not self.damaged:
                self._check(getattr(self, side))

    @invariant()
    def answers_the_same(self) -> None:
        """Searches in each way in turn, independent of the rules that were drawn."""
        if self.steps % 2:
            namespace, turn = NAMESPACES[self.steps % 7 == 0], self.steps // 2
            texts = [item["text"] for item in self.oracle.do(self._call(namespace, "list", limit=1000))]
            text = texts[turn % len(texts)] if texts else WORDS[turn % len(WORDS)]
            way, filters = WAYS[turn % len(WAYS)], FILTERS[self.steps % len(FILTERS)]
            self._same(self._call(namespace, "search", text, filters=filters, **way), "here", "there")

    # ------------------------------------------------------------ items

    @initialize(items=st.lists(new_items(), min_size=8, max_size=16), side=sides, wait=st.booleans())
    def begin(self, items: list[NewItem], side: str, wait: bool) -> None:
        self._same(self._call(NAMESPACES[0], "add_many", items, wait=wait), side)

    @rule(namespace=namespaces, item=new_items(), side=sides, wait=st.booleans())
    def add(self, namespace: str, item: NewItem, side: str, wait: bool) -> None:
        self._same(self._call(namespace, "add", item, wait=wait), side)

    @rule(namespace=namespaces, items=st.lists(new_items(), max_size=5), side=sides, wait=st.booleans())
    def add_many(self, namespace: str, items: list[NewItem], side: str, wait: bool) -> None:
        self._same(self._call(namespace, "add_many", items, wait=wait), side)

    @rule(namespace=namespaces, pick=picks, patch=patches, side=sides)
    def update(self, namespace: str, pick: int, patch: ItemPatch, side: str) -> None:
        self._same(self._call(namespace, "update", self._item(namespace, pick), patch), side)

    @rule(namespace=namespaces, some=st.lists(picks, min_size=1, max_size=2), side=sides)
    def forget(self, namespace: str, some: list[int], side: str) -> None:
        known = sorted({self._item(namespace, pick) for pick in some})
        self._same(self._call(namespace, "forget", known), side)

    @rule(namespace=namespaces, filters=st.sampled_from(FILTERS[-4:]), side=sides)
    def forget_matching(self, namespace: str, filters: Any, side: str) -> None:
        self._same(self._call(namespace, "forget_matching", filters), side)

    @rule(namespace=namespaces, side=sides)
    def make_vectors(self, namespace: str, side: str) -> None:
        self._same(self._call(namespace, "embed_pending"), side)

    # ------------------------------------------------------------ graph

    @rule(
        namespace=namespaces,
        name=names,
        aliases=st.lists(names, max_size=2),
        label=st.sampled_from(("entity", "entity", "place")),
        pick=st.one_of(st.none(), picks),
        side=sides,
    )
    def add_node(self, namespace: str, name: str, aliases: list[str], label: str, pick: int | None, side: str) -> None:
        item = None if pick is None else self._item(namespace, pick)
        self._same(self._call(namespace, "add_node", name, label, aliases, {"size": 3}, item), side)

    @rule(
        namespace=namespaces,
        source=names,
        relation=st.sampled_from(("knows", "part of")),
        goal=names,
        weight=st.sampled_from((0.2, 1.0)),
        side=sides,
    )
    def add_edge(self, namespace: str, source: str, relation: str, goal: str, weight: float, side: str) -> None:
        self._same(self._call(namespace, "add_edge", source, relation, goal, weight), side)

    @rule(namespace=namespaces, pick=picks, side=sides)
    def remove_edge(self, namespace: str, pick: int, side: str) -> None:
        records = [record for record in self.oracle.whole() if record["type"] == "edge"]
        known = [record for record in records if record["namespace"] == namespace]
        edge = known[pick % len(known)] if known else {"source": "York", "relation": "knows", "target": "Adler"}
        ends = [name if isinstance(name := edge[end], str) else name[0] for end in ("source", "target")]
        self._same(self._call(namespace, "remove_edge", ends[0], edge["relation"], ends[1]), side)

    @rule(namespace=namespaces, name=names, side=sides)
    def remove_node(self, namespace: str, name: str, side: str) -> None:
        self._same(self._call(namespace, "remove_node", name), side)

    @rule(namespace=namespaces, name=names, depth=st.integers(1, 3), direction=st.sampled_from(("both", "out", "in")))
    def neighbors(self, namespace: str, name: str, depth: int, direction: str) -> None:
        self._same(self._call(namespace, "neighbors", name, depth, direction), "here", "there")

    @rule(namespace=namespaces, start=names, goal=names)
    def path(self, namespace: str, start: str, goal: str) -> None:
        self._same(self._call(namespace, "path", start, goal, 5), "here", "there")

    # ------------------------------------------------------------ asking

    @rule(namespace=namespaces, text=queries, way=st.sampled_from(WAYS), filters=filters)
    def search(self, namespace: str, text: str, way: Any, filters: Any) -> None:
        self._same(self._call(namespace, "search", text, filters=filters, **way), "here", "there")

    @rule(namespace=namespaces, text=queries, only=st.sampled_from(("semantic", "keyword", "graph")), filters=filters)
    def search_one_way(self, namespace: str, text: str, only: str, filters: Any) -> None:
        call = self._call(namespace, "search", text, only=(only,), top_k=100, filters=filters)
        self._same(call, "here", "there")

    @rule(namespace=namespaces, name=names, text=texts, side=sides)
    def write_and_search(self, namespace: str, name: str, text: str, side: str) -> None:
        """One process sees at once what the other wrote."""
        self._same(self._call(namespace, "add", NewItem(f"{text} {name}")), side)
        self._same(self._call(namespace, "search", f"{name} {text}"), "there" if side == "here" else "here")

    @rule(namespace=namespaces, filters=filters, limit=st.integers(1, 5), offset=st.integers(0, 5))
    def look_around(self, namespace: str, filters: Any, limit: int, offset: int) -> None:
        self._same(self._call(namespace, "list", filters, limit=limit, offset=offset), "here", "there")
        self._same(self._call(namespace, "count", filters), "here", "there")
        self._same(self._call(namespace, "tags"), "here", "there")
        self._same(self._call(namespace, "namespaces"), "here", "there")

    # ------------------------------------------------------------ indexes

    @rule(namespace=namespaces, side=sides)
    def publish(self, namespace: str, side: str) -> None:
        self._same(self._call(namespace, "index"), side)

    @rule(side=sides)
    def reopen(self, side: str) -> None:
        self.done["reopen"] += 1
        getattr(self, side).reopen()

    @rule(reopen=st.booleans())
    def lose_indexes(self, reopen: bool) -> None:
        self.done["lose indexes"] += 1
        self.harmed = True
        delete_indexes(self.folder / "store")
        if reopen:
            self.here.reopen()

    @rule(pick=picks, how=st.sampled_from(("flip", "cut", "swap", "remove")), side=sides, reopen=st.booleans())
    def damage_an_index(self, pick: int, how: str, side: str, reopen: bool) -> None:
        """Damages an index file: `check` may report it until a repair or a publication; answers stay the same."""
        if not (self.folder / "store" / "index").exists():
            self.publish(NAMESPACES[0], side)
        if damage(self.folder / "store", pick, how) is not None:
            self.done[f"damage: {how}"] += 1
            self.damaged = self.harmed = True
        if reopen:
            getattr(self, side).reopen()

    @rule(side=sides)
    def repair(self, side: str) -> None:
        if self.damaged:
            self.done["repair"] += 1
            assert isinstance(getattr(self, side).do(self._call(NAMESPACES[0], "repair")), list)
            self.damaged = False
            self._check(getattr(self, side))


# ---------------------------------------------------------------- running the machine


@pytest.fixture
def done(profile: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    tuned(PROFILES[profile], monkeypatch.setattr)
    counts: Counter[str] = Counter()
    yield counts
    print(f"\n{profile}: {counts.total()} operations, 0 differences: {dict(counts.most_common())}")


def live(profile: str, done: Counter[str], lives: int, steps: int, *, explore: bool = False) -> None:
    """Runs the state machine. `explore`: draws new examples in every run and shrinks failures, which takes minutes."""
    machine = type(f"Life_{profile}", (Life,), {"tuning": PROFILES[profile], "done": done})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=lives,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=not explore,
            print_blob=True,
            phases=[Phase.generate, Phase.shrink] if explore else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.spec("B6", "B7")
@pytest.mark.parametrize("profile", PROFILES)
def test_two_processes_on_one_folder_answer_like_the_oracle(profile: str, done: Counter[str]) -> None:
    live(profile, done, lives=7, steps=25)


@pytest.mark.soak
@pytest.mark.spec("B6", "B7")
@pytest.mark.parametrize("profile", PROFILES)
def test_two_processes_on_one_folder_answer_like_the_oracle_for_long(profile: str, done: Counter[str]) -> None:
    live(profile, done, lives=140, steps=100, explore=True)
    assert done.total() > 25_000

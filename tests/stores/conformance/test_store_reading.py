"""Every commit is visible at once to every reader; any text is a valid query; answers are deterministic."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from concurrently import results
from conformance_subjects import NOW, NS, RETRIEVERS, add, edit, ids, item, make, search, unit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourfold.model import NO_FILTERS, Filters
from fourfold.text.entities import query_names

# ---------------------------------------------------------------- read your writes


@pytest.mark.spec("B6")
def test_a_second_store_on_the_folder_reads_every_commit_of_the_first(folder):
    one, other = make("sqlite", folder), make("sqlite", folder)
    for number, settled in enumerate((False, True, False)):
        new = item(f"Vertrag {number}", title=f"Titel {number}", tags=("vertrag",), vector=unit(1, number))
        (id,) = add(one, new)
        if settled:
            one.publish(NS, everything=True)
        for name in RETRIEVERS:
            text = f"Titel {number}" if name == "graph" else "Vertrag"
            assert id in search(other, name, text, vector=unit(1, 0)), name
    edit(other, id, text="Kündigung", remove_tags=("vertrag",))
    assert [id in search(one, name, "Vertrag", vector=unit(1, 0)) for name in RETRIEVERS] == [False] * 4
    one.forget(NS, [id])
    assert search(other, "keyword", "Kündigung") == []
    assert [store.check() for store in (one, other)] == [[], []]
    one.close()
    other.close()


@pytest.mark.spec("B11")
def test_a_second_store_knows_the_names_that_the_first_one_made(folder):
    one, other = make("sqlite", folder), make("sqlite", folder)
    add(one, item("x", title="Projekt Adler"))
    (first,) = add(other, "Morgen beginnt Projekt Adler")
    add(one, item("y", title="Berlin"))
    (second,) = add(other, "Wir fahren nach Berlin")
    found = [search(one, "graph", name) for name in ("Projekt Adler", "Berlin")]
    assert (first in found[0], second in found[1]) == (True, True)
    one.close()
    other.close()


_CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from conformance_subjects import NS, add, item, make, search, unit

store = make("sqlite", Path(sys.argv[1]))
(id,) = add(store, item("Der Vertrag des Kindes", title="Kind", tags=("vertrag",), vector=unit(1, 1)))
print(id, search(store, "keyword", "Vertrag"), search(store, "semantic", vector=unit(1, 0)))
store.close()
"""


@pytest.mark.spec("B6")
def test_another_process_reads_and_writes_the_same_store(folder):
    store = make("sqlite", folder)
    (own,) = add(store, item("Der Vertrag der Eltern", vector=unit(1, 0)))
    search(store, "keyword", "Vertrag")
    here = Path(__file__).parent
    command = [sys.executable, "-c", _CHILD, str(folder), str(here.parents[1] / "support")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"{own + 1} {[own, own + 1]} {[own, own + 1]}"
    for name in RETRIEVERS:
        assert own + 1 in search(store, name, "Vertrag" if name != "graph" else "Kind", vector=unit(1, 0)), name
    store.close()


@pytest.mark.spec("B11")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_title_and_a_text_that_names_it_are_linked_in_any_order(kind, folder):
    one, other = make(kind, folder), make(kind, folder)
    add(one, "first")
    for number in range(8):
        (page,), (note,) = results(
            partial(add, one, item(f"Seite {number}", title=f"Projekt Nummer{number}")),
            partial(add, other, f"Heute beginnt Projekt Nummer{number}"),
        )
        assert [link.item for link in one.item_links(NS, [note], NO_FILTERS)] == [page]
    assert [store.check() for store in (one, other)] == [[], []]
    one.close()
    other.close()


# ---------------------------------------------------------------- order


@pytest.mark.spec("S1.3")
def test_ties_are_broken_by_id(store):
    same = [item("Vertrag", title="Vertrag", key=f"k{n}", tags=("vertrag",), vector=unit(1, 1)) for n in range(20)]
    stored = add(store, *same)
    add(store, *same[:3])  # a later write does not change the order
    for name in RETRIEVERS:
        assert search(store, name, "Vertrag", vector=unit(1, 0)) == stored, name


@pytest.mark.spec("S1.3")
def test_equal_vectors_tie_wherever_they_lie(folder):
    """A product in single precision depends on the shape of the matrix; scores must not."""
    store = make("sqlite", folder)
    vectors = [unit(*((n * k) % 7 + 0.1 for k in range(1, 33))) for n in range(1, 7)]
    first = add(store, *(item(f"a{n}", vector=vectors[n % 6]) for n in range(60)))
    store.publish(NS, everything=True)
    second = add(store, *(item(f"b{n}", vector=vectors[n % 6]) for n in range(7)))
    for vector in vectors:
        scores = dict(store.nearest(NS, vector, 200, NO_FILTERS).hits)
        for n, id in enumerate(second):
            assert scores[id] == scores[first[n % 6]]
    store.close()


@pytest.mark.spec("B4")
def test_fewer_results_are_a_prefix_of_more(store):
    texts = [f"Vertrag {'Haus ' * (n % 5)} Nummer {n}" for n in range(40)]
    add(store, *(item(text, tags=("haus",) * (n % 2), vector=unit(n, 9)) for n, text in enumerate(texts)))
    for name in RETRIEVERS:
        every = search(store, name, "Haus Vertrag", vector=unit(1, 0))
        for limit in (1, 5, 39):
            assert search(store, name, "Haus Vertrag", vector=unit(1, 0), limit=limit) == every[:limit], name


# ---------------------------------------------------------------- scores of given items


@pytest.mark.spec("B1")
def test_given_items_have_the_scores_that_searching_gives_them(store):
    texts = ("Vertrag", "Mietvertrag für ein Haus", "Das Haus am See", "A house without a lease")
    stored = add(store, *(item(text, vector=unit(n, 1)) for n, text in enumerate(texts)))
    for order in (stored, stored[::-1], stored[1:3], [stored[2], 999]):
        found = store.match(NS, "Vertrag Haus", 9, NO_FILTERS)
        scored = store.word_scores(NS, "Vertrag Haus", order)
        assert dict(scored.hits) == {id: dict(found.hits).get(id, 0.0) for id in order if id in stored}
        assert (scored.background, scored.unknown) == (found.background, found.unknown)
        near = dict(store.nearest(NS, unit(1, 2), 9, NO_FILTERS).hits)
        cosines = store.cosines(NS, unit(1, 2), order)
        assert dict(cosines.hits) == {id: near[id] for id in order if id in stored}


# ---------------------------------------------------------------- any text


@pytest.mark.spec("B4")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    text=st.text(st.characters(exclude_categories=()))
    | st.sampled_from(['"', "a AND (b", "body:x", "NEAR/3", "'; --", "%_*"])
)
def test_any_text_is_a_safe_query(store, text):
    (id,) = add(store, item("Any text is a safe query: a AND (b) body:x", title="Any", tags=("any",)))
    for name in ("keyword", "graph", "tags"):
        assert search(store, name, text) in ([], [id])
    assert store.word_scores(NS, text, [id]).hits[0].id == id


@pytest.mark.spec("B4")
def test_a_query_without_words_has_no_keyword_results(store):
    add(store, "Ein Text !?")
    for text in ("", " ", "!?", "…", "\x00"):
        assert ids(store.match(NS, text, 9, NO_FILTERS)) == []


@pytest.mark.spec("B4")
def test_a_long_query_uses_its_rarest_words_and_says_so(store):
    words = [
        first + second for first in "bcdfghjkmn" for second in ("aro", "elu", "iko", "omi", "unat", "asib", "epof")
    ]
    (all_of_them, *_) = add(store, item(" ".join(words), language="zu"), *words[:40])
    found = store.match(NS, " ".join(words), 9, NO_FILTERS)
    assert found.notes == ("keyword search used the 64 rarest of 70 words",)
    assert ids(found)[0] == all_of_them


def test_an_unknown_namespace_is_empty(store):
    assert ids(store.match("nowhere", "text", 9, NO_FILTERS)) == []
    assert ids(store.nearest("nowhere", unit(1, 0), 9, NO_FILTERS)) == []
    assert store.node_links("nowhere", query_names("Text"), NO_FILTERS) == []
    assert (store.list("nowhere", Filters(kind="x"), 9, 0), store.pending("nowhere", 9)) == ([], [])
    assert (store.forget("nowhere", [1]), store.remove_node("nowhere", "x", None)) == (0, False)
    assert not store.remove_edge("nowhere", "a", "b", "c")
    assert store.put("nowhere", [], NOW) == []
    store.publish("nowhere", everything=True)
    assert store.namespaces() == {}


def test_the_time_of_storing_is_kept_to_the_microsecond(store):
    moment = NOW.replace(microsecond=123457)
    (id,) = add(store, "text", now=moment)
    assert store.get(NS, [id])[id].created_at == moment

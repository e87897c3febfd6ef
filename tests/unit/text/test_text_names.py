"""Names of nodes in queries and texts, links and headings of Markdown."""

import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fourfold.text.entities import (
    QUERY_NAMES,
    NameFinder,
    headings,
    links,
    normal_name,
    query_names,
    spelled_names,
    title_names,
)

ANY_TEXT = st.text(st.characters())
HANDBOOK = "Handbuch für neue Leute im Einkauf und Verkauf"
WORDS = st.text("abcÄß1", min_size=1, max_size=3)


def finder(*names):
    return NameFinder(map(normal_name, names))


# ---------------------------------------------------------------- one form


@pytest.mark.parametrize("spellings", [
    ["Müller GmbH", "mueller  gmbh", "MÜLLER-GMBH"], ["node.js", "Node JS", "NODE.JS"],
    ["retry_with_backoff", "Retry with Backoff"], ["Project: Apollo (2024)", "project apollo 2024"],
])  # fmt: skip
def test_spellings_of_a_name_have_one_normal_form(spellings):
    assert len({normal_name(spelling) for spelling in spellings}) == 1


def test_symbols_that_are_part_of_a_name_are_kept():
    assert len({normal_name("C"), normal_name("C++"), normal_name("C#")}) == 3


@given(st.text(st.characters(codec="latin-1")))
def test_normalisation_of_names_is_idempotent(text):
    assert normal_name(normal_name(text)) == normal_name(text)


@pytest.mark.spec("B11")
@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Mercury (planet)", ["Mercury (planet)", "Mercury"]),
        ("Good Time  (Inna song) ", ["Good Time  (Inna song) ", "Good Time"]),
        ("Sort (Algorithm 1) (Note)", ["Sort (Algorithm 1) (Note)", "Sort (Algorithm 1)"]),
        ("search(query)", ["search(query)"]), ("(untitled)", ["(untitled)"]),
        ("One (two (three))", ["One (two (three))"]), ("One (two) three", ["One (two) three"]),
        ("... (sic)", ["... (sic)"]), ("(...)", []), ("", []),
    ],
)  # fmt: skip
def test_a_title_is_a_name_with_and_without_its_final_bracket(title, names):
    assert title_names(title) == names


# ---------------------------------------------------------------- what a query may mean


@pytest.mark.spec("B11", "S5.2")
@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("who works with Anna Müller?", "Anna Mueller"),
        ("how do I install node.js on a mac", "Node.js"),
        ("Is C++ faster?", "C++"),
        ("notes about machine learning", "machine-learning"),
        ("was steht im »Handbuch für neue Leute im Einkauf und Verkauf«", HANDBOOK),
        ("the who", "The Who"),
        ("is IT part of US", "IT"),
        ("who directed The Day They Robbed the Bank of England?", "The Day They Robbed the Bank of England"),
        (
            "When was Archduchess Maria Antonia Of Austria (1899–1977) born",
            "archduchess maria antonia of austria 1899 1977",
        ),
    ],
)
def test_a_name_in_a_query_is_found(query, name):
    assert normal_name(name) in query_names(query)


@pytest.mark.spec("S4.2")
@pytest.mark.parametrize(
    ("query", "spelled", "not_spelled"),
    [
        (
            "Where was the composer of Billy Elliot born?",
            ["billy elliot", "elliot"],
            ["where", "composer", "the composer"],
        ),
        ("Find all papers on ALGOL", ["algol"], ["find", "all papers", "papers"]),
        ("Sorting in a paging environment", ["paging environment"], ["sorting", "paging"]),
        ("who knows anna weber", ["anna weber"], ["anna", "knows"]),
        ("papers on `find` in ALGOL", ["find"], ["papers on"]),
        ("is utf8 a name", ["utf8"], ["is", "a name"]),
        (
            "is The Day They Robbed the Bank of England a film",
            ["the day they robbed the bank of england"],
            ["day they robbed the bank of england a film"],
        ),
        ("東京 の 人口", ["の", "人口"], []),
        (f"{'word ' * 500}about Billy Elliot and more", ["billy elliot", "billy"], ["word"]),
    ],
)
def test_spelled_names_are_quoted_or_capitalised(query, spelled, not_spelled):
    found = spelled_names(query)
    assert {*spelled} <= {*found}
    assert not {*not_spelled} & {*found}


@pytest.mark.spec("B4")
@given(ANY_TEXT)
def test_names_of_any_query_are_in_normal_form(text):
    assert all(name == normal_name(name) for name in spelled_names(text) if name.isascii())
    assert len(spelled_names(text)) <= QUERY_NAMES


def test_a_single_stop_word_is_not_a_name():
    assert query_names("Where is the") == ["where is the", "where is", "is the"]


@pytest.mark.spec("B4")
@given(ANY_TEXT)
def test_the_names_of_any_query_are_distinct_and_limited(text):
    names = query_names(text)
    assert len(names) == len(set(names)) <= QUERY_NAMES
    assert all(name == " ".join(name.split()) != "" for name in names)


def test_names_at_the_end_of_a_long_query_are_found():
    names = query_names("word " * 5000 + 'about "alpha beta" and Gamma Delta')
    assert {"alpha beta", "gamma delta"} <= set(names)


# ---------------------------------------------------------------- what a text mentions


@pytest.mark.spec("B11")
def test_mentions_are_found_longest_first_and_without_overlap():
    names = finder("New York", "New York City", "City Hall", "Apollo")
    assert names.find("From New York City Hall to Apollo, and to new york.") == ["new york city", "apollo", "new york"]


@pytest.mark.spec("B11")
@pytest.mark.parametrize(("name", "text", "found"), [
    ("Apple", "an apple a day", False), ("Apple", "Apple shares rose", True), ("Apple", "Pineapple and Apples", False),
    ("utf8", "encoded as utf8", True), ("node.js", "runs on node.js now", True),
    ("retry_with_backoff", "calls retry_with_backoff()", True), ("Adam", "Adam's rib", True),
    ("project plan", "see the project plan", True), ("Müller GmbH", "bei der Mueller GmbH", True),
    ("C++", "C++ and C", True), ("It", "It rains", False), ("To be", "To be or not", False),
    ("AI", "AI is here", False), ("2024", "in 2024", False),
])  # fmt: skip
def test_mentions_are_spelled_as_names(name, text, found):
    assert finder(name).find(text) == ([normal_name(name)] if found else [])


@pytest.mark.spec("B11")
def test_names_can_be_added_and_discarded():
    names = finder("New York", "New York City")
    names.discard(["new york city", "never there"])
    assert names.find("New York City") == ["new york"]
    names.add(["york city"])
    names.discard(["new york"])
    assert names.find("New York City") == ["york city"]


@given(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), st.lists(WORDS, max_size=5).map(" ".join))
def test_a_name_of_several_words_is_found_at_any_position(name, rest):
    normal = normal_name(name)
    assume(" " in normal and NameFinder([normal]).find(name) == [normal])
    assert normal in NameFinder([normal]).find(f"{name}; {rest}")


@given(st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join)), st.lists(WORDS, max_size=20).map(" ".join))
def test_a_discarded_name_leaves_no_trace(names, text):
    normal = [normal_name(name) for name in names]
    kept, gone = normal[::2], normal[1::2]
    names = NameFinder(normal)
    names.discard(gone)
    assert names.find(text) == NameFinder(name for name in kept if name not in gone).find(text)


def test_a_title_of_many_words_is_no_name_that_every_text_is_compared_with() -> None:
    """Otherwise each word of a text would be followed by as many words as the longest title has."""
    sentence = " ".join(["Go"] * 31)
    assert NameFinder([f"{sentence.lower()} home"]).find(f"{sentence} home") == [f"{sentence.lower()} home"]
    names = NameFinder([f"go {sentence.lower()} home"])
    assert names.find(f"Go {sentence} home") == []
    assert names.find("go " * 300_000) == []


@given(ANY_TEXT)
def test_any_text_can_be_searched_for_names(text):
    assert NameFinder(["new york"]).find(text) in ([], ["new york"])


# ---------------------------------------------------------------- links and headings of Markdown


@pytest.mark.spec("B11")
@pytest.mark.parametrize(("text", "names"), [
    ("see [[Project Plan]]", ["Project Plan"]), ("see [[Project Plan|the plan]]", ["Project Plan"]),
    ("see [[Project Plan#Budget]]", ["Project Plan"]), ("see [[Project Plan#Budget|money]]", ["Project Plan"]),
    ("see [[#Budget]]", ["Budget"]), ("see [[notes/Project Plan.md]]", ["notes/Project Plan", "Project Plan"]),
    ("see [the plan](plans/project-plan.md)", ["project-plan", "the plan"]),
    ("see [**the plan**](../project%20plan.md#budget)", ["project plan", "the plan"]),
    ('see [plan](project-plan.md "a title")', ["project-plan", "plan"]), ("see [costs](#budget)", ["budget", "costs"]),
    ("[[A]] then [b](b.md) then [[A]]", ["A", "b"]), ("no links, only [brackets] and (parentheses)", []),
    ("[home](https://example.org) [mail](mailto:a@b.de) [cdn](//example.org/x)", []), ("![a picture](picture.png)", []),
    ("`[[code]]` and ``[[more `code`]]``", []), ("```\n[[code]]\n```", []),
    ("~~~ python\n[[code]]\n```\n[[still code]]\n~~~", []), ("```\n[[a fence that never closes]]", []),
    ("[[]] [](x.md)", []), ("[[a]]\n```\n[[b]]\n```\n[[c]]", ["a", "c"]),
])  # fmt: skip
def test_links_return_the_names_they_point_to_but_not_external_ones_and_code(text, names):
    assert links(text) == names


@pytest.mark.spec("B11")
def test_headings_are_atx_headings_outside_code():
    text = "# One\n\ntext\n## Two ##\n```sh\n# comment\n```\n   ### C# and `code`\n####### seven\n#hashtag\n# \n#\tTab"
    assert headings(text) == ["One", "Two", "C# and `code`", "Tab"]


@given(st.text(st.sampled_from("[]()#|`~!\n ab.")))
def test_any_text_can_be_parsed_as_markdown(text):
    assert all(name and name == name.strip() for name in [*links(text), *headings(text)])


HOSTILE = """
import resource
from fourfold.text.entities import headings, links
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
text = {text}
print(len(links("](" + text)), len(headings(text)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of CPU time")
@pytest.mark.parametrize(("text", "found"), [
    ("'[' * 1_000_000", "0 0"), ("'`' * 1_000_000", "0 0"), ("'# ' + ' ' * 1_000_000 + 'x'", "0 1"),
    ("'[[a' * 250_000", "0 0"), ("'` `` ' * 200_000", "0 0"),
    ("' '.join('`' * length for length in range(1, 3000))", "0 0"),
])  # fmt: skip
def test_hostile_markdown_is_parsed_in_linear_time(text: str, found: str) -> None:
    """Quadratic time is minutes here: the child would be killed when it has used 20 seconds of the CPU."""
    command = [sys.executable, "-c", HOSTILE.format(text=text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, found)

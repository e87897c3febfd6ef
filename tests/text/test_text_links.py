"""What a Markdown text points to becomes edges, its headings become nodes (B11)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.links import headings, links

pytestmark = pytest.mark.spec("B11")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see [[Project Plan]]", ["Project Plan"]),
        ("see [[Project Plan|the plan]]", ["Project Plan"]),
        ("see [[Project Plan#Budget]]", ["Project Plan"]),
        ("see [[Project Plan#Budget|money]]", ["Project Plan"]),
        ("see [[#Budget]]", ["Budget"]),
        ("see [[notes/Project Plan.md]]", ["notes/Project Plan", "Project Plan"]),
        ("see [the plan](plans/project-plan.md)", ["project-plan", "the plan"]),
        ("see [**the plan**](../project%20plan.md#budget)", ["project plan", "the plan"]),
        ('see [plan](project-plan.md "a title")', ["project-plan", "plan"]),
        ("see [costs](#budget)", ["budget", "costs"]),
        ("[[A]] then [b](b.md) then [[A]]", ["A", "b"]),
    ],
)
def test_links_give_the_names_they_point_to(text, names):
    assert links(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "no links, only [brackets] and (parentheses)",
        "[home](https://example.org) [mail](mailto:a@b.de) [cdn](//example.org/x)",
        "![a picture](picture.png)",
        "`[[code]]` and ``[[more `code`]]``",
        "```\n[[code]]\n```",
        "~~~ python\n[[code]]\n```\n[[still code]]\n~~~",
        "```\n[[a fence that never closes]]",
        "[[]] [](x.md)",
    ],
)
def test_what_is_no_link_inside_gives_nothing(text):
    assert links(text) == []


def test_links_after_a_fence_count_again():
    assert links("[[a]]\n```\n[[b]]\n```\n[[c]]") == ["a", "c"]


def test_headings_are_atx_headings_outside_of_code():
    text = "# One\n\ntext\n## Two ##\n```sh\n# comment\n```\n   ### C# and `code`\n####### seven\n#hashtag\n# \n#\tTab"
    assert headings(text) == ["One", "Two", "C# and `code`", "Tab"]


@given(st.text(st.sampled_from("[]()#|`~!\n ab.")))
def test_any_text_can_be_read_as_markdown(text):
    assert all(name and name == name.strip() for name in [*links(text), *headings(text)])


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "`" * 200_000, "# " + " " * 200_000 + "x", "[[a" * 50_000, "` `` " * 40_000]
)
def test_hostile_markdown_takes_no_longer_than_its_length(text):
    links("](" + text)
    headings(text)

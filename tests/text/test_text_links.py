"""Links and headings of Markdown texts."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourfold.text.entities import headings, links

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
def test_links_return_the_names_they_point_to(text, names):
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
def test_external_links_and_code_are_not_links(text):
    assert links(text) == []


def test_links_after_a_closed_fence_are_found():
    assert links("[[a]]\n```\n[[b]]\n```\n[[c]]") == ["a", "c"]


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
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'[' * 1_000_000", "0 0"),
        ("'`' * 1_000_000", "0 0"),
        ("'# ' + ' ' * 1_000_000 + 'x'", "0 1"),
        ("'[[a' * 250_000", "0 0"),
        ("'` `` ' * 200_000", "0 0"),
        ("' '.join('`' * length for length in range(1, 3000))", "0 0"),
    ],
)
def test_hostile_markdown_is_parsed_in_linear_time(text: str, found: str) -> None:
    """Quadratic time is minutes here: the child would be killed when it has used 20 seconds of the CPU."""
    command = [sys.executable, "-c", HOSTILE.format(text=text)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, found)

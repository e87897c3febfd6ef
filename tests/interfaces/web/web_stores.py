"""The store that tests of the page share."""

import random
from datetime import UTC, datetime, timedelta

from fourfold import Memory, NewItem, Settings
from fourfold.cli.demo import fill, judge
from fourfold.embed import OpenAISettings, create
from fourfold.evaluation.bench import CachedEmbedder

HOSTILE = (
    "<script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "\u202etxet sdrawkcab\u202c and \u2066isolated",
    "</pre></dialog><a href='javascript:document.title=1'>link</a>",
)
SPOKES = 230


def make_demo(folder, vectors):
    """`vectors`: a cache of them, which the tests of the evaluation share."""
    model = create("builtin", openai=OpenAISettings())
    assert model is not None
    with Memory.open(folder, embedder=CachedEmbedder(model, vectors), settings=Settings(), background=False) as memory:
        fill(memory)
    judge(Settings(store=str(folder)))
    with Memory.open(folder, settings=Settings(embedder="none")) as memory:
        _add_files(memory.within("files"), folder.parent / f"{folder.name}-files")
        _add_hostile(memory.within("hostile"))
        _add_hub(memory.within("hub"))


def _add_files(memory, documents):
    """Files with several chunks each, and copies of a text."""
    documents.mkdir(exist_ok=True)
    for name in ("router", "printer", "door"):
        parts = [f"# Part {n} of the {name}\n\n" + f"How the {name} works in office {n}. " * 12 for n in range(6)]
        (documents / f"{name}.md").write_text("\n\n".join(parts), encoding="utf-8")
    (documents / "copy.md").write_text((documents / "door.md").read_text(encoding="utf-8"), encoding="utf-8")
    memory.index_folders([documents])


def _add_hostile(memory):
    memory.add_many([NewItem(f"{text} hostile", title=f"{text} title", tags=(text,)) for text in HOSTILE])
    memory.add(NewItem("hostile " + "very long words " * 65_000, title="a megabyte"))
    memory.add_node(HOSTILE[0], aliases=("hostile",))


def _add_hub(memory):
    memory.add_edges([("Hub", "has", f"Spoke {number}", 1.0) for number in range(SPOKES)])
    memory.add_edges([("Spoke 1", "leads to", "End", 1.0)])
    memory.add(NewItem("Spoke 1 stands beside the Hub", title="About spokes"))


def many_items(count):
    """Items with vectors, tags, kinds and ages, the same in every run."""
    chance = random.Random(7)
    words = [f"word{number}" for number in range(800)]
    now = datetime(2026, 11, 1, tzinfo=UTC)
    return [
        NewItem(
            " ".join(chance.choices(words, k=30)),
            title=f"Item {number}",
            key=f"item-{number}",
            tags=tuple(chance.sample(words[:60], k=3)),
            kind=chance.choice(("note", "decision", "howto")),
            created_at=now - timedelta(days=chance.randrange(700)),
            vector=[chance.gauss(0, 1) for _ in range(32)],
        )
        for number in range(count)
    ]

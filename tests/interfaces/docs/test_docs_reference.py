"""The reference is complete: a parameter, field, command, setting, limit or error that it lacks fails a test."""

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from docs_pages import PAGES, REFERENCE, quoted, row, rows, section
from engine_support import WordEmbedder

import fourfold
from fourfold import Filters, ItemPatch, Memory, MetadataTest, NewItem, Settings, config, errors, limits
from fourfold.cli.commands import COMMANDS
from fourfold.cli.main import app
from fourfold.ranking.plan import PRESETS, Preset
from fourfold.retrieval import Contribution
from fourfold.wire import filters_json, response_json, why_json

pytestmark = pytest.mark.spec("S1.11")
LIMITS = [name for name in vars(limits) if name.isupper()]
ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type)]
PROGRAM: Any = app
VALUES = [kind for name in fourfold.__all__ if dataclasses.is_dataclass(kind := getattr(fourfold, name))]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "store", embedder="none") as opened:
        yield opened


# ---------------------------------------------------------------- the library


@pytest.mark.parametrize("name", list(inspect.signature(Memory.open).parameters))
def test_every_parameter_of_open_is_documented(name: str) -> None:
    assert row(section("Memory"), name)[2]


@pytest.mark.parametrize("name", fourfold.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    assert re.search(rf"`{name}\b", REFERENCE)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_every_field_of_every_value_is_documented(kind: type) -> None:
    documented = quoted(section("Values") + section("Response") + section("Settings"))
    words = {word for text in documented for word in text.replace(".", " ").split()}
    assert {field.name for field in dataclasses.fields(kind)} <= words


@pytest.mark.parametrize("kind", [NewItem, Filters])
def test_documented_defaults_of_values_are_correct(kind: Any) -> None:
    table = section("Values").partition(f"**`{kind.__name__}`**")[2].partition("\n\n**")[0]
    for field in dataclasses.fields(kind):
        default = json.dumps("") if (value := getattr(kind(), field.name)) == "" else str(value)
        assert row(table, field.name)[1] == f"`{default}`"


# ---------------------------------------------------------------- responses


def names(value: Any) -> set[str]:
    """Every key of a JSON value, at any depth."""
    match value:
        case dict():
            return set(value).union(*map(names, value.values()))
        case list():
            return set[str]().union(*map(names, value))
        case _:
            return set()


def test_every_field_of_a_response_is_documented(memory: Memory) -> None:
    memory.add(NewItem("hello world", title="Hello", tags=("greeting",), vector=[1.0, 0.0]))
    response = memory.search("hello greeting", vector=[1.0, 0.1], explain=True)
    degraded = memory.search("hello")
    assert response.results
    assert degraded.degraded
    fields = names(response_json(response)) | names(response_json(degraded))
    lines = {field.name for field in dataclasses.fields(Contribution)}
    assert fields | lines <= set(quoted(section("Response")))


def test_every_field_of_applied_filters_is_documented() -> None:
    now = datetime.now(UTC)
    everything = Filters(
        ("a",), True, now, now, "note", "en", "*.md", (MetadataTest("a", "eq", 1),), "b = 1", "user", "s"
    )
    assert len(filters_json(everything)) == len(dataclasses.fields(Filters))
    form = filters_json(everything) | {"where": "a form of the grammar"}
    assert names(form) <= set(quoted(row(section("Response"), "applied_filters")[2]))


def test_every_field_of_why_and_status_is_documented(memory: Memory) -> None:
    item = memory.add("hello world")
    why = why_json(memory.why(item.id, "hello"), "hello")
    assert set(why) - {"status", "query"} <= set(quoted(row(section("Values"), "Why")[1]))
    status = memory.status()
    documented = section("Memory").partition("**`status()`** has")[2].partition("\n\n")[0]
    assert names(status) - {"default"} <= set(quoted(documented))


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_is_documented(preset: Preset) -> None:
    table = section("Search").partition("\n[Ranking]")[2]
    weights = "per query" if preset.weights is None else ", ".join(map(str, preset.weights.values()))
    shown = [", ".join(preset.retrievers), weights, f"`{preset.fusion}`", str(preset.k), str(preset.top_k)]
    assert row(table, preset.name)[1:] == shown
    assert preset.name in row(section("Search").partition("\n[Ranking]")[0], "preset")[3]


# ---------------------------------------------------------------- the command line


def commands() -> dict[str, Any]:
    """All commands except groups that cannot be called themselves."""
    found = {name: PROGRAM.get_command(None, name) for name in COMMANDS}
    inner = {
        f"{group} {name}": command
        for group, held in found.items()
        for name in getattr(held, "places", ())
        if (command := held.get_command(None, name)) is not None
    }
    return {name: held for name, held in found.items() if getattr(held, "invoke_without_command", True)} | inner


SAID_BY_THEIR_NAMES = {"--limit", "--offset", "--speaker", "--weight"}


@pytest.mark.parametrize(("name", "command"), commands().items())
def test_every_command_is_documented_and_explains_its_options(name: str, command: Any) -> None:
    assert row(section("Command line"), name)[1]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    assert {option.opts[0] for option in options if not (option.help or option.hidden)} <= SAID_BY_THEIR_NAMES


def test_every_global_option_is_documented() -> None:
    for option in PROGRAM.params:
        assert option.opts[0] in section("Command line").partition("| command |")[0]


# ---------------------------------------------------------------- settings, limits, errors


@pytest.mark.parametrize("name", config.SETTINGS)
def test_every_setting_is_documented(name: str, tmp_path: Path) -> None:
    (empty := tmp_path / "empty.yaml").touch()
    setting, value = config.SETTINGS[name], config.load({}, {}, empty).shown()[name].value
    _, variables, default, preset, *_ = row(section("Settings"), name)
    assert quoted(variables) == [f"FOURFOLD_{name.replace('.', '_').upper()}", *filter(None, [setting.variable])]
    assert quoted(preset) == ([setting.preset] if setting.preset else [])
    if name not in ("store", "top_k"):  # these depend on the user, and on the preset
        shown = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        assert default.strip("`") == (", ".join(shown) if isinstance(shown, tuple) else str(shown))


def test_documented_settings_all_exist() -> None:
    assert {field.name for field in dataclasses.fields(Settings)} - {"plan"} <= config.SETTINGS.keys()
    assert {quoted(cells[0])[0] for cells in rows(section("Settings"))[1:]} == config.SETTINGS.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_documented_with_its_value(name: str) -> None:
    _, value, what, past = row(section("Limits"), name)
    assert value == str(getattr(limits, name))
    assert what
    assert past


PAST: dict[str, Callable[[Memory], object]] = {
    "QUERY_BYTES": lambda memory: memory.search("x" * (limits.QUERY_BYTES + 1)),
    "TOP_K": lambda memory: memory.search("x", top_k=limits.TOP_K + 1),
    "ITEM_BYTES": lambda memory: memory.add("x" * (limits.ITEM_BYTES + 1)),
    "METADATA_BYTES": lambda memory: memory.add(NewItem("x", metadata={"x": "x" * limits.METADATA_BYTES})),
    "NAME_BYTES": lambda memory: memory.add(NewItem("x", key="x" * (limits.NAME_BYTES + 1))),
    "TAGS": lambda memory: memory.add(NewItem("x", tags=tuple(map(str, range(limits.TAGS + 1))))),
    "SOURCES": lambda memory: memory.add(NewItem("x", source_ids=tuple(range(1, limits.SOURCES + 2)))),
    "LARGEST_ID": lambda memory: memory.get([limits.LARGEST_ID + 1]),
    "VECTOR_DIMENSIONS": lambda memory: memory.search("x", vector=[1.0] * (limits.VECTOR_DIMENSIONS + 1)),
    "NEIGHBOR_DEPTH": lambda memory: memory.neighbors("x", depth=limits.NEIGHBOR_DEPTH + 1),
    "PATH_DEPTH": lambda memory: memory.path("x", "y", max_depth=limits.PATH_DEPTH + 1),
    "PAGE_SIZE": lambda memory: memory.list(limit=limits.PAGE_SIZE + 1),
}


@pytest.mark.parametrize("name", PAST)
def test_exceeding_a_limit_raises_the_documented_error(name: str, memory: Memory) -> None:
    documented = getattr(errors, quoted(row(section("Limits"), name)[3])[0])
    with pytest.raises(documented):
        PAST[name](memory)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_is_documented_with_its_exit_code(kind: type[errors.FourfoldError]) -> None:
    _, code, when = row(section("Errors"), kind.__name__)
    assert code == str(kind.exit_code)
    assert when


# ---------------------------------------------------------------- files


def test_every_record_of_an_export_is_documented(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "store", embedder=WordEmbedder(), background=False) as memory:
        memory.add("Sentences follow each other. " * 200, wait=True)  # a long item, whose vectors have spans
        original = memory.add_raw("so they said")
        now = datetime.now(UTC)
        later = now + timedelta(days=1)
        fact = NewItem("Alpha again", occurred_at=now, expires_at=later, subject="Alpha", attribute="name")
        plain, stored = memory.add_many([NewItem("a", title="Alpha", source_ids=(original.id,)), fact])
        memory.update(stored.id, ItemPatch(text="Alpha once more"))
        memory.update(plain.id, ItemPatch(text="b"))
        memory.add_edge("Alpha", "knows", "Beta")
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "note.md").write_text("a note")
        memory.index_folders([tmp_path / "files"])
        memory.export(tmp_path / "export.jsonl")
    header, *records = [json.loads(line) for line in (tmp_path / "export.jsonl").read_text("utf-8").splitlines()]
    assert json.dumps(header, separators=(",", ":")) in section("Export format")
    table = section("Export format")
    assert [quoted(cells[0])[0] for cells in rows(table)[1:]] == list(dict.fromkeys(each["type"] for each in records))
    for kind in dict.fromkeys(record["type"] for record in records):
        keys = {key for record in records if record["type"] == kind for key in record} - {"type"}
        assert set(quoted(row(table, kind)[1])) - {"null"} == keys


def test_every_field_of_an_import_row_is_documented(memory: Memory, tmp_path: Path) -> None:
    line = {
        "_id": "k", "title": "t", "text": "x", "tags": ["a"], "type": "note", "metadata": {"n": 1}, "language": "de",
        "created_at": "2026-01-02T03:04:05", "embedding": [1.0, 0.0], "occurred_at": "2026-01-01",
        "expires_at": "2999-01-02T03:04:05Z", "subject": "s", "attribute": "a",
    }  # fmt: skip
    assert line.keys() <= set(quoted(section("Rows for import")))
    (tmp_path / "rows.jsonl").write_text(json.dumps(line), "utf-8")
    assert memory.import_file(tmp_path / "rows.jsonl") == {"item": 1}
    (item,) = memory.get(["key:k"])
    assert (item.title, item.text, item.tags, item.kind, item.metadata) == ("t", "x", ("a",), "note", {"n": 1})
    assert (item.language, item.created_at) == ("de", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert (item.source, item.subject, item.attribute) == ("import", "s", "a")
    assert (item.occurred_at, item.expires_at) == (
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2999, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


def test_every_field_of_a_patch_is_documented() -> None:
    text = section("Values").partition("**`ItemPatch`**")[2].partition("\n\n")[0]
    assert {field.name for field in dataclasses.fields(ItemPatch)} <= set(quoted(text))


def test_readme_links_every_page() -> None:
    readme = PAGES[0].read_text("utf-8")
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in readme] == []

"""Retrievers, filter fields and search options are described once; every interface derives from the descriptions."""

import dataclasses
import inspect
import json
import re
import runpy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcp import Client

from fourfold import AsyncMemory, Filters, Memory, NewItem, Settings
from fourfold.cli.main import main
from fourfold.engine.retrievers import SemanticRetriever, register, unregister
from fourfold.fields import COLUMNS, Column, FilterOption, filter_options
from fourfold.ranking.options import OPTIONS
from fourfold.ranking.retrievers import RETRIEVERS, RetrieverSpec, register_spec
from fourfold.retrieval import Hit, Query, Ranking
from fourfold.serve.mcp.server import build

ROOT = Path(__file__).parents[2]
FOUR = ["semantic", "keyword", "graph", "tags"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The command line over a store with two items: exit code, stdout, stderr."""
    monkeypatch.setenv("FOURFOLD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("FOURFOLD_EMBEDDER", "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with Memory.open(tmp_path / "store", embedder="none") as memory:
        memory.add_many(
            [NewItem("where the bikes stand", title="Bicycle cellar"), NewItem("who cooks when", title="Kitchen rota")]
        )

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main(arguments)
        return int(left.value.code or 0), *capfd.readouterr()

    return call


async def tools(store: Path) -> dict[str, Any]:
    """The schema of each tool's arguments."""
    server, _ = build(lambda: Settings(store=str(store), embedder="none"), "all")
    async with Client(server) as client:
        return {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}


# ---------------------------------------------------------------- a fifth retriever


@pytest.fixture
def fifth() -> Iterator[None]:
    """The worked example of CONTRIBUTING.md."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M | re.S)
    exec(compile(code, "CONTRIBUTING.md", "exec"), {"__name__": "example"})
    yield
    if "trigram" in RETRIEVERS:
        unregister("trigram")


MISSPELT = "Bycicle celer"


@pytest.mark.usefixtures("fifth")
def test_a_fifth_retriever_is_in_the_json_of_a_search(run: Run) -> None:
    code, out, _ = run("search", MISSPELT, "--json")
    answer = json.loads(out)
    (found,) = answer["results"]
    assert (code, found["title"]) == (0, "Bicycle cellar")
    assert list(answer["applied_weights"]) == [*FOUR, "trigram"]
    assert answer["applied_weights"]["trigram"] == 1.0
    assert (answer["trigram_results_count"], found["trigram_rank"]) == (1, 1)
    assert 0.2 < found["trigram_score"] < 1
    assert found["fts_rank"] is None
    assert "trigram" in answer["timings_ms"]


@pytest.mark.usefixtures("fifth")
def test_a_fifth_retriever_explains_its_part_of_a_score(run: Run) -> None:
    _, out, _ = run("search", f"{MISSPELT} bikes", "--explain")
    lines = re.findall(r"(trigram|keyword): rank 1, (\w+) [\d.]+; weight ([\d.]+) x 1", out)
    assert [line[:2] for line in lines] == [("keyword", "BM25"), ("trigram", "overlap")]
    weights = [float(line[2]) for line in lines]
    assert weights == pytest.approx([1 / 1.3, 0.3 / 1.3], abs=1e-3), "its share beside that of words"
    assert "trigram 1" in out, "its rank is in the list of results"


@pytest.mark.usefixtures("fifth")
def test_a_fifth_retriever_can_be_weighted_and_chosen(run: Run) -> None:
    for options in (("--only", "trigram"), ("--weights", "trigram=1"), ("--fusion", "rrf", "--weights", "trigram=1")):
        code, out, _ = run("search", MISSPELT, "--json", *options)
        answer = json.loads(out)
        assert (code, answer["method"], answer["applied_weights"]["trigram"]) == (0, "trigram", 1.0), options
    code, _, err = run("search", MISSPELT, "--weights", "colour=1")
    assert code == 1
    assert "any of semantic, keyword, graph, tags, trigram that sum to 1" in err
    _, out, _ = run("search", "--help")
    assert " ".join(out.split()).count("semantic, keyword, graph, tags, trigram") == 2, "--weights and --only"


@pytest.mark.usefixtures("fifth")
def test_why_says_that_a_fifth_retriever_did_not_find_an_item(run: Run) -> None:
    _, out, _ = run("why", "2", MISSPELT)
    assert "trigram: the title shares too few letters with the query" in out
    _, out, _ = run("why", "1", MISSPELT)
    assert re.search(r"trigram: rank 1 of 1, overlap 0\.\d+", out)


@pytest.mark.usefixtures("fifth")
async def test_a_fifth_retriever_is_in_the_schema_and_the_answers_of_tools(tmp_path: Path, run: Run) -> None:
    schema = (await tools(tmp_path / "store"))["hybrid_search"]
    assert schema["weights"]["description"].startswith("Of semantic, keyword, graph, tags, trigram;")
    server, _ = build(lambda: Settings(store=str(tmp_path / "store"), embedder="none"), "core")
    async with Client(server) as client:
        asked = {"query_text": MISSPELT, "explain": True, "weights": {"trigram": 1}}
        answer = json.loads((await client.call_tool("hybrid_search", asked)).content[0].text)  # type: ignore[union-attr]
    assert answer["results"][0]["trigram_rank"] == 1


@pytest.mark.usefixtures("fifth")
async def test_nothing_is_left_of_a_retriever_that_was_unregistered(tmp_path: Path, run: Run) -> None:
    unregister("trigram")
    code, _, err = run("search", MISSPELT, "--only", "trigram")
    assert code == 1
    assert "The retrievers are semantic, keyword, graph, tags" in err
    assert "trigram" not in (await tools(tmp_path / "store"))["hybrid_search"]["weights"]["description"]


@pytest.mark.parametrize("log_odds", [0.0, 6.5])
def test_a_fifth_retriever_with_absolute_evidence_raises_the_confidence(log_odds: float) -> None:
    """By its description alone."""

    class Sure:
        name = "sure"

        def search(self, query: Query, limit: int) -> Ranking:
            return Ranking((Hit(1, 1.0), Hit(2, 0.1)))

    spec = RetrieverSpec("sure", "what is certain", missed="nothing is", share=0.5, scale="absolute", log_odds=log_odds)
    register(spec, lambda _: Sure())
    try:
        with Memory.open(":memory:", embedder="none") as memory:
            memory.add_many([NewItem("where the bikes stand"), NewItem("the kitchen rota")])
            found = {result.item.id: result.confidence for result in memory.search("weather").results}
    finally:
        unregister("sure")
    assert (found[1] > 0.9) is (log_odds > 0)
    assert found[2] < 0.1


@pytest.mark.parametrize("name", ["semantic", "walk", "fts_rank", "semantic_similarity", "two words", ""])
def test_a_name_that_is_taken_cannot_be_registered(name: str) -> None:
    with pytest.raises(ValueError, match="the retrievers are semantic, keyword, graph, tags"):
        register_spec(RetrieverSpec(name, "", missed="", share=0.1))
    assert list(RETRIEVERS) == FOUR


def test_a_vector_only_engine_needs_the_two_methods_of_vectors(tmp_path: Path) -> None:
    class InMemory:
        """Vectors outside of the store."""

        def __init__(self, vectors: dict[int, list[float]]) -> None:
            self._vectors = {item: np.array(vector) for item, vector in vectors.items()}

        def begin_nearest(self, vector: Any, limit: int, filters: Filters) -> Callable[[], Ranking]:
            return lambda: Ranking(self.cosines(vector, list(self._vectors)).hits[:limit])

        def cosines(self, vector: Any, ids: Sequence[int]) -> Ranking:
            hits = [Hit(item, float(self._vectors[item] @ vector)) for item in ids if item in self._vectors]
            return Ranking(sorted(hits, key=lambda hit: (-hit.score, hit.id)))

    engine = InMemory({1: [1.0, 0.0], 2: [0.0, 1.0]})
    with Memory.open(tmp_path, embedder="none", retrievers=lambda store: [SemanticRetriever(engine)]) as memory:
        memory.add_many([NewItem("wheels"), NewItem("pans")])
        response = memory.search("cooking", vector=[0.0, 1.0])
        best = response.results[0]
        assert (best.item.text, best.contributions[0].raw) == ("pans", 1.0)
        assert memory.search("wheels", only=["keyword"]).results[0].item.text == "wheels"


def test_contributing_names_files_that_exist() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("| change | files")[2].partition("\n\n")[0]
    named = [name for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", table) if "/" in name]
    assert len(named) >= 15
    assert [name for name in named if not (ROOT / "src" / "fourfold" / name).exists()] == []


# ---------------------------------------------------------------- search options


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_search_takes_exactly_the_described_options(kind: Any) -> None:
    first, text, *parameters = inspect.signature(kind.search).parameters.values()
    assert (first.name, text.name) == ("self", "text")
    assert [parameter.name for parameter in parameters] == list(OPTIONS)
    for parameter in parameters:
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default is (False if OPTIONS[parameter.name].holds == "flag" else None)


def test_why_takes_exactly_the_options_that_explain() -> None:
    _, item, text, *parameters = inspect.signature(Memory.why).parameters
    assert (item, text) == ("item", "text")
    assert parameters == [name for name, option in OPTIONS.items() if option.explains]


def test_the_command_line_has_every_option_that_has_a_flag(run: Run) -> None:
    _, out, _ = run("search", "--help")
    flags = re.findall(r"^  (--?[a-z-]+)", out, re.M)
    described = [option.flag for option in (*OPTIONS.values(), *filter_options().values()) if option.flag]
    assert flags == [*described, "--json", "-h"]


async def test_tools_have_every_option_that_has_an_argument(tmp_path: Path) -> None:
    schema = (await tools(tmp_path))["hybrid_search"]
    listed = [option.argument for option in OPTIONS.values() if option.argument and option.listed]
    filters = [option.name for option in filter_options().values() if option.listed]
    assert sorted(schema) == sorted([*listed, *filters, "query_text"])
    for option in OPTIONS.values():
        if option.argument and option.listed:
            form = schema[option.argument]
            assert form["description"] == option.advised
            assert (form.get("minimum"), form.get("maximum")) == (option.least, option.most)
            assert form.get("enum", []) == list(option.choices)


def test_settings_of_options_take_what_the_options_take() -> None:
    from fourfold.config import SETTINGS

    assert [name for name, option in OPTIONS.items() if option.setting] == ["top_k", "preset", "rerank", "time"]
    assert SETTINGS["preset"].kind.wanted == f"one of {', '.join(OPTIONS['preset'].choices)}, or a tuned preset"
    assert [SETTINGS["top_k"].kind.accepts(value) for value in (0, 1, 100, 101)] == [False, True, True, False]
    asked = ("off", False, "auto", "ms-marco", "endpoint", "onnx:models/own", "onnx:", "ms", "", True, None)
    assert [SETTINGS["rerank"].kind.accepts(value) for value in asked] == [True] * 6 + [False] * 5


def test_the_tables_of_the_reference_are_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "reference_tables.py"))
    pages = script["reference_pages"]()
    assert script["updated"](pages) == pages, "run python scripts/reference_tables.py"


# ---------------------------------------------------------------- filter fields


def test_every_field_of_filters_is_a_described_option() -> None:
    assert {field.name for field in dataclasses.fields(Filters)} == filter_options().keys()


@pytest.fixture
def body(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter field for a column that stores have, but that no filter tests."""
    option = FilterOption(
        "body", "--body", "TEXT", help="Only this text.", requires="have it", advice="Is it.", listed=True
    )
    monkeypatch.setitem(COLUMNS, "text", Column("text", "text", ("body",), (option,)))


@pytest.mark.usefixtures("body")
def test_a_new_filter_field_is_one_description() -> None:
    with Memory.open(":memory:", embedder="none") as memory:
        memory.add_many([NewItem("one", kind="a"), NewItem("two", kind="a"), NewItem("three", kind="b")])
        assert [item.text for item in memory.list("text != one and kind = a")] == ["two"]
        assert [item.text for item in memory.list({"body": {"in": ["one", "three"]}})] == ["three", "one"]
        assert [item.text for item in memory.list(Filters.of_options({"body": "two", "kind": "a"}))] == ["two"]
        assert memory.list(Filters.of_options({"body": "two", "where": "kind = b"})) == []


@pytest.mark.usefixtures("body")
async def test_a_new_filter_field_is_an_option_and_an_argument(tmp_path: Path, run: Run) -> None:
    _, out, _ = run("list", "--json", "--body", "who cooks when")
    assert [item["title"] for item in json.loads(out)["items"]] == ["Kitchen rota"]
    schema = (await tools(tmp_path / "store"))["list_memories"]
    assert schema["body"] == {"description": "Is it.", "type": "string"}
    assert "source, text or keys of the metadata" in schema["where"]["description"]
    server, _ = build(lambda: Settings(store=str(tmp_path / "store"), embedder="none"), "core")
    async with Client(server) as client:
        answer = await client.call_tool("list_memories", {"body": "who cooks when", "tags": []})
    assert json.loads(answer.content[0].text)["total"] == 1  # type: ignore[union-attr]

